// The chosen controllers with their parameters.

const $ = (id) => document.getElementById(id);
const chosen = $('chosen'), menu = $('controllers');
let known = [], changed = () => {};

const made = (tag, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

/// Returns the name with parameters of a chosen controller, as in `cocoa:weak_k=1`.
const name_of = (details) => {
  const values = [...details.querySelectorAll('input')].filter((it) => it.value.trim());
  const settings = values.map((it) => `${it.name}=${it.value.trim()}`).join(',');
  return details.dataset.name + (settings && `:${settings}`);
};

export const names = () => [...chosen.children].map(name_of);

const update = () => {
  [...chosen.children].forEach((it) => { it.querySelector('summary code').textContent = name_of(it); });
  $('schemes').textContent = chosen.children.length
    ? 'They replace the schemes of the scenario.' : 'The schemes of the scenario run.';
  changed();
};

const add = (controller, settings = {}) => {
  const remove = made('button', { type: 'button', textContent: '✕', title: 'Remove' });
  remove.setAttribute('aria-label', `Remove ${controller.name}`);
  const inputs = controller.parameters.map((it) => made('label', {},
    made('code', { textContent: it.name }), it.unit === '-' ? '' : ` (${it.unit})`,
    made('input', { name: it.name, placeholder: it.default, value: settings[it.name] ?? '', autocomplete: 'off' }),
    made('small', { textContent: `${it.about}; ${it.range}` })));
  const details = made('details', { open: Object.keys(settings).length > 0 },
    made('summary', {}, made('code'), remove),
    made('p', { textContent: controller.about + (inputs.length ? '' : '. It has no parameters.') }),
    made('div', { className: 'parameters' }, ...inputs));
  details.dataset.name = controller.name;
  remove.onclick = () => { details.remove(); update(); menu.focus(); };
  details.oninput = update;
  chosen.append(details);
};

/// Replaces the chosen controllers by these names.
export const choose = (all) => {
  chosen.replaceChildren();
  for (const text of all) {
    const [name, settings = ''] = text.split(/:(.*)/s);
    const controller = known.find((it) => it.name === name);
    const pairs = settings.split(',').filter(Boolean).map((it) => it.split('='));
    if (controller) add(controller, Object.fromEntries(pairs));
  }
  update();
};

/// Offers the controllers; calls `on_change` after each change.
export const offer = (controllers, on_change) => {
  known = controllers;
  menu.append(...controllers.map((it) => made('option', { value: it.name, title: it.about, textContent: it.name })));
  menu.onchange = () => {
    const controller = known.find((it) => it.name === menu.value);
    menu.value = '';
    if (!controller) return;
    add(controller);
    update();
  };
  changed = on_change;
};
