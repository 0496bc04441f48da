// The page: checks the scenario while it is written, runs it, and shows its report.
import * as controllers from './controllers.js';
import * as editor from './editor.js';
import { Lab, Stopped } from './lab.js';
import { decoded, encoded } from './link.js';

const $ = (id) => document.getElementById(id);
const PAUSE_MS = 250;

// A check does not wait for a run, and cancelling a run does not end a check.
const checker = new Lab(), runner = new Lab();
let examples = [], checks = 0, pause = 0, running = false, urls = [];

const status = (text) => { $('status').textContent = text; };

const options = () => {
  const seed = $('seed').value.trim();
  return {
    quick: $('quick').checked,
    controllers: controllers.names(),
    ...(seed && { seed: Number(seed) }),
  };
};

const experiment = () => ({ scenario: $('scenario').value, options: options() });

const show_problem = (problem) => {
  editor.show(problem);
  const line = $('problem');
  line.className = problem ? 'wrong' : '';
  line.replaceChildren(problem ? problem.message : 'The scenario is valid.');
  if (!problem?.place) return;
  const button = Object.assign(document.createElement('button'), { type: 'button', onclick: editor.visit });
  button.textContent = `line ${problem.place.line}, column ${problem.place.column}`;
  line.prepend(button);
};

const check = async () => {
  const number = ++checks;
  try {
    const problem = await checker.ask({ check: experiment() });
    if (number === checks) show_problem(problem);
  } catch (error) {
    if (number === checks) show_problem({ message: error.message });
  }
};

const check_soon = () => {
  clearTimeout(pause);
  checks += 1;
  pause = setTimeout(check, PAUSE_MS);
};

const file = (text, type) => {
  const url = URL.createObjectURL(new Blob([text], { type }));
  urls.push(url);
  return url;
};

const show_report = ({ name, page, values, runs, events }, seconds) => {
  urls.forEach((url) => URL.revokeObjectURL(url));
  urls = [];
  const report = file(page, 'text/html;charset=utf-8');
  Object.assign($('page'), { href: report });
  Object.assign($('download'), { href: report, download: `${name}.html` });
  Object.assign($('values'), { href: file(values, 'application/x-ndjson'), download: `${name}.ndjson` });
  // A new frame: navigating the old one would add an entry to the history.
  const frame = $('report').cloneNode();
  frame.hidden = $('files').hidden = false;
  frame.src = report;
  $('report').replaceWith(frame);
  $('empty').hidden = true;
  status(`${runs} runs, ${(events / 1e6).toFixed(1)} million events, ${seconds.toFixed(1)} s`);
};

const set_running = (is_running) => {
  running = is_running;
  $('run').disabled = is_running;
  $('cancel').disabled = !is_running;
  $('results').classList.toggle('old', is_running);
  $('results').setAttribute('aria-busy', is_running);
};

const run = async () => {
  if (running || !$('form').reportValidity()) return;
  set_running(true);
  $('progress').value = 0;
  status('Running…');
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const progress = (share) => {
    $('progress').value = share;
    status(`${Math.floor(100 * share)} %, ${seconds().toFixed(0)} s`);
  };
  try {
    const { Ok, Err } = await runner.ask({ run: experiment() }, progress);
    if (Err) {
      show_problem(Err);
      editor.visit();
      $('progress').value = 0;
      status('Not run: the scenario or an option is invalid.');
    } else {
      show_report(Ok, seconds());
    }
  } catch (error) {
    $('progress').value = 0;
    status(error instanceof Stopped ? 'Cancelled.' : `Failed: ${error.message}`);
  }
  set_running(false);
};

const cancel = () => { if (running) runner.stop(); };

const load = ({ scenario, controllers: names = [], seed = '', quick = true }) => {
  editor.set(scenario);
  $('seed').value = seed;
  $('quick').checked = quick;
  controllers.choose(names);
};

const share = async () => {
  history.replaceState(null, '', `#${await encoded({ scenario: $('scenario').value, ...options() })}`);
  try {
    await navigator.clipboard.writeText(location.href);
    status('The link to this experiment is copied.');
  } catch {
    status('The address of this page is now the link to this experiment.');
  }
};

const offer_examples = () => {
  const menu = $('examples');
  for (const group of new Set(examples.map((it) => it.group))) {
    const options = examples.map((it, at) => [it, at]).filter(([it]) => it.group === group).map(([it, at]) => {
      const title = it.scenario.match(/^title = "(.*)"$/m)?.[1];
      return new Option(title ? `${it.name}: ${title}` : it.name, at);
    });
    const made = Object.assign(document.createElement('optgroup'), { label: group });
    made.append(...options);
    menu.append(made);
  }
  menu.onchange = () => {
    if (menu.value) load(examples[menu.value]);
    menu.value = '';
  };
};

const linked = async () => {
  if (location.hash.length < 2) return null;
  try {
    return await decoded(location.hash.slice(1));
  } catch {
    status('The link is damaged; this is an example.');
    return null;
  }
};

const start = async () => {
  let known;
  try {
    [examples, known] = await Promise.all([checker.ask('examples'), checker.ask('controllers')]);
  } catch (error) {
    status(`Failed: ${error.message}. The files of the playground must come from a web server.`);
    return;
  }
  status('Ready.');
  controllers.offer(known, check_soon);
  offer_examples();
  load(await linked() ?? examples[0]);
  await check();
};

$('scenario').addEventListener('input', check_soon);
$('seed').addEventListener('input', check_soon);
$('quick').addEventListener('input', check_soon);
$('form').addEventListener('submit', (event) => { event.preventDefault(); run(); });
$('cancel').addEventListener('click', cancel);
$('share').addEventListener('click', share);
addEventListener('hashchange', async () => {
  const experiment = await linked();
  if (experiment) load(experiment);
});
addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  } else if (event.key === 'Escape') {
    cancel();
  }
});

start();
