// The network: nodes, links, and the packets in their queues.
import { drawn, on_width, set, size, write } from './dom.js';
import { plural } from './format.js';
import { laid_out } from './layout.js';

/// Length of a packet in a queue, and the most of a link that its queue covers.
const PACKET = 3.5, SHARE = 0.42;
/// Of more links, the lines are thin.
const MANY = 120;
const KEYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/// Returns the links between each pair of nodes.
const edges_of = ({ links }) => {
  const edges = new Map();
  links.forEach((link, at) => {
    const key = `${Math.min(link.from, link.to)} ${Math.max(link.from, link.to)}`;
    if (!edges.has(key)) edges.set(key, []);
    edges.get(key).push(at);
  });
  return [...edges.values()].map((links) => ({ links }));
};

export class Graph {
  #network;
  #svg;
  #nodes = [];
  #edges;
  #edge_of = [];
  /// What arrow keys move between: `{ element, x, y, act }`.
  #stops = [];
  #drawn = null;

  /// `on_node` and `on_link` are called with an index; the latter with those of all links of a pair
  /// of nodes.
  constructor(host, network, { on_node, on_link }) {
    this.#network = network;
    this.#edges = edges_of(network);
    this.#svg = drawn('svg', { role: 'group', 'aria-label': 'Network: arrow keys move between nodes and links' });
    if (this.#edges.length > MANY) this.#svg.classList.add('many');
    host.replaceChildren(this.#svg);
    this.#make(on_node, on_link);
    on_width(host, (width) => this.#place(width));
    this.#svg.addEventListener('keydown', (event) => this.#key(event));
  }

  #make(on_node, on_link) {
    const { nodes, links } = this.#network;
    for (const edge of this.#edges) {
      const [first] = edge.links;
      const names = edge.links.map((at) => links[at])
        .map(({ name, from, to }) => `${name}: ${nodes[from].name} to ${nodes[to].name}`);
      edge.hit = drawn('line', { class: 'hit' });
      edge.line = drawn('line', { class: 'wire' });
      edge.title = drawn('title');
      write(edge.title, names.join('\n'));
      edge.queues = new Map();
      /// Marks of failed directions, by link.
      edge.failed = new Map();
      edge.element = drawn('g', {
        class: `edge${links[first].is_radio ? ' radio' : ''}`,
        role: 'button',
        tabindex: -1,
        'aria-label': `link ${names.join('; ')}`,
      }, edge.title, edge.hit, edge.line);
      edge.links.forEach((at) => { this.#edge_of[at] = edge; });
      this.#stops.push({ element: edge.element, act: () => on_link(edge.links) });
    }
    nodes.forEach((node, at) => {
      const title = drawn('title');
      const circle = drawn('circle'), label = drawn('text', { 'aria-hidden': true });
      write(title, `${node.name}, ${node.role}${node.is_program ? ', a program' : ''}`);
      const element = drawn('g', {
        class: `node ${node.role}${node.is_program ? ' program' : ''}`, role: 'button', tabindex: -1,
        'aria-pressed': false, 'aria-label': title.textContent,
      }, title, circle, label);
      // The square around a program.
      if (node.is_program) element.insertBefore(drawn('rect'), circle);
      this.#nodes.push({ element, circle, label });
      this.#stops.push({ element, act: () => on_node(at) });
    });
    this.#stops.forEach((stop) => {
      stop.element.addEventListener('click', () => {
        this.#visit(stop);
        stop.act();
      });
    });
    // Links lie behind nodes; keys start at a node.
    this.#svg.append(...this.#edges.map((it) => it.element), ...this.#nodes.map((it) => it.element));
    (this.#nodes[0] ?? this.#edges[0])?.element.setAttribute('tabindex', 0);
  }

  #place(width) {
    const { height, places, headings } = laid_out(this.#network, width);
    const { links } = this.#network;
    size(this.#svg, width, height);
    this.#edges.forEach((edge, at) => {
      const [from, to] = [links[edge.links[0]].from, links[edge.links[0]].to].map((node) => places[node]);
      const ends = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
      set(edge.hit, ends);
      set(edge.line, ends);
      edge.places = places;
      edge.queues.forEach((line) => line.remove());
      edge.queues.clear();
      edge.failed.forEach((line) => line.remove());
      edge.failed.clear();
      Object.assign(this.#stops[at], { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 });
    });
    this.#nodes.forEach(({ element, circle, label }, at) => {
      const { x, y, radius, is_dot, label: text } = places[at];
      set(circle, { cx: x, cy: y, r: radius });
      set(label, { x, y });
      write(label, text);
      element.classList.toggle('dot', is_dot);
      const frame = element.querySelector('rect');
      if (frame) set(frame, { x: x - radius - 3, y: y - radius - 3, width: 2 * radius + 6, height: 2 * radius + 6, rx: 3 });
      Object.assign(this.#stops[this.#edges.length + at], { x, y });
    });
    this.#svg.querySelectorAll('.heading').forEach((it) => it.remove());
    this.#svg.append(...headings.map(({ x, y, text }) => {
      const heading = drawn('text', { class: 'heading', x, y, 'aria-hidden': true });
      write(heading, text);
      return heading;
    }));
    const state = this.#drawn;
    this.#drawn = null;
    if (state) this.show(state);
  }

  /// Draws the links of a frame.
  show(links) {
    const before = this.#drawn;
    this.#drawn = links;
    links.forEach((now, at) => {
      const old = before?.[at];
      // Also the end of a mark of drops.
      if (old && !this.#edge_of[at].is_dropping && now.every((value, field) => value === old[field])) return;
      const edge = this.#edge_of[at];
      this.#draw_queue(edge, at, now[0] ?? 0);
      edge.is_changed = true;
      edge.is_dropping_now ||= Boolean(old) && [3, 4, 5].some((field) => now[field] > old[field]);
    });
    for (const edge of this.#edges) {
      if (!edge.is_changed) continue;
      edge.links.forEach((at) => this.#draw_failed(edge, at, !links[at][6]));
      edge.element.classList.toggle('down', edge.links.some((at) => !links[at][6]));
      edge.element.classList.toggle('dropping', edge.is_dropping_now);
      Object.assign(edge, { is_dropping: edge.is_dropping_now, is_dropping_now: false, is_changed: false });
    }
  }

  /// Draws the half of a failed link at the end that sends, since the other direction may work.
  #draw_failed(edge, at, is_down) {
    edge.failed.get(at)?.remove();
    edge.failed.delete(at);
    if (!is_down || !edge.places) return;
    const { from, to, name } = this.#network.links[at];
    const [a, b] = [edge.places[from], edge.places[to]];
    const ends = { x1: a.x, y1: a.y, x2: (a.x + b.x) / 2, y2: (a.y + b.y) / 2 };
    const title = drawn('title');
    write(title, `${name} has failed`);
    const mark = drawn('g', {}, title, drawn('line', { class: 'cover', ...ends }), drawn('line', { class: 'failed', ...ends }));
    edge.failed.set(at, mark);
    edge.line.after(mark);
  }

  #draw_queue(edge, at, packets) {
    let line = edge.queues.get(at);
    if (!packets) return line?.setAttribute('visibility', 'hidden');
    if (!edge.places) return undefined;
    const { from, to } = this.#network.links[at];
    const [a, b] = [edge.places[from], edge.places[to]];
    if (!line) {
      line = drawn('line', { class: 'queue' });
      line.append(drawn('title'));
      edge.queues.set(at, line);
      edge.element.append(line);
    }
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    // From the edge of the sender's circle.
    const start = Math.min(length / 2, a.radius + 3), end = start + Math.min(SHARE * length, PACKET * packets);
    const along = (distance) => [a.x + (b.x - a.x) * distance / length, a.y + (b.y - a.y) * distance / length];
    const [[x1, y1], [x2, y2]] = [along(start), along(end)];
    set(line, { x1, y1, x2, y2, visibility: 'visible' });
    write(line.firstChild, `${this.#network.links[at].name}: ${plural(packets, 'packet')} in queue`);
    return undefined;
  }

  /// Marks chosen nodes, given as a map to the numbers of their colours.
  choose(chosen) {
    this.#nodes.forEach(({ element }, at) => {
      element.setAttribute('aria-pressed', chosen.has(at));
      if (chosen.has(at)) element.dataset.colour = chosen.get(at);
      else delete element.dataset.colour;
    });
  }

  select_link(link) {
    this.#svg.querySelector('.edge.selected')?.classList.remove('selected');
    this.#edge_of[link]?.element.classList.add('selected');
  }

  #visit(stop) {
    this.#svg.querySelectorAll('[tabindex="0"]').forEach((it) => it.setAttribute('tabindex', -1));
    stop.element.setAttribute('tabindex', 0);
    stop.element.focus({ preventScroll: true });
  }

  #key(event) {
    const stop = this.#stops.find((it) => it.element === event.target);
    if (!stop || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Enter') {
      event.preventDefault();
      stop.act();
    } else if (KEYS[event.key]) {
      event.preventDefault();
      const next = this.#nearest(stop, KEYS[event.key]);
      if (!next) return;
      this.#visit(next);
      next.element.scrollIntoView({ block: 'nearest' });
    }
  }

  /// Returns the nearest node or link in a direction; a step to the side counts double.
  #nearest(stop, [right, down]) {
    let best = null, least = Infinity;
    for (const it of this.#stops) {
      const [x, y] = [it.x - stop.x, it.y - stop.y];
      const ahead = x * right + y * down;
      const distance = ahead + 2 * Math.abs(x * down + y * right);
      if (it !== stop && ahead > 1 && distance < least) [best, least] = [it, distance];
    }
    return best;
  }
}
