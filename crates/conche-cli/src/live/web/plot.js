// Charts over the time of the run, which share the time axis and a cursor.
import { drawn, made, on_width, set, size, write } from './dom.js';
import { short, time } from './format.js';

const LEFT = 46, RIGHT = 26, TOP = 7, AXIS = 20;
/// Width and height of the number of a line, and most numbers side by side.
const NUMBER = { width: 7, height: 8 }, NUMBERS = 3;
/// Pixels without samples that a line crosses as dots.
const GAP = 10;
/// Height of a chart: at least this, and more on a high screen with all panels side by side.
const HEIGHT = 104, WIDE = 1200, OTHERS = 445;

/// Returns about `count` round numbers from `low` to `high`.
const ticks = (low, high, count) => {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((it) => it * power >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(12)));
};

/// Returns the path of a series, and the path of its gaps: each value holds from the time in
/// `settled` to the one in `held` of the next sample. It may change several times in
/// between. Samples in one column of pixels become a line from the least to the greatest of them.
const trace = (values, { times, held, settled, count }, first, x, y) => {
  let path = '', gaps = '', column = 0, low = 0, high = 0, last = 0, is_open = false, is_pending = false;
  const flush = () => {
    if (!is_pending) return;
    // A single sample is a dot.
    path += is_open ? `H${column}` : `M${column - 1} ${y(last)}H${column}`;
    if (low !== high) path += `V${y(high)}V${y(low)}`;
    path += `V${y(last)}`;
    [is_open, is_pending] = [true, false];
  };
  for (let at = first; at < count; at++) {
    const value = values[at], place = x(times[at]);
    if (Number.isNaN(value)) {
      flush();
      if (is_open) path += `H${place}`;
      is_open = false;
      continue;
    }
    if (is_pending && place === column) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    } else {
      flush();
      const until = Math.max(column, x(held[at])), since = Math.max(until, Math.min(place, x(settled[at])));
      // The values of a frame without some of its events are unknown, even if they are equal.
      if (is_open && since - until > GAP && (value !== last || held[at] <= times[at - 1])) {
        path += `H${until}M${Math.min(since, place - 1)} ${y(value)}H${place}`;
        gaps += `M${until} ${y(last)}L${since} ${y(value)}`;
      } else if (is_open) {
        path += `H${since}V${y(value)}`;
      }
      [column, low, high, is_pending] = [place, value, value, true];
    }
    last = value;
  }
  flush();
  return { path, gaps, end: is_open ? { x: column, y: y(last) } : null };
};

class Chart {
  #title;
  #legend = made('ul');
  #note = made('p', { className: 'soft' });
  #entries = [];
  #svg = drawn('svg', { 'aria-hidden': true });
  #grid = drawn('g', { class: 'grid' });
  #marks = drawn('g', { class: 'changes' });
  #lines = drawn('g', { class: 'lines' });
  #cursor = drawn('line', { class: 'cursor', y1: TOP });
  #keys = '';

  /// The scale begins at 0, except for counters, and spans at least `least`.
  constructor({ title, empty, is_counter = false, least = 0, has_axis = false }) {
    this.#title = title;
    this.is_counter = is_counter;
    this.least = least;
    this.has_axis = has_axis;
    this.empty = empty;
    this.#svg.append(this.#grid, this.#marks, this.#lines, this.#cursor);
    this.element = made('figure', {}, made('figcaption', { textContent: title }), this.#legend, this.#note, this.#svg);
  }

  /// Returns whether a line has gaps.
  draw({ record, width, tall, begin, end, cursor }, lines) {
    const { count } = record;
    const height = TOP + tall + (this.has_axis ? AXIS : 4), right = width - RIGHT;
    size(this.#svg, width, height);
    const x = (at) => Math.round(LEFT + (right - LEFT) * Math.max(0, at - begin) / (end - begin));
    const first = record.index_at(begin);
    const [low, high] = this.#range(lines, first, count);
    const y = (value) => Math.round(10 * (TOP + tall * (1 - (value - low) / (high - low)))) / 10;
    this.#draw_grid({ x, y, low, high, begin, end, right, tall });
    this.#marks.replaceChildren(...record.changes.filter((it) => it.at >= begin && it.at <= end).map(({ at, text }) => {
      const title = drawn('title');
      write(title, `${time(at)}\n${text}`);
      return drawn('path', { d: `M${x(at)} ${TOP}v${tall}` }, title);
    }));
    this.#legends(lines);
    const ends = [];
    let has_gaps = false;
    lines.forEach((line, at) => {
      const entry = this.#entries[at], { path, gaps, end } = trace(line.values, record, first, x, y);
      set(entry.path, { d: path });
      set(entry.gaps, { d: gaps });
      has_gaps ||= gaps !== '';
      set(entry.number, { visibility: end && line.mark ? 'visible' : 'hidden' });
      if (!end || !line.mark) return;
      // Numbers of lines that end at one place are side by side.
      const near = ends.filter((other) => Math.abs(other.y - end.y) < NUMBER.height);
      if (near.length === NUMBERS || near.some((other) => other.mark === line.mark)) set(entry.number, { visibility: 'hidden' });
      set(entry.number, { x: end.x + 3 + NUMBER.width * near.length, y: end.y + 3.5 });
      ends.push({ y: end.y, mark: line.mark });
    });
    const at_cursor = cursor === null ? count - 1 : record.index_at(cursor);
    lines.forEach((line, at) => {
      const value = count ? line.values[at_cursor] : NaN;
      write(this.#entries[at].value, `${short(value)}${Number.isNaN(value) ? '' : line.unit ?? ''}`);
    });
    this.#cursor.setAttribute('visibility', cursor === null ? 'hidden' : 'visible');
    if (cursor !== null) set(this.#cursor, { x1: x(cursor), x2: x(cursor), y2: TOP + tall });
    return has_gaps;
  }

  #range(lines, first, count) {
    let low = this.is_counter ? Infinity : 0, high = this.is_counter ? -Infinity : 0;
    for (const { values } of lines) {
      for (let at = first; at < count; at++) {
        // Comparisons with NaN are false.
        if (values[at] > high) high = values[at];
        if (values[at] < low) low = values[at];
      }
    }
    if (!Number.isFinite(low) || !Number.isFinite(high)) [low, high] = [0, 0];
    if (this.is_counter) return [low, Math.max(high, low + this.least)];
    return [0, Math.max(high * 1.05, this.least)];
  }

  #draw_grid({ x, y, low, high, begin, end, right, tall }) {
    const parts = [];
    for (const value of ticks(low, high, 3)) {
      const text = drawn('text', { x: LEFT - 6, y: y(value) + 4, 'text-anchor': 'end' });
      write(text, String(value));
      parts.push(drawn('path', { d: `M${LEFT} ${y(value)}H${right}` }), text);
    }
    for (const at of ticks(begin, end, Math.max(2, Math.floor((right - LEFT) / 90)))) {
      if (at < begin) continue;
      parts.push(drawn('path', { d: `M${x(at)} ${TOP}v${tall}` }));
      if (!this.has_axis) continue;
      const text = drawn('text', { x: Math.min(x(at), right - 8), y: TOP + tall + 15, 'text-anchor': 'middle' });
      write(text, `${at} s`);
      parts.push(text);
    }
    this.#grid.replaceChildren(...parts);
  }

  #legends(lines) {
    write(this.#note, lines.note ?? (lines.length ? '' : this.empty));
    this.#note.hidden = !this.#note.textContent;
    this.#legend.hidden = !lines.length;
    const keys = lines.map((it) => `${it.label}\n${it.colour}\n${it.dash ?? ''}`).join('\n');
    if (keys === this.#keys) return;
    this.#keys = keys;
    this.#entries = lines.map(({ label, colour, dash, mark = '' }) => {
      const style = { 'data-colour': colour, ...(dash && { 'stroke-dasharray': dash }) };
      const line = (attributes) => drawn('path', { ...style, ...attributes });
      const value = made('b');
      const swatch = drawn('svg', { width: 18, height: 10, class: 'lines', 'aria-hidden': true }, line({ d: 'M0 5H18' }));
      const path = line({ 'data-label': label });
      const gaps = drawn('path', { 'data-colour': colour, class: 'gap' });
      // For readers without colours.
      const number = drawn('text', { 'data-colour': colour });
      write(number, mark);
      const name = made('span', { textContent: mark ? `${mark} ${label}` : label });
      return { path, gaps, number, value, item: made('li', {}, swatch, name, ' ', value) };
    });
    this.#lines.replaceChildren(...this.#entries.flatMap((it) => [it.gaps, it.path, it.number]));
    this.#legend.replaceChildren(...this.#entries.map((it) => it.item));
    this.#legend.setAttribute('aria-label', this.#title);
  }
}

/// Charts below each other. The pointer, or arrow keys on them, show the values of a time.
export class Charts {
  #charts;
  #host;
  #width = 0;
  /// Pixels from the left, or null.
  #cursor = null;
  #shown = null;
  #readout = made('p', { id: 'cursor-time', className: 'soft' });

  constructor(host, settings) {
    this.#host = host;
    this.#charts = settings.map((it) => new Chart(it));
    host.replaceChildren(...this.#charts.map((it) => it.element), this.#readout);
    Object.assign(host, { tabIndex: 0, role: 'group', ariaLabel: 'Charts: left and right keys show the values of a time' });
    on_width(host, (width) => {
      this.#width = width;
      this.#draw();
    });
    host.addEventListener('pointermove', (event) => this.#move(event.clientX - host.getBoundingClientRect().left));
    host.addEventListener('pointerleave', () => this.#move(null));
    host.addEventListener('blur', () => this.#move(null));
    host.addEventListener('keydown', (event) => this.#key(event));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      this.#move((this.#cursor ?? this.#width - RIGHT) + step * (event.shiftKey ? 40 : 8));
    } else if (event.key === 'Escape') {
      this.#move(null);
    }
  }

  #move(place) {
    this.#cursor = place === null ? null : Math.max(LEFT, Math.min(this.#width - RIGHT, place));
    this.#draw();
  }

  /// Draws these lines of each chart, over the last `span` seconds or, if it is null, over the
  /// whole run.
  show(record, span, lines) {
    this.#shown = { record, span, lines };
    this.#draw();
  }

  #draw() {
    if (!this.#shown || !this.#width) return;
    const { record, span, lines } = this.#shown;
    const { times, count } = record;
    const last = count ? times[count - 1] : 0, start = count ? times[0] : 0;
    const begin = span === null ? start : Math.max(start, last - span), end = Math.max(last, begin + 1);
    const share = (this.#cursor - LEFT) / (this.#width - LEFT - RIGHT);
    const cursor = this.#cursor === null ? null : Math.min(last, begin + share * (end - begin));
    const tall = innerWidth < WIDE ? HEIGHT : Math.max(HEIGHT, Math.round((innerHeight - OTHERS) / this.#charts.length));
    const gaps = this.#charts.map((chart, at) => chart.draw({ record, width: this.#width, tall, begin, end, cursor }, lines[at]));
    const note = gaps.includes(true) ? 'Dotted: no samples, the run was too fast.' : '';
    write(this.#readout, cursor === null ? note : `Values at ${time(cursor)}`);
  }
}
