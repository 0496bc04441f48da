// The page of the live view: receives the frames of a run, and draws them.
import { $, made, write } from './dom.js';
import { Controls } from './controls.js';
import { duration, exact, plural, time } from './format.js';
import { Graph } from './graph.js';
import { hops } from './layout.js';
import { LinkPanel } from './link.js';
import { Charts } from './plot.js';
import { Record } from './record.js';
import { Sequence } from './sequence.js';

/// Nodes, and links, that the charts show at a time.
const CHOSEN = 6;
/// Paths of a node that the charts show.
const PATHS = 3;
/// Nodes that are chosen at first.
const CHOSEN_FIRST = 2;
const RETRY_MS = 2000, HISTORY_MS = 1000;
/// Names of links in a text; more are counted.
const NAMES = 3;
/// Text of an own change stays for this time.
const OWN_MS = 1500;
const RTO_DASHES = ['', '9 3', '9 3 2 3'], SRTT_DASH = '4 3';

const STATES = {
  paused: 'Paused. Play or Space starts the run, Step or . goes to the next message of the chosen nodes.',
  running: 'Running.',
  ended: 'The run ended. The page keeps what it has received.',
};

const report = (text, is_wrong = false) => {
  write($('status'), text);
  $('status').classList.toggle('wrong', is_wrong);
};
/// Returns the number at the end of a line, for readers without its colour.
const mark = (colour) => String(colour + 1);
const report_problem = (text) => report(text, true);

class View {
  #network;
  #record;
  #controls;
  #graph;
  #panel;
  #charts;
  #sequence;
  /// Chosen nodes and the numbers of their colours.
  #chosen = new Map();
  /// Links in the chart of queues, and the numbers of their colours.
  #queues = new Map();
  #is_waiting = false;
  #is_connected = true;
  #state = '';
  /// When the user of this page last changed a link.
  #changed_at = -Infinity;

  constructor(network) {
    this.#network = network;
    this.#record = new Record(network);
    this.#controls = new Controls(network, () => [...this.#chosen.keys()], report);
    this.#graph = new Graph($('graph'), network, {
      on_node: (node) => this.#toggle(node),
      on_link: (links) => this.#panel.select_next(links),
    });
    this.#panel = new LinkPanel(network, (link) => {
      this.#graph.select_link(link);
      this.#draw_soon();
    }, (text) => {
      this.#changed_at = performance.now();
      report(text);
    });
    this.#charts = new Charts($('plots'), [
      { title: 'RTO of the next exchange and smoothed RTT, in s', empty: '', least: 1 },
      { title: 'Queues, in packets', empty: 'No packet was in a queue at the time of a frame.', least: 2 },
      { title: 'Retransmissions since the start', empty: '', is_counter: true, least: 4 },
      { title: 'Dropped packets of all links since the start', empty: '', is_counter: true, least: 4, has_axis: true },
    ]);
    this.#sequence = new Sequence($('sequence'), network, hops(network), (details) => this.#show_details(details));
    this.#show_network();
    this.#choose_first();
    $('windows').addEventListener('change', () => this.#draw_soon());
    $('hold').addEventListener('change', () => this.#draw_soon());
  }

  /// Number and time of the last frame, if one has come.
  get last() { return this.#record.frame; }

  add(frame) {
    const { last } = this;
    this.#record.add(frame);
    this.#show_changes(frame.t);
    this.#draw_soon();
    // A slow page misses frames, and the changes in them.
    if (last && frame.n > last.n + 1) this.#read_settings();
  }

  /// Reports changes by the scenario or another page.
  #show_changes(at) {
    const links_of = new Map();
    for (const { link, text } of this.#record.latest_changes) links_of.set(text, [...links_of.get(text) ?? [], link]);
    if (!links_of.size || performance.now() - this.#changed_at < OWN_MS) return;
    const texts = [...links_of].slice(0, NAMES).map(([text, links]) => `${this.#panel.names(links)}: ${text}`);
    report(`Changed at ${exact(at)}: ${texts.join('; ')}${links_of.size > NAMES ? '; …' : ''}.`);
  }

  async #read_settings() {
    try {
      const { links } = await (await fetch('network')).json();
      links.forEach(({ rate, delay, loss }, at) => Object.assign(this.#network.links[at], { rate, delay, loss }));
      this.#draw_soon();
    } catch {
      // The stream reports a lost connection.
    }
  }

  set_connected(is_connected) {
    this.#is_connected = is_connected;
    this.#show_state();
  }

  #show_state() {
    const state = this.#is_connected ? this.#state : 'connection lost';
    write($('state'), state);
    $('state').className = state.replaceAll(' ', '-');
  }

  #show_network() {
    const { scenario, scheme, cell = scheme, seed, limit_s, nodes } = this.#network;
    document.title = `${scenario}, ${cell} – conche live`;
    write($('what'), `${scenario} · ${cell} · seed ${seed}${limit_s === null ? '' : ` · time limit ${duration(limit_s)}`}`);
    $('lateness').hidden = this.#network.is_simulation;
    $('nodes').append(...nodes.flatMap(({ name, is_program, role }, at) => role === 'router' ? [] :
      [made('option', { value: at, textContent: is_program ? `${name} (program)` : name })]));
    $('nodes').addEventListener('change', () => {
      const { value } = $('nodes');
      $('nodes').value = '';
      if (value !== '' && !this.#chosen.has(Number(value))) this.#toggle(Number(value));
    });
  }

  #choose_first() {
    const { paths, nodes } = this.#network;
    const which = (test) => nodes.flatMap((it, at) => test(it) ? [at] : []);
    const programs = which((it) => it.is_program), senders = paths.map((it) => it.from);
    const clients = which((it) => it.role === 'client' || it.role === 'both');
    [...new Set([...programs, ...senders, ...clients])].slice(0, CHOSEN_FIRST).forEach((node) => this.#toggle(node));
  }

  #toggle(node) {
    const { name, role } = this.#network.nodes[node];
    if (role === 'router') {
      report_problem(`${name} is a router, which sends no messages: choose a client or a server.`);
      return;
    }
    if (this.#chosen.has(node)) {
      this.#chosen.delete(node);
    } else {
      if (this.#chosen.size === CHOSEN) {
        report_problem(`At most ${CHOSEN} nodes are chosen at a time: remove one first.`);
        return;
      }
      const taken = new Set(this.#chosen.values());
      this.#chosen.set(node, Array.from({ length: CHOSEN }, (_, at) => at).find((colour) => !taken.has(colour)));
    }
    this.#graph.choose(this.#chosen);
    $('chosen').replaceChildren(...[...this.#chosen].map(([node, colour]) => {
      const { name } = this.#network.nodes[node];
      const remove = made('button', { type: 'button', textContent: '✕', title: `Remove ${name}`, ariaLabel: `Remove ${name}` });
      remove.addEventListener('click', () => {
        this.#toggle(node);
        $('nodes').focus();
      });
      const item = made('li', {}, made('span', { textContent: `${colour + 1} ${name}` }), remove);
      item.dataset.colour = colour;
      return item;
    }));
    this.#draw_soon();
  }

  /// Draws once for all frames that come before the next picture.
  #draw_soon() {
    if (this.#is_waiting) return;
    this.#is_waiting = true;
    requestAnimationFrame(() => {
      this.#is_waiting = false;
      this.#draw();
    });
  }

  #draw() {
    const record = this.#record, { frame } = record;
    if (!frame) return;
    if (frame.state !== this.#state) {
      this.#state = frame.state;
      report(STATES[frame.state]);
    }
    this.#show_state();
    write($('time'), time(frame.t));
    if (frame.lateness_ms !== null) write($('lateness'), `Lateness: 99 % within ${frame.lateness_ms.toFixed(2)} ms`);
    this.#controls.show(frame);
    this.#graph.show(frame.links);
    this.#panel.show(frame);
    const span = document.querySelector('[name=window]:checked').value;
    this.#charts.show(record, span === 'all' ? null : Number(span), this.#lines());
    write($('omitted'), record.omitted ? `${plural(record.omitted, 'event')} left out: too fast` : '');
    if (!$('hold').checked) this.#sequence.show(record.messages_of([...this.#chosen.keys()]), this.#chosen, record.gaps);
  }

  /// Returns the paths from a node, or else to it: first those of chosen peers.
  #paths_of(node) {
    const { paths, nodes } = this.#network;
    const of = (end, other) => paths.flatMap((it, at) => it[end] === node && !nodes[it.from].is_program ? [{ at, is_first: this.#chosen.has(it[other]) }] : []);
    const from = of('from', 'to');
    const own = from.length ? from : of('to', 'from');
    return [...own.filter((it) => it.is_first), ...own.filter((it) => !it.is_first)].map((it) => it.at);
  }

  #lines() {
    const record = this.#record, { nodes, paths, links } = this.#network;
    const chosen = [...this.#chosen];
    const rto = new Map(), notes = [];
    for (const [node, colour] of chosen) {
      const own = this.#paths_of(node);
      if (own.length > PATHS) notes.push(`${nodes[node].name}: ${PATHS} of ${own.length} paths; chosen peers come first.`);
      own.slice(0, PATHS).filter((path) => !rto.has(path)).forEach((path, at) => {
        const { from, to } = paths[path];
        const name = own.length > 1 || from !== node ? `${nodes[from].name} to ${nodes[to].name}` : nodes[from].name;
        const line = (quantity, values, dash) =>
          ({ label: `${name} ${quantity}`, colour, mark: mark(colour), values, dash, unit: ' s' });
        const both = [line('RTO', record.rto[path], RTO_DASHES[at]), line('SRTT', record.srtt[path], SRTT_DASH)];
        // Some controllers estimate no RTT.
        rto.set(path, record.has_srtt[path] ? both : both.slice(0, 1));
      });
    }
    const retransmissions = chosen.filter(([node]) => record.retransmissions[node])
      .map(([node, colour]) => ({ label: nodes[node].name, colour, mark: mark(colour), values: record.retransmissions[node] }));
    const [lost, queue, other] = record.drops;
    return [
      Object.assign([...rto.values()].flat(), { note: this.#rto_note(rto.size, notes) }),
      this.#queued().map(([link, colour]) => ({ label: links[link].name, colour, mark: mark(colour), values: record.queue[link] })),
      [...retransmissions, { label: 'all nodes', colour: 'all', values: record.total }],
      [
        { label: 'lost', colour: 1, values: lost },
        { label: 'queue drops', colour: 0, values: queue, dash: '7 3' },
        { label: 'other drops', colour: 'all', values: other, dash: '2 3' },
      ],
    ];
  }

  #rto_note(count, notes) {
    if (count) return ['Timeout of the next exchange, without the backoff of the current one.', ...notes].join(' ');
    return [...this.#chosen.keys()].some((node) => this.#network.nodes[node].is_program)
      ? 'The RTO of a program is unknown: choose a simulated client.' : 'Choose a simulated node that sends.';
  }

  /// Returns the links of the longest queues, and the selected one.
  #queued() {
    const { peaks } = this.#record, { selected } = this.#panel;
    const queued = peaks.flatMap((peak, link) => peak > 0 && link !== selected ? [link] : []);
    queued.sort((a, b) => peaks[b] - peaks[a] || a - b);
    const shown = [...(selected === null ? [] : [selected]), ...queued].slice(0, CHOSEN);
    for (const link of this.#queues.keys()) if (!shown.includes(link)) this.#queues.delete(link);
    const taken = new Set(this.#queues.values());
    for (const link of shown) {
      if (this.#queues.has(link)) continue;
      const colour = Array.from({ length: CHOSEN }, (_, at) => at).find((it) => !taken.has(it));
      taken.add(colour);
      this.#queues.set(link, colour);
    }
    return [...this.#queues].sort(([a], [b]) => a - b);
  }

  #show_details(details) {
    $('details').replaceChildren(...details.flatMap(([name, text]) => [made('b', { textContent: name }), ` ${text} `]));
  }
}

/// Returns a text that differs between runs. Settings of links change during a run.
const identity = ({ run, scenario, scheme, cell, seed, nodes, links, paths }) => JSON.stringify(
  [run, scenario, scheme, cell, seed, nodes, links.map(({ name, from, to }) => [name, from, to]), paths],
);

/// Receives frames, and opens the stream again when it breaks.
class Stream {
  #view;
  #identity;
  #source = { close() {} };
  #is_lost = false;
  #was_reported = false;
  #is_ended = false;
  #timer = 0;
  #retrying = 0;

  constructor(view, network) {
    this.#view = view;
    this.#identity = identity(network);
    addEventListener('visibilitychange', () => this.#change_visibility());
    this.#open();
  }

  async #reopen() {
    try {
      const network = await (await fetch('network', { signal: AbortSignal.timeout(RETRY_MS) })).json();
      if (identity(network) !== this.#identity) location.reload();
      else this.#open();
    } catch {
      this.#retry();
    }
  }

  #retry() {
    clearTimeout(this.#retrying);
    this.#retrying = setTimeout(() => { if (!document.hidden) this.#reopen(); }, RETRY_MS);
  }

  /// Closes the stream of a hidden page, since a browser opens at most six to an address. The
  /// history has the missed frames.
  #change_visibility() {
    if (this.#is_ended) return;
    if (!document.hidden) this.#reopen();
    else {
      clearTimeout(this.#timer);
      this.#source.close();
      this.#is_lost = true;
    }
  }

  /// Returns why the command refuses a stream, or an empty text.
  async #refusal() {
    const stop = new AbortController();
    try {
      const response = await fetch('events', { signal: stop.signal });
      return response.ok ? '' : (await response.json()).error ?? '';
    } catch {
      return '';
    } finally {
      stop.abort();
    }
  }

  #open() {
    clearTimeout(this.#retrying);
    this.#source.close();
    this.#source = new EventSource('events');
    let has_current = !this.#is_lost;
    let was_open = false;
    this.#source.onopen = () => {
      was_open = true;
      if (!this.#is_lost) return;
      this.#is_lost = false;
      if (this.#was_reported) report('Connected again.');
      this.#was_reported = false;
      this.#view.set_connected(true);
      // The history of the same run reaches the last frame: otherwise this is another run.
      this.#timer = setTimeout(() => { if (!has_current) location.reload(); }, HISTORY_MS);
    };
    this.#source.onmessage = ({ data }) => {
      const frame = JSON.parse(data);
      const { last } = this.#view;
      if (last && frame.n <= last.n) {
        if (frame.n === last.n && frame.t !== last.t) location.reload();
        has_current ||= frame.n === last.n;
        return;
      }
      has_current = true;
      this.#view.add(frame);
      // The command may exit now.
      if (frame.state === 'ended') {
        this.#is_ended = true;
        this.#source.close();
      }
    };
    this.#source.onerror = async () => {
      clearTimeout(this.#timer);
      this.#source.close();
      this.#is_lost = true;
      this.#view.set_connected(false);
      this.#retry();
      if (this.#was_reported) return;
      this.#was_reported = true;
      report_problem('The connection to the command is lost. The page tries again.');
      const reason = was_open ? '' : await this.#refusal();
      if (reason && this.#was_reported) report_problem(`${reason} The page tries again.`);
    };
  }
}

const start = async () => {
  let network;
  try {
    const response = await fetch('network');
    if (!response.ok) throw new Error((await response.json().catch(() => ({}))).error ?? `status ${response.status}`);
    network = await response.json();
  } catch (error) {
    report_problem(`The network cannot be loaded: ${error.message}`);
    return;
  }
  if (network.schema !== 1) {
    report_problem(`This page reads schema 1, and the command writes ${network.schema}: load the page again.`);
    return;
  }
  new Stream(new View(network), network);
};

start();
