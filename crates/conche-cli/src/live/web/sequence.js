// The last messages of the chosen nodes as a sequence diagram: time runs down, an arrow is a
// message.
import { drawn, made, on_width, size, write } from './dom.js';
import { exact, plural, short } from './format.js';

/// Width of a letter of the messages, and most letters of one.
const LETTER = 6.7, LETTERS = 100;
/// Width of a letter of the other texts.
const NARROW = 6.3;
const RIGHT = 16, SENT = 21, END = 13, COLUMNS = 8;
/// Reasons that are too long for the picture; the details have the whole.
const SHORT = new Map([
  ["dropped by the queue's management", 'queue management'],
  ['unacknowledged by the next hop', 'unacknowledged'],
]);

/// Returns a name of at most this length, with its number.
const fitted = (name, length) => {
  if (name.length <= length) return name;
  const [, stem, number] = name.match(/^(.*?)(\[\d+\])?$/s);
  return `${stem.slice(0, Math.max(number ? 0 : 1, Math.floor(length) - 1 - (number ?? '').length))}…${number ?? ''}`;
};

const text_beside = (x, y, is_right, of, text) => {
  const element = drawn('text', { class: of, x: x + (is_right ? 9 : -9), y, 'text-anchor': is_right ? 'start' : 'end' });
  write(element, text);
  return element;
};

export class Sequence {
  #network;
  #order;
  #on_details;
  #scroll;
  #head = drawn('svg', { 'aria-hidden': true });
  #body = drawn('svg', { role: 'listbox', 'aria-label': 'Messages: up and down keys move between them' });
  #lanes = drawn('g', { class: 'lanes' });
  #gaps = drawn('g', { class: 'gaps', role: 'presentation' });
  #list = drawn('g', { role: 'presentation' });
  #items = new Map();
  #width = 0;
  /// Room of the times.
  #left = 58;
  /// Whether the diagram stays at the latest message.
  #is_at_end = true;
  /// Heights of the last layout.
  #measured = '';
  /// Digits of times after the decimal point.
  #digits = 3;
  #shown = null;

  /// `hops` orders the nodes from left to right; `on_details` receives pairs of name and text.
  constructor(host, network, hops, on_details) {
    this.#network = network;
    this.#order = (a, b) => hops[b] - hops[a] || a - b;
    this.#on_details = on_details;
    this.#scroll = host;
    host.tabIndex = -1;
    this.#body.append(this.#lanes, this.#gaps, this.#list);
    host.replaceChildren(made('div', { className: 'head' }, this.#head), this.#body);
    on_width(host, (width) => {
      this.#width = width;
      this.#draw();
    });
    host.addEventListener('scroll', () => {
      // A new layout also scrolls.
      if (this.#measures() !== this.#measured) this.#follow();
      else this.#is_at_end = host.scrollTop + host.clientHeight > host.scrollHeight - 30;
    });
    // Also of a new height.
    new ResizeObserver(() => this.#follow()).observe(host);
    this.#body.addEventListener('keydown', (event) => this.#key(event));
  }

  /// `chosen` is a map of nodes to the numbers of their colours; `gaps` are the ends of times
  /// without events.
  show(messages, chosen, gaps) {
    this.#shown = { messages, chosen, gaps };
    this.#draw();
  }

  #draw() {
    if (!this.#shown || !this.#width) return;
    const { messages, chosen, gaps } = this.#shown;
    const [first, last] = [messages[0]?.at ?? 0, messages.at(-1)?.at ?? 0];
    this.#digits = last >= 10_000 ? 1 : last - first < 1 ? 5 : 3;
    this.#left = Math.max(58, Math.ceil(last.toFixed(this.#digits).length * NARROW + 14));
    const lanes = this.#lanes_of(messages, chosen);
    const { tops, height } = this.#rows(messages, gaps);
    this.#draw_lanes(lanes, chosen, height);
    const kept = new Set(messages.map((it) => it.id));
    for (const [id, item] of this.#items) {
      if (kept.has(id)) continue;
      // The focus does not fall back to the top of the page.
      if (item.element === document.activeElement) this.#scroll.focus({ preventScroll: true });
      item.element.remove();
      this.#items.delete(id);
    }
    let after = null;
    for (const message of messages) {
      const item = this.#items.get(message.id) ?? this.#make(message.id);
      // An element that moves in the tree loses the focus.
      const follows = after ? after.nextSibling : this.#list.firstChild;
      if (follows !== item.element) this.#list.insertBefore(item.element, follows);
      after = item.element;
      this.#draw_message(item, message, lanes, tops);
    }
    if (messages.length && !this.#list.querySelector('[tabindex="0"]')) this.#list.lastChild.setAttribute('tabindex', 0);
    this.#follow();
  }

  #measures() { return `${this.#scroll.clientHeight} ${this.#scroll.scrollHeight}`; }

  #follow() {
    this.#measured = this.#measures();
    if (this.#is_at_end && !this.#list.contains(document.activeElement)) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  /// Returns the place of each node: the chosen ones, and their most frequent peers. The others
  /// share the key null.
  #lanes_of(messages, chosen) {
    const counts = new Map();
    for (const node of messages.flatMap((it) => [it.from, it.to])) {
      if (!chosen.has(node)) counts.set(node, (counts.get(node) ?? 0) + 1);
    }
    const peers = [...counts].sort(([a, more], [b, count]) => count - more || a - b).map(([node]) => node);
    const fitting = Math.max(2, Math.min(COLUMNS, Math.floor((this.#width - this.#left) / 70)) - chosen.size);
    const nodes = [...chosen.keys(), ...(peers.length > fitting ? peers.slice(0, fitting - 1) : peers)].sort(this.#order);
    if (peers.length > fitting) nodes.push(null);
    const gap = (this.#width - this.#left - RIGHT) / Math.max(1, nodes.length);
    return new Map(nodes.map((node, at) => [node, this.#left + (at + 0.5) * gap]));
  }

  /// Returns the height of each event: one row each, in order of time. Gaps between them have rows.
  #rows(messages, gaps) {
    const first = messages[0]?.at ?? Infinity;
    const missing = gaps.filter((it) => it.at > first).map((it) => ({ ...it, kind: 'gap' }));
    const events = [...missing, ...messages.flatMap((message) => [message, ...message.ends])];
    const order = { gap: 0, sent: 1, delivered: 2, dropped: 2 };
    events.sort((a, b) => a.at - b.at || order[a.kind] - order[b.kind]);
    const tops = new Map(), rows = [];
    let height = 4, gap = null;
    for (const event of events) {
      if (event.kind === 'gap') {
        // Gaps without a shown event between them are one.
        if (!gap) rows.push(gap = { top: height += SENT, omitted: 0 });
        gap.omitted += event.omitted;
        continue;
      }
      gap = null;
      height += event.kind === 'delivered' ? END : SENT;
      tops.set(event, height);
    }
    this.#gaps.replaceChildren(...rows.map(({ top, omitted }) => {
      const text = drawn('text', { x: this.#width / 2, y: top + 4, 'text-anchor': 'middle' });
      write(text, `… ${omitted ? plural(omitted, 'event') : 'events'} of all nodes left out`);
      return text;
    }));
    return { tops, height: height + 22 };
  }

  #draw_lanes(lanes, chosen, height) {
    const width = this.#width;
    size(this.#head, width, 24);
    size(this.#body, width, height);
    const colour = (node) => chosen.has(node) ? { 'data-colour': chosen.get(node) } : {};
    const room = lanes.size ? (width - this.#left - RIGHT) / lanes.size / 8.2 : 0;
    this.#head.replaceChildren(...[...lanes].map(([node, x]) => {
      const name = node === null ? 'others' : this.#network.nodes[node].name;
      const text = drawn('text', { x, y: 16, 'text-anchor': 'middle', ...colour(node) });
      write(text, fitted(name, room));
      const title = drawn('title');
      write(title, name);
      text.append(title);
      return text;
    }));
    this.#lanes.replaceChildren(...[...lanes].map(([node, x]) => drawn('path', { d: `M${x} 0V${height}`, ...colour(node) })));
  }

  #make(id) {
    const element = drawn('g', { class: 'message', role: 'option', tabindex: -1 });
    const item = { element };
    const tell = () => this.#on_details(this.#details(item.message));
    element.addEventListener('focus', tell);
    element.addEventListener('pointerenter', tell);
    element.addEventListener('click', () => this.#visit(element));
    this.#items.set(id, item);
    return item;
  }

  #draw_message(item, message, lanes, tops) {
    const x = (node) => lanes.get(node) ?? lanes.get(null);
    const [from, to, top] = [x(message.from), x(message.to), tops.get(message)];
    const label = this.#label(message, lanes);
    // The text lies toward the receiver, if there is room.
    const room = label.length * LETTER + 9, [before, behind] = [from - this.#left, this.#width - from];
    const is_right = to >= from ? behind >= room || behind >= before : before < room && behind > before;
    const key = JSON.stringify([from, to, top, message.ends.map((it) => tops.get(it)), message.is_unknown, this.#width, this.#left, this.#digits]);
    item.message = message;
    if (item.key === key) return;
    item.key = key;
    const { element } = item;
    element.setAttribute('class', `message${message.is_retransmission ? ' again' : ''}`);
    element.setAttribute('aria-label', this.#details(message).map(([name, text]) => `${name} ${text}`).join(', '));
    const when = drawn('text', { class: 'when', x: this.#left - 8, y: top + 4, 'text-anchor': 'end' });
    write(when, message.at.toFixed(this.#digits));
    const text = text_beside(from, top - 3, is_right, 'what', label);
    const mark = message.is_retransmission
      ? drawn('path', { class: 'start', d: `M${from - 4.5} ${top}l4.5 -4.5l4.5 4.5l-4.5 4.5z` })
      : drawn('circle', { class: 'start', cx: from, cy: top, r: 3.2 });
    const arrows = message.ends.length
      ? message.ends.flatMap((end) => this.#arrow(from, to, top, tops.get(end), end))
      // Under way: to a part of the distance.
      : this.#open_arrow(from, to, top, message.is_unknown);
    // The area that the pointer meets.
    const area = drawn('rect', { class: 'area', x: 0, y: top - 12, width: this.#width, height: SENT });
    element.replaceChildren(area, when, ...arrows, mark, text);
  }

  #open_arrow(from, to, top, is_unknown) {
    const [x, y] = [from + (to - from) * 0.45, top + 9];
    const path = drawn('path', { class: 'under-way', d: `M${from} ${top}L${x} ${y}` });
    return is_unknown ? [path, text_beside(x - (to >= from ? 5 : -5), y + 4, to >= from, 'when', '?')] : [path];
  }

  /// On the side of the receiver, or else on the other one, or cut.
  #reason(x, y, is_right, reason) {
    const [before, behind] = [x - 12, this.#width - x - 12].map((room) => Math.floor(room / NARROW));
    const is_behind = reason.length <= (is_right ? behind : before) ? is_right : behind >= before;
    const room = is_behind ? behind : before;
    return text_beside(x, y, is_behind, 'drop', reason.length > room ? `${reason.slice(0, Math.max(1, room - 1))}…` : reason);
  }

  #arrow(from, to, top, bottom, end) {
    if (end.kind === 'dropped') {
      const [x, y] = [from + (to - from) * 0.55, bottom];
      return [
        drawn('path', { class: 'arrow lost', d: `M${from} ${top}L${x} ${y}` }),
        drawn('path', { class: 'cross', d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }),
        this.#reason(x, y + 4, to >= from, SHORT.get(end.reason) ?? end.reason ?? 'dropped'),
      ];
    }
    const angle = Math.atan2(bottom - top, to - from);
    const side = (turn) => `${to - 8 * Math.cos(angle + turn)} ${bottom - 8 * Math.sin(angle + turn)}`;
    return [
      drawn('path', { class: `arrow${end.is_duplicate ? ' duplicate' : ''}`, d: `M${from} ${top}L${to} ${bottom}` }),
      drawn('path', { class: 'point', d: `M${to} ${bottom}L${side(0.38)}L${side(-0.38)}z` }),
    ];
  }

  #label(message, lanes) {
    const other = [message.from, message.to].find((node) => !lanes.has(node));
    const name = other === undefined ? '' : ` (${this.#network.nodes[other].name})`;
    const text = message.text ?? '';
    const shown = text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text;
    return `${message.is_retransmission ? '↻ ' : ''}${shown}${name}`;
  }

  #details(message) {
    const { nodes, links } = this.#network;
    const state = (node, rto, srtt) => rto === undefined || rto === null ? ''
      : `; then ${node} has RTO ${short(rto)} s${typeof srtt === 'number' ? `, SRTT ${short(srtt)} s` : ''}`;
    const [sender, receiver] = [nodes[message.from].name, nodes[message.to].name];
    const end = ({ kind, at, reason, link, is_duplicate, rto_s, srtt_s }) => kind === 'delivered'
      ? [is_duplicate ? 'duplicate delivered' : 'delivered', `${exact(at)} (${((at - message.at) * 1000).toFixed(1)} ms later${state(receiver, rto_s, srtt_s)})`]
      : ['dropped', `${exact(at)}${link === null ? '' : ` by ${links[link].name}`}${reason ? `: ${reason}` : ''}`];
    return [
      [message.is_retransmission ? `retransmission${message.attempt ? ` ${message.attempt}` : ''}` : 'message', message.text],
      ['from', `${sender} to ${receiver}`],
      ['size', plural(message.size, 'byte')],
      ['sent', `${exact(message.at)}${state(sender, message.rto_s, message.srtt_s)}`],
      ...message.ends.map(end),
      ...(message.ends.length ? [] : [['state', message.is_unknown ? 'unknown: its end was left out' : 'under way']]),
    ];
  }

  #visit(element) {
    this.#list.querySelectorAll('[tabindex="0"]').forEach((it) => it.setAttribute('tabindex', -1));
    element.setAttribute('tabindex', 0);
    element.focus({ preventScroll: true });
  }

  #key(event) {
    const here = event.target.closest('.message');
    const next = {
      ArrowUp: here?.previousSibling, ArrowDown: here?.nextSibling, Home: this.#list.firstChild, End: this.#list.lastChild,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    this.#visit(next);
    next.querySelector('.area').scrollIntoView({ block: 'nearest' });
  }
}
