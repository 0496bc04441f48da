// Elements of HTML and SVG. Names come from a user's file or from a peer: they become text, never
// markup.

const SVG = 'http://www.w3.org/2000/svg';

export const $ = (id) => document.getElementById(id);

export const made = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

export const drawn = (tag, attributes = {}, ...children) => {
  const element = document.createElementNS(SVG, tag);
  set(element, attributes);
  element.append(...children);
  return element;
};

export const set = (element, attributes) => {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
};

/// Sets the size of a picture, in pixels.
export const size = (svg, width, height) => set(svg, { width, height, viewBox: `0 0 ${width} ${height}` });

/// Sets the text of an element, if it differs: a screen reader repeats a text that is set again.
export const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };

/// Calls `act` with the width of an element, now and whenever it changes.
export const on_width = (element, act) => {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now !== width && now > 0) act(width = now);
  }).observe(element);
};
