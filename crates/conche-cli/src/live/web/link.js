// The panel of the selected link: its counts, and changes of its settings.
import { $, made, write } from './dom.js';
import { Refused, send } from './controls.js';

const FIELDS = ['rate', 'delay', 'loss'];
/// Names in a text; more are counted.
const NAMES = 3;
/// Names of the counts, with their places in a frame.
const COUNTS = [['sent', 2], ['lost', 3], ['queue drops', 4], ['other drops', 5]];

export class LinkPanel {
  #network;
  #report;
  #on_select;
  #selected = null;
  #counts = new Map();
  #is_up = true;
  /// Fields that the user has changed since the last change was sent.
  #changed = new Set();
  #is_ended = false;
  #is_sending = false;

  /// `on_select` receives the index of the link, or null.
  constructor(network, on_select, report) {
    this.#network = network;
    this.#on_select = on_select;
    this.#report = report;
    $('links').append(...network.links.map(({ name, from, to }, at) =>
      made('option', { value: at, textContent: `${name}: ${network.nodes[from].name} → ${network.nodes[to].name}` })));
    $('links').addEventListener('change', () => this.select($('links').value === '' ? null : Number($('links').value)));
    for (const name of ['queued', ...COUNTS.map(([name]) => name)]) {
      const value = made('dd');
      this.#counts.set(name, value);
      $('counts').append(made('div', {}, made('dt', { textContent: name }), value));
    }
    for (const name of [...FIELDS, 'up']) {
      $(name).addEventListener('input', () => {
        this.#changed.add(name);
        this.#show_problem(name, '');
        this.#show_changed();
      });
      $(name).addEventListener('keydown', (event) => {
        if (event.key !== 'Escape' || !this.#changed.delete(name)) return;
        this.#show_problem(name, '');
        this.#fill();
      });
    }
    $('link-form').addEventListener('submit', (event) => {
      event.preventDefault();
      this.#apply();
    });
  }

  get selected() { return this.#selected; }

  /// Selects one of these links: the next one, if one of them is selected.
  select_next(links) { this.select(links[(links.indexOf(this.#selected) + 1) % links.length]); }

  /// Returns the names of links as a text.
  names(links) {
    const { links: all } = this.#network;
    if (links.length <= NAMES) return links.map((at) => all[at].name).join(', ');
    const groups = [...new Set(links.map((at) => all[at].group))];
    const is_whole = all.filter((it) => groups.includes(it.group)).length === links.length;
    return is_whole ? `all ${links.length} links of ${groups.join(', ')}` : `${links.length} links`;
  }

  /// Returns the links that a change reaches, as the command finds them.
  #reached(link, { both, group }) {
    const { links } = this.#network, { name, from, to } = links[link];
    const back = name.endsWith('>') ? `${name.slice(0, -1)}<` : name.endsWith('<') ? `${name.slice(0, -1)}>` : null;
    const named = links.findIndex((it) => it.name === back);
    const opposite = named >= 0 ? named : links.findIndex((it) => it.from === to && it.to === from);
    const own = both && opposite >= 0 ? [link, opposite] : [link];
    return group ? links.flatMap((it, at) => own.some((one) => links[one].group === it.group) ? [at] : []) : own;
  }

  select(link) {
    this.#selected = link;
    this.#changed.clear();
    $('links').value = link ?? '';
    $('link-body').hidden = link === null;
    $('link-hint').hidden = link !== null;
    this.#clear_problems();
    this.#on_select(link);
    if (link === null) return;
    const { group, can_change } = this.#network.links[link];
    write($('group-name'), `All of ${group}`);
    for (const name of FIELDS) $(name).disabled = !can_change;
    $('both').checked = $('group').checked = false;
    $('link-hint').hidden = can_change;
    if (!can_change) write($('link-hint'), 'The settings of this link cannot change during the run; it can go down and up.');
    this.#fill();
  }

  /// Shows the link of a frame.
  show(frame) {
    if (this.#selected === null) return;
    const [packets, bytes, ...counts] = frame.links[this.#selected];
    write(this.#counts.get('queued'), `${packets ?? '–'}${bytes ? ` (${bytes} B)` : ''}`);
    COUNTS.forEach(([name, at]) => write(this.#counts.get(name), String(counts[at - 2])));
    this.#is_up = counts[4];
    this.#is_ended = frame.state === 'ended';
    this.#fill();
  }

  /// Shows the settings, except in fields that the user has changed.
  #fill() {
    const link = this.#network.links[this.#selected];
    for (const name of FIELDS) {
      if (this.#changed.has(name)) continue;
      const value = link[name] ?? (link.can_change ? 'none' : '');
      if ($(name).value !== value) $(name).value = value;
    }
    if (!this.#changed.has('up')) $('up').checked = this.#is_up;
    this.#show_changed();
  }

  /// Marks the fields with other values than the link.
  #show_changed() {
    for (const name of [...FIELDS, 'up']) $(name).closest('label').classList.toggle('changed', this.#changed.has(name));
    $('apply').disabled = this.#is_ended;
    write($('unapplied'), this.#is_ended ? 'The run ended.' : this.#changed.size ? 'not applied' : '');
  }

  #show_problem(name, text) {
    const field = $(name);
    const place = $(`${name}-problem`);
    if (place) write(place, text);
    if (text) field.setAttribute('aria-invalid', true);
    else field.removeAttribute('aria-invalid');
  }

  #clear_problems() {
    FIELDS.forEach((name) => this.#show_problem(name, ''));
    write($('link-problem'), '');
  }

  async #apply() {
    if (this.#is_sending || this.#is_ended) return;
    const link = this.#selected;
    this.#clear_problems();
    if (!this.#changed.size) {
      write($('link-problem'), 'Change a field first.');
      return;
    }
    const control = { action: 'link', link, both: $('both').checked, group: $('group').checked };
    const sent = [...this.#changed];
    for (const name of sent) control[name] = name === 'up' ? $('up').checked : $(name).value.trim();
    // A disabled button would lose the focus.
    this.#is_sending = true;
    try {
      await send(control);
      if (this.#selected === link) sent.forEach((name) => this.#changed.delete(name));
      const settings = sent.map((it) => it === 'up' ? (control.up ? 'up' : 'down') : `${it} ${control[it]}`);
      this.#report(`Changed ${this.names(this.#reached(link, control))}: ${settings.join(', ')}.`);
    } catch (error) {
      if (this.#selected === link) this.#refuse(error, sent);
    } finally {
      this.#is_sending = false;
      this.#show_changed();
    }
  }

  /// Shows an error at the field that it names.
  #refuse(error, sent) {
    // As in `loss: …`; without a name, the error belongs to the only field.
    const name = error.message.match(/^(rate|delay|loss|up|both|group|link): /)?.[1] ?? (sent.length === 1 ? sent[0] : '');
    const field = sent.find((it) => it === name && FIELDS.includes(it));
    if (!field || !(error instanceof Refused)) {
      write($('link-problem'), error.message);
      return;
    }
    this.#show_problem(field, error.message);
    $(field).focus();
  }
}
