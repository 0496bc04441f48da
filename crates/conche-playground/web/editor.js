// The scenario's text with line numbers, and its problem at the place of it.

const LINE = 20, INSET = 8; // As in playground.css.
// Characters of a message above the text, which it covers. The form shows all of it.
const MOST = 140;
const $ = (id) => document.getElementById(id);

const area = $('scenario'), marks = $('marks'), numbers = $('numbers'), message = $('message');
let problem = null;

const element = (tag, text, style = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  Object.assign(made.style, style);
  return made;
};

const scrolled = () => {
  marks.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`;
  numbers.scrollTop = area.scrollTop;
  if (!problem?.place) return;
  const top = INSET + problem.place.line * LINE - area.scrollTop;
  message.hidden = top < LINE || top > area.clientHeight;
  // Above the line without space below it.
  const above = top + message.offsetHeight > area.clientHeight;
  message.style.top = `${above ? top - LINE - message.offsetHeight : top}px`;
};

const drawn = () => {
  const text = area.value, place = problem?.place;
  const lines = Array.from({ length: text.split('\n').length }, (_, at) => at + 1);
  const shown = (from, to) => lines.slice(from, to).map((line) => `${line}\n`).join('');
  message.hidden = !place;
  if (place) {
    // An empty place, as of a missing value, marks a character.
    const end = Math.max(place.end, place.start + 1);
    marks.replaceChildren(
      element('i', '', { top: `${INSET + (place.line - 1) * LINE}px` }),
      text.slice(0, place.start), element('mark', text.slice(place.start, end) || ' '), text.slice(end));
    numbers.replaceChildren(shown(0, place.line - 1), element('b', `${place.line}\n`), shown(place.line));
    const told = problem.message;
    const start = told.slice(0, MOST);
    message.textContent = told.length > MOST ? start.match(/^.*[.?](?= )/)?.[0] ?? `${start}…` : told;
  } else {
    marks.replaceChildren();
    numbers.replaceChildren(shown(0));
  }
  scrolled();
};

/// Shows a problem as of `check`, or none.
export const show = (found) => {
  problem = found;
  drawn();
};

/// Selects the problem's place.
export const visit = () => {
  if (!problem?.place) return;
  const { line, start, end } = problem.place;
  area.focus();
  area.setSelectionRange(start, end);
  area.scrollTop = Math.max(0, INSET + (line - 1) * LINE - area.clientHeight / 3);
  area.scrollLeft = 0;
  scrolled();
};

export const set = (text) => {
  area.value = text;
  area.scrollTop = area.scrollLeft = 0;
  show(null);
};

area.addEventListener('scroll', scrolled);
// The place is of the text before.
area.addEventListener('input', () => show(null));
new ResizeObserver(scrolled).observe(area);
