// The last messages of the chosen nodes as a sequence diagram: time runs down, an arrow is a
// message.
import { drawn, made, on_width, size, write } from './dom.js';
import { plural, time } from './format.js';

/// Width of a letter of the messages, and most letters of one.
const LETTER = 6.7, LETTERS = 100;
const LEFT = 58, RIGHT = 16, SENT = 21, END = 13, COLUMNS = 7;

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
  #list = drawn('g', { role: 'presentation' });
  #items = new Map();
  #width = 0;
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
    this.#body.append(this.#lanes, this.#list);
    host.replaceChildren(made('div', { className: 'head' }, this.#head), this.#body);
    on_width(host, (width) => {
      this.#width = width;
      this.#draw();
    });
    this.#body.addEventListener('keydown', (event) => this.#key(event));
  }

  /// `chosen` is a map of nodes to the numbers of their colours.
  show(messages, chosen) {
    this.#shown = { messages, chosen };
    this.#draw();
  }

  #draw() {
    if (!this.#shown || !this.#width) return;
    const { messages, chosen } = this.#shown;
    const is_at_end = this.#scroll.scrollTop + this.#scroll.clientHeight > this.#scroll.scrollHeight - 30;
    const lanes = this.#lanes_of(messages, chosen);
    const { tops, height } = this.#rows(messages);
    const [first, last] = [messages[0]?.at ?? 0, messages.at(-1)?.at ?? 0];
    this.#digits = last >= 10_000 ? 1 : last - first < 1 ? 5 : 3;
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
    if (is_at_end && !this.#list.contains(document.activeElement)) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  /// Returns the place of each node: the chosen ones, and their most frequent peers. The others
  /// share the key null.
  #lanes_of(messages, chosen) {
    const counts = new Map();
    for (const node of messages.flatMap((it) => [it.from, it.to])) {
      if (!chosen.has(node)) counts.set(node, (counts.get(node) ?? 0) + 1);
    }
    const peers = [...counts].sort(([a, more], [b, count]) => count - more || a - b).map(([node]) => node);
    const fitting = Math.max(2, Math.min(COLUMNS, Math.floor((this.#width - LEFT) / 70)) - chosen.size);
    const nodes = [...chosen.keys(), ...(peers.length > fitting ? peers.slice(0, fitting - 1) : peers)].sort(this.#order);
    if (peers.length > fitting) nodes.push(null);
    const gap = (this.#width - LEFT - RIGHT) / Math.max(1, nodes.length);
    return new Map(nodes.map((node, at) => [node, LEFT + (at + 0.5) * gap]));
  }

  /// Returns the height of each event: one row each, in order of time.
  #rows(messages) {
    const events = messages.flatMap((message) => [message, ...message.ends]);
    events.sort((a, b) => a.at - b.at || (a.kind === 'sent' ? 0 : 1) - (b.kind === 'sent' ? 0 : 1));
    const tops = new Map();
    let height = 4;
    for (const event of events) {
      height += event.kind === 'delivered' ? END : SENT;
      tops.set(event, height);
    }
    return { tops, height: height + 22 };
  }

  #draw_lanes(lanes, chosen, height) {
    const width = this.#width;
    size(this.#head, width, 24);
    size(this.#body, width, height);
    const colour = (node) => chosen.has(node) ? { 'data-colour': chosen.get(node) } : {};
    const room = lanes.size ? (width - LEFT - RIGHT) / lanes.size / 7.4 : 0;
    this.#head.replaceChildren(...[...lanes].map(([node, x]) => {
      const name = node === null ? 'others' : this.#network.nodes[node].name;
      const text = drawn('text', { x, y: 16, 'text-anchor': 'middle', ...colour(node) });
      write(text, name.length > room ? `${name.slice(0, Math.max(1, room - 1))}…` : name);
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
    const room = label.length * LETTER + 9, [before, behind] = [from - LEFT, this.#width - from];
    const is_right = to >= from ? behind >= room || behind >= before : before < room && behind > before;
    const key = JSON.stringify([from, to, top, message.ends.map((it) => tops.get(it)), this.#width, this.#digits]);
    item.message = message;
    if (item.key === key) return;
    item.key = key;
    const { element } = item;
    element.setAttribute('class', `message${message.is_retransmission ? ' again' : ''}`);
    element.setAttribute('aria-label', this.#details(message).map(([name, text]) => `${name} ${text}`).join(', '));
    const when = drawn('text', { class: 'when', x: LEFT - 8, y: top + 4, 'text-anchor': 'end' });
    write(when, message.at.toFixed(this.#digits));
    const text = text_beside(from, top - 3, is_right, 'what', label);
    const mark = message.is_retransmission
      ? drawn('path', { class: 'start', d: `M${from - 4.5} ${top}l4.5 -4.5l4.5 4.5l-4.5 4.5z` })
      : drawn('circle', { class: 'start', cx: from, cy: top, r: 3.2 });
    const arrows = message.ends.length
      ? message.ends.flatMap((end) => this.#arrow(from, to, top, tops.get(end), end))
      // Under way: to a part of the distance.
      : [drawn('path', { class: 'under-way', d: `M${from} ${top}L${from + (to - from) * 0.45} ${top + 9}` })];
    // The area that the pointer meets.
    const area = drawn('rect', { class: 'area', x: 0, y: top - 12, width: this.#width, height: SENT });
    element.replaceChildren(area, when, ...arrows, mark, text);
  }

  #arrow(from, to, top, bottom, end) {
    if (end.kind === 'dropped') {
      const [x, y] = [from + (to - from) * 0.55, bottom];
      return [
        drawn('path', { class: 'arrow lost', d: `M${from} ${top}L${x} ${y}` }),
        drawn('path', { class: 'cross', d: `M${x - 4} ${y - 4}l8 8m0 -8l-8 8` }),
        text_beside(x, y + 4, to >= from, 'drop', end.reason ?? 'dropped'),
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
    const end = ({ kind, at, reason, link, is_duplicate }) => kind === 'delivered'
      ? [is_duplicate ? 'duplicate delivered' : 'delivered', `${time(at)} (${((at - message.at) * 1000).toFixed(1)} ms later)`]
      : ['dropped', `${time(at)}${link === null ? '' : ` by ${links[link].name}`}${reason ? `: ${reason}` : ''}`];
    return [
      [message.is_retransmission ? 'retransmission' : 'message', message.text],
      ['from', `${nodes[message.from].name} to ${nodes[message.to].name}`],
      ['size', plural(message.size, 'byte')],
      ['sent', time(message.at)],
      ...message.ends.map(end),
      ...(message.ends.length ? [] : [['state', 'under way']]),
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
