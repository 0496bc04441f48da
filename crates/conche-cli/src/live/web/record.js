// The run so far, in bounded memory: series of paths and links, and the last messages of each node.

/// Of all series together: 32 MB.
const VALUES = 8e6;
const SAMPLES = 6000;
/// Of each node.
export const MESSAGES = 40;
/// Messages that are still under way, changes of links, and gaps in the messages.
const UNFINISHED = 4096, CHANGES = 200, GAPS = 200;

export class Record {
  count = 0;
  /// The last frame.
  frame = null;
  /// Largest queue of each link, in packets.
  peaks;
  /// Times of changes of the settings or the state of a link: `{ at, text }`.
  changes = [];
  /// Changes of the last frame: `{ link, text }`.
  latest_changes = [];
  /// Events of messages that the command left out.
  omitted = 0;
  /// Ends of times without such events, with their number: `{ at, omitted }`.
  gaps = [];
  #network;
  #capacity;
  #messages;
  #unfinished = new Map();

  constructor(network) {
    const { nodes, links, paths } = network;
    const senders = nodes.map((_, node) => paths.some((it) => it.from === node));
    const series = 2 * paths.length + links.length + senders.filter(Boolean).length + 7;
    this.#network = network;
    this.#capacity = Math.max(600, Math.min(SAMPLES, Math.floor(VALUES / series)));
    const column = () => new Float32Array(this.#capacity);
    this.times = new Float64Array(this.#capacity);
    /// Until when the values of the sample before each sample hold.
    this.held = new Float64Array(this.#capacity);
    /// From when on the values of each sample hold.
    this.settled = new Float64Array(this.#capacity);
    this.rto = paths.map(column);
    this.srtt = paths.map(column);
    /// Whether the path ever had an estimate.
    this.has_srtt = paths.map(() => false);
    this.queue = links.map(column);
    this.peaks = links.map(() => 0);
    /// By sending node; null for the others.
    this.retransmissions = senders.map((it) => it ? column() : null);
    this.total = column();
    /// Lost, dropped by queues, and other drops, of all links.
    this.drops = [column(), column(), column()];
    this.#messages = nodes.map(() => []);
  }

  /// Adds a frame that is newer than the others.
  add(frame) {
    const is_later = !this.count || frame.t > this.times[this.count - 1];
    if (is_later && this.count === this.#capacity) this.#thin();
    if (is_later) this.count += 1;
    const at = this.count - 1;
    this.times[at] = frame.t;
    // Values change with packets.
    const [first, last] = this.#is_complete(frame)
      ? [frame.messages[0], frame.messages.at(-1)] : [{ at: this.times[at - 1] ?? 0 }];
    if (is_later) this.held[at] = first?.at ?? frame.t;
    this.settled[at] = last?.at ?? frame.t;
    this.#add_links(frame, at);
    if (!this.#is_complete(frame)) this.#add_gap(frame);
    frame.messages.forEach((it) => this.#add_message(it));
    this.#add_paths(frame, at);
    this.frame = frame;
  }

  /// Returns whether the frame has all events since the last one.
  #is_complete(frame) { return !frame.omitted && (!this.frame || frame.n === this.frame.n + 1); }

  /// The command keeps the latest events of a frame, so the missing ones are earlier.
  #add_gap({ messages, omitted, t }) {
    this.omitted += omitted;
    this.gaps.push({ at: messages[0]?.at ?? t, omitted });
    if (this.gaps.length > GAPS) this.gaps.shift();
    for (const message of this.#unfinished.values()) message.is_unknown = !message.ends.length;
  }

  #add_links(frame, at) {
    const drops = [0, 0, 0];
    this.latest_changes = [];
    frame.links.forEach(([packets, , , ...rest], link) => {
      this.queue[link][at] = packets ?? NaN;
      this.peaks[link] = Math.max(this.peaks[link], packets ?? 0);
      drops.forEach((_, kind) => { drops[kind] += rest[kind]; });
      const is_up = rest[3];
      if (this.frame && this.frame.links[link][6] !== is_up) {
        this.#add_change(frame.t, link, is_up ? 'up' : 'down');
      }
    });
    drops.forEach((count, kind) => { this.drops[kind][at] = count; });
    for (const { link, ...settings } of frame.changed) {
      // A frame has all settings of the link. A page that loads knows the current ones, which the
      // history leads to.
      const known = this.#network.links[link], all = Object.entries(settings);
      const others = all.filter(([name, value]) => value !== known[name]);
      Object.assign(known, settings);
      const text = (others.length ? others : all).map(([name, value]) => `${name} ${value ?? 'none'}`).join(', ');
      this.#add_change(frame.t, link, text);
    }
  }

  #add_change(at, link, setting) {
    this.latest_changes.push({ link, text: setting });
    const text = `${this.#network.links[link].name}: ${setting}`;
    const last = this.changes.at(-1);
    if (last?.at === at) last.text = last.text.length < 300 ? `${last.text}\n${text}` : last.text;
    else this.changes.push({ at, text });
    if (this.changes.length > CHANGES) this.changes.shift();
  }

  #add_paths(frame, at) {
    let total = 0;
    const by_node = new Map();
    frame.paths.forEach(([rto, srtt, , , retransmissions], path) => {
      this.rto[path][at] = rto ?? NaN;
      this.srtt[path][at] = srtt ?? NaN;
      this.has_srtt[path] ||= srtt !== null;
      const { from } = this.#network.paths[path];
      by_node.set(from, (by_node.get(from) ?? 0) + retransmissions);
      total += retransmissions;
    });
    for (const [node, count] of by_node) this.retransmissions[node][at] = count;
    this.total[at] = total;
  }

  #add_message(event) {
    if (event.kind === 'sent') {
      const message = { ...event, ends: [] };
      this.#keep(event.from, message);
      if (event.to !== event.from) this.#keep(event.to, message);
      this.#unfinished.set(event.id, message);
      if (this.#unfinished.size > UNFINISHED) this.#give_up(this.#unfinished.values().next().value);
      return;
    }
    // The message can be older than the history that this page has received. A copy that a link
    // made has the id of its original.
    this.#unfinished.get(event.id)?.ends.push(event);
  }

  #give_up(message) {
    message.is_unknown = true;
    this.#unfinished.delete(message.id);
  }

  #keep(node, message) {
    const messages = this.#messages[node];
    messages.push(message);
    if (messages.length > MESSAGES) messages.shift();
  }

  /// Returns the last messages from or to these nodes, oldest first.
  messages_of(nodes) {
    const all = new Set(nodes.flatMap((node) => this.#messages[node]));
    return [...all].sort((a, b) => a.at - b.at || a.id - b.id).slice(-MESSAGES);
  }

  /// Makes room: drops every second sample of the older half, so that old times keep fewer.
  #thin() {
    const half = this.count >> 1, kept = half >> 1;
    const senders = this.retransmissions.filter(Boolean);
    for (const column of [this.times, this.held, this.settled, this.total, ...this.rto, ...this.srtt, ...this.queue, ...senders, ...this.drops]) {
      // The older values hold until the dropped sample.
      const shift = column === this.held ? 1 : 0;
      for (let to = 1; to < kept; to++) column[to] = column[2 * to - shift];
      column.copyWithin(kept, half, this.count);
    }
    this.count -= half - kept;
  }

  /// Returns the index of the last sample at or before a time, or 0.
  index_at(time) {
    let [low, high] = [0, this.count];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.times[middle] <= time) low = middle;
      else high = middle;
    }
    return low;
  }
}
