// The run so far, in bounded memory: series of paths and links, and the last messages of each node.

/// Of all series together: 32 MB.
const VALUES = 8e6;
const SAMPLES = 6000;
/// Of each node.
export const MESSAGES = 40;
/// Messages that are still under way, and changes of links.
const UNFINISHED = 4096, CHANGES = 200;

const is_sender = (network, node) => network.paths.some((it) => it.from === node);

export class Record {
  count = 0;
  /// The last frame.
  frame = null;
  /// Largest queue of each link, in packets.
  peaks;
  /// Times at which the settings or the state of a link changed: `{ at, text }`.
  changes = [];
  /// Messages left out by the command.
  omitted = 0;
  #network;
  #capacity;
  #messages;
  #unfinished = new Map();

  constructor(network) {
    const { nodes, links, paths } = network;
    const senders = nodes.map((_, node) => is_sender(network, node));
    const series = 3 * paths.length + links.length + 4;
    this.#network = network;
    this.#capacity = Math.max(600, Math.min(SAMPLES, Math.floor(VALUES / series)));
    const column = () => new Float32Array(this.#capacity);
    this.times = new Float64Array(this.#capacity);
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
    this.#add_links(frame, at);
    this.#add_paths(frame, at);
    frame.messages.forEach((it) => this.#add_message(it));
    this.omitted += frame.omitted;
    this.frame = frame;
  }

  #add_links(frame, at) {
    const drops = [0, 0, 0];
    frame.links.forEach(([packets, , , ...rest], link) => {
      this.queue[link][at] = packets ?? NaN;
      this.peaks[link] = Math.max(this.peaks[link], packets ?? 0);
      drops.forEach((_, kind) => { drops[kind] += rest[kind]; });
      const is_up = rest[3];
      if (this.frame && this.frame.links[link][6] !== is_up) {
        this.#add_change(frame.t, `${this.#network.links[link].name} ${is_up ? 'up' : 'down'}`);
      }
    });
    drops.forEach((count, kind) => { this.drops[kind][at] = count; });
    for (const { link, ...settings } of frame.changed) {
      Object.assign(this.#network.links[link], settings);
      const text = Object.entries(settings).map(([name, value]) => `${name} ${value}`).join(', ');
      this.#add_change(frame.t, `${this.#network.links[link].name}: ${text}`);
    }
  }

  #add_change(at, text) {
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
      if (this.#unfinished.size > UNFINISHED) this.#unfinished.delete(this.#unfinished.keys().next().value);
      return;
    }
    // The message can be older than the history that this page has received. A copy that a link
    // made has the id of its original.
    this.#unfinished.get(event.id)?.ends.push(event);
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
    for (const column of [this.times, this.total, ...this.rto, ...this.srtt, ...this.queue, ...senders, ...this.drops]) {
      for (let to = 0; to < kept; to++) column[to] = column[2 * to];
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
