// The live view in chromium. Environment: CONCHE (the command).
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { after, before } from 'node:test';
import * as pages from './chromium.mjs';
import { not_wider, picture } from './chromium.mjs';

const { CONCHE } = process.env;
let browser;
const scratch = mkdtempSync(path.join(tmpdir(), 'live-'));
const scenario = path.join(scratch, 'yard.toml');

before(async () => {
  writeFileSync(scenario, `
schema = 1
name = "yard"
title = "Three meters behind a modem"
seed = 1
replications = 1
time_limit = "1h"
schemes = [{ name = "default", controller = "default" }]
nodes = [{ name = "meter", count = 3 }, { name = "modem" }, { name = "server" }]

[[links]]
name = "yard"
between = ["meter", "modem"]
wire = { delay = "5ms" }

[[links]]
name = "uplink"
from = "modem"
to = "server"
wire = { rate = "2kbit/s", delay = "200ms", queue = "1000B" }

[[links]]
name = "downlink"
from = "server"
to = "modem"
wire = { rate = "2kbit/s", delay = "200ms", queue = "1000B" }

[[traffic]]
name = "report"
from = "meter"
to = "server"
pace = { poisson = { interval = "3s" } }
exchanges = 400
method = "POST"
path = "report<img>"
request = "60B"
`);
  browser = await pages.launch();
});

after(async () => {
  await browser?.close();
  rmSync(scratch, { recursive: true });
});

/// Starts the command, and opens its page.
const start = async (t, words, options) => {
  const { server, address } = await pages.serve(CONCHE, words, options);
  t.after(() => server.kill());
  return { server, address };
};

const open = async (t, address, options) => {
  const page = await pages.open(t, browser, address, options);
  await page.locator('#state').filter({ hasText: /paused|running|ended/ }).waitFor();
  return page;
};

const simulated = async (t, { words = [], ...options } = {}) => {
  const { server, address } = await start(t, ['run', scenario, '--live', ...words]);
  return { server, address, page: await open(t, address, options) };
};

const in_state = (page, state) => page.locator('#state').getByText(state, { exact: true }).waitFor();
const node = (page, name) => page.locator(`.node[aria-label^="${name},"]`);
const line = (page, label) => page.locator(`path[data-label="${label}"]`);
const until = (page, test, value) => page.waitForFunction(test, value, { polling: 50 });
/// Waits until the line of a chart has been drawn over several samples.
const drawn = (page, label) =>
  until(page, (label) => document.querySelector(`path[data-label="${label}"]`)?.getAttribute('d').includes('H'), label);

const seen = (page) => page.evaluate(() => ({
  lines: [...document.querySelectorAll('#plots path[data-label]')].map((it) => it.getAttribute('d')),
  messages: [...document.querySelectorAll('g.message')].map((it) => it.getAttribute('aria-label')),
  time: document.getElementById('time').textContent,
}));

const play = async (page, speed) => {
  await page.locator('#speeds').getByText(speed, { exact: true }).click();
  await page.getByRole('button', { name: 'Play' }).click();
  await in_state(page, 'running');
};

const pause = async (page) => {
  await page.getByRole('button', { name: 'Pause' }).click();
  await in_state(page, 'paused');
};

test('mouse and keys play, pause and step a simulation', async (t) => {
  const { page } = await simulated(t);
  const time = page.locator('#time');
  assert.equal(await time.innerText(), '0.000 s');
  const times = ['0.000 s'];
  for (const step of [() => page.getByRole('button', { name: 'Step' }).click(), () => page.keyboard.press('.')]) {
    await step();
    await until(page, (last) => document.getElementById('time').textContent !== last, times.at(-1));
    await in_state(page, 'paused');
    times.push(await time.innerText());
  }
  assert.ok(Number.parseFloat(times[1]) < Number.parseFloat(times[2]), times.join(', '));
  await page.locator('h1').click();
  await page.keyboard.press('Space');
  await in_state(page, 'running');
  await page.keyboard.press('Space');
  await in_state(page, 'paused');
  await play(page, '100×');
  await pause(page);
  // In a field, the same keys are text.
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  await page.getByLabel('Rate').press('.');
  await in_state(page, 'paused');
  assert.match(await page.getByLabel('Rate').inputValue(), /\./);
});

test('keys work after a choice of speed, window, link and Hold', async (t) => {
  const { page } = await simulated(t);
  const time = page.locator('#time');
  const choices = [
    () => page.locator('#speeds').getByText('10×', { exact: true }).click(),
    () => page.locator('#windows').getByText('60 s', { exact: true }).click(),
    () => page.getByLabel('Hold').check(),
    () => page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' }),
  ];
  for (const choose of choices) {
    await choose();
    const before = await time.innerText();
    await page.keyboard.press('.');
    await until(page, (last) => document.getElementById('time').textContent !== last, before);
    await page.keyboard.press('?');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
  }
  await page.locator('#speeds').getByText('1×', { exact: true }).click();
  await page.keyboard.press('Space');
  await in_state(page, 'running');
  assert.equal(await page.locator('#speeds :checked').inputValue(), '1');
  await page.locator('#windows').getByText('10 s', { exact: true }).click();
  await page.keyboard.press('Space');
  await in_state(page, 'paused');
});

test('events that were left out are gaps in the messages and the charts', async (t) => {
  const { address } = await start(t, ['run', scenario, '--live']);
  const { links, paths, nodes } = await (await fetch(`${address}network`)).json();
  const [meter, server] = ['meter[0]', 'server'].map((name) => nodes.findIndex((it) => it.name === name));
  const sent = (id, at) => ({
    kind: 'sent', at, id, is_duplicate: false, from: meter, to: server, size: 21, text: `CON ${id}`, is_retransmission: false,
    link: null, reason: null,
  });
  const frame = (n, t, rto, messages, omitted, state = 'running') => ({
    n, t, state, speed: null, lateness_ms: null, links: links.map(() => [0, 0, 0, 0, 0, 0, true]), changed: [],
    paths: paths.map(() => [rto, null, 0, 0, 0]), messages, omitted,
  });
  const frames = [
    frame(0, 0, 2, [], 0), frame(1, 1, 2, [sent(1, 0.5)], 0), frame(2, 60, 3, [sent(900, 59)], 900),
    // Nothing happened for a minute.
    frame(3, 120, 3, [sent(901, 119)], 0, 'ended'),
  ];
  const body = frames.map((it) => `id: ${it.n}\ndata: ${JSON.stringify(it)}\n\n`).join('');
  const prepare = (page) => page.route('**/events', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
  const page = await open(t, address, { prepare });
  await in_state(page, 'ended');
  assert.deepEqual(await page.locator('.gaps text').allTextContents(), ['… 900 events of all nodes left out']);
  const labels = await page.locator('g.message').evaluateAll((all) => all.map((it) => it.getAttribute('aria-label')));
  assert.deepEqual(labels.map((it) => it.match(/state (.*)/)[1]), ['unknown: its end was left out', 'under way', 'under way']);
  const gaps = await page.locator('figure').first().locator('svg:not(.lines) path.gap').evaluateAll((all) =>
    all.map((it) => it.getAttribute('d').split('M').length - 1));
  assert.deepEqual([...new Set(gaps)], [1]);
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  assert.ok(await page.getByRole('button', { name: 'Apply' }).isDisabled());
  await page.getByText('The run ended.', { exact: true }).waitFor();
});

test('a changed field is marked until it is applied or restored', async (t) => {
  const { page, address } = await simulated(t);
  const other = await open(t, address);
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  const loss = page.getByLabel('Loss'), mark = page.locator('#unapplied');
  await loss.fill('20%');
  assert.equal(await mark.innerText(), 'not applied');
  await loss.press('Escape');
  assert.deepEqual([await mark.innerText(), await loss.inputValue()], ['', '0%']);
  await loss.fill('30%');
  await page.getByLabel('Both directions').check();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Changed uplink, downlink: loss 30%.').waitFor();
  await mark.filter({ hasText: /^$/ }).waitFor({ state: 'attached' });
  assert.equal(await page.evaluate(() => document.activeElement.id), 'apply');
  await other.getByText('Changed at 0.000 s: uplink, downlink: loss 30%.').waitFor();
});

test('Apply is in sight on a low screen, also with an error', async (t) => {
  const { page } = await simulated(t, { viewport: { width: 1280, height: 720 }, allowed: [/400/] });
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  const is_seen = () => page.locator('#apply').evaluate((it) => {
    const { left, top, width, height } = it.getBoundingClientRect();
    return document.elementFromPoint(left + width / 2, top + height / 2) === it;
  });
  assert.ok(await is_seen());
  await page.getByLabel('Loss').fill('20');
  await page.getByLabel('Loss').press('Enter');
  await page.locator('#loss-problem').filter({ hasText: '20' }).waitFor();
  assert.ok(await is_seen());
  await picture(page, 'live-low');
});

test('a router is not chosen', async (t) => {
  const { page } = await simulated(t);
  await node(page, 'modem').click();
  await page.getByText('modem is a router').waitFor();
  assert.equal(await node(page, 'modem').getAttribute('aria-pressed'), 'false');
});

test('a narrower page stays at the latest message', async (t) => {
  const { page } = await simulated(t);
  await play(page, '100×');
  await until(page, () => document.querySelectorAll('g.message').length > 30);
  await pause(page);
  for (const width of [1400, 400, 1000]) {
    await page.setViewportSize({ width, height: 800 });
    await until(page, () => {
      const { scrollTop, clientHeight, scrollHeight } = document.getElementById('sequence');
      return scrollHeight > clientHeight && scrollTop + clientHeight > scrollHeight - 5;
    });
  }
});

test('a chosen node has its RTO in the chart', async (t) => {
  const { page } = await simulated(t);
  await play(page, '10×');
  await drawn(page, 'meter[0] RTO');
  assert.equal(await line(page, 'meter[2] RTO').count(), 0);
  await node(page, 'meter[2]').click();
  await drawn(page, 'meter[2] RTO');
  assert.equal(await node(page, 'meter[2]').getAttribute('aria-pressed'), 'true');
  // Keys: the node keeps the focus.
  await page.keyboard.press('Enter');
  await line(page, 'meter[2] RTO').waitFor({ state: 'detached' });
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Enter');
  await line(page, 'meter[1] RTO').waitFor({ state: 'detached' });
  await page.getByLabel('Choose a node').selectOption('server');
  await page.getByRole('button', { name: 'Remove server' }).click();
  await page.locator('#plots').focus();
  await page.keyboard.press('ArrowLeft');
  assert.match(await page.locator('#cursor-time').innerText(), /^Values at /);
});

test('a link that loses all packets causes drops and retransmissions', async (t) => {
  const { page, address } = await simulated(t);
  // A horizontal line has no height that Playwright could click.
  const wire = await page.locator('g.edge[aria-label*="uplink"] .wire').evaluate((it) => it.getBoundingClientRect().toJSON());
  await page.mouse.click(wire.left + wire.width / 2, wire.top + wire.height / 2);
  assert.equal(await page.getByLabel('Loss').inputValue(), '0%');
  await page.getByLabel('Loss').fill('100%');
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Changed uplink: loss 100%.').waitFor();
  const { links } = await (await fetch(`${address}network`)).json();
  assert.equal(links.find((it) => it.name === 'uplink').loss, '100%');
  await play(page, '10×');
  const again = page.locator('g.message.again').last();
  await again.waitFor();
  await page.locator('g.message .cross').first().waitFor();
  await pause(page);
  await picture(page, 'live-lost');
  const lost = page.locator('#counts div').filter({ hasText: 'lost' }).locator('dd');
  assert.ok(Number(await lost.innerText()) > 0);
  assert.ok(Number(await page.locator('figure').last().locator('li').filter({ hasText: 'lost' }).locator('b').innerText()) > 0);
  await again.focus();
  assert.match(await page.locator('#details').innerText(), /^retransmission (\d+ )?CON POST .*report.* from meter.* to server/s);
  // Text of a peer is no markup.
  assert.match(await again.locator('.what').textContent(), /^↻ CON POST .*<img>/);
  const focused = await page.evaluate(() => document.activeElement.getAttribute('aria-label'));
  await page.keyboard.press('ArrowUp');
  assert.notEqual(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), focused);
});

test('an error of a field is at the field', async (t) => {
  const { page } = await simulated(t, { allowed: [/400/] });
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  for (const [name, value] of [['Rate', '15'], ['Loss', '5'], ['Delay', 'soon']]) {
    const field = page.getByLabel(name);
    const before = await field.inputValue();
    await field.fill(value);
    await field.press('Enter');
    const problem = page.locator(`#${name.toLowerCase()}-problem`);
    await problem.filter({ hasText: value }).waitFor();
    assert.equal(await field.getAttribute('aria-invalid'), 'true');
    assert.equal(await page.evaluate(() => document.activeElement.id), name.toLowerCase());
    await field.fill(before);
    await field.press('Enter');
    await problem.filter({ hasText: /^$/ }).waitFor({ state: 'attached' });
    await page.getByText(`Changed uplink: ${name.toLowerCase()} ${before}.`).waitFor();
  }
});

test('a link goes down and up, and a group changes together', async (t) => {
  const { page } = await simulated(t);
  const links = page.getByRole('combobox', { name: 'Link' });
  const [there, back] = await links.locator('option').evaluateAll((all) =>
    all.filter((it) => /meter\[1\]/.test(it.textContent)).map((it) => it.textContent));
  await links.selectOption({ label: there });
  await page.getByRole('checkbox', { name: 'Up' }).uncheck();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('g.edge.down').waitFor({ state: 'attached' });
  assert.equal(await page.locator('g.edge.down').count(), 1);
  // The other direction works.
  assert.equal(await page.locator('.edge line.failed').count(), 1);
  await page.getByRole('checkbox', { name: 'Up' }).check();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('g.edge.down').waitFor({ state: 'detached' });
  await page.getByLabel('Delay').fill('70ms');
  await page.getByLabel('Both directions').check();
  await page.getByLabel('All of').check();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Changed all 6 links of yard>, yard<: delay 70ms.').waitFor();
  const others = await links.locator('option').evaluateAll((all) =>
    all.filter((it) => /meter\[2\]/.test(it.textContent)).map((it) => it.textContent));
  for (const label of [there, back, ...others]) {
    await links.selectOption({ label });
    await until(page, () => document.getElementById('delay').value === '70ms');
  }
});

test('a page that is loaded again has the history', async (t) => {
  const { page } = await simulated(t);
  await play(page, '10×');
  await until(page, () => document.querySelectorAll('g.message').length > 12);
  await pause(page);
  // The last frames may be drawn after the state.
  const drawn_all = () => page.evaluate(() => new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
  }));
  await drawn_all();
  const before = await seen(page);
  assert.ok(before.lines.length > 4);
  await page.reload();
  await until(page, (time) => document.getElementById('time').textContent === time, before.time);
  await drawn_all();
  assert.deepEqual(await seen(page), before);
  assert.equal(await page.locator('#speeds :checked').inputValue(), '10');
});

test('a simulation ends, and its page stays', async (t) => {
  const { page, server } = await simulated(t, { words: ['--set', 'traffic.report.exchanges=20'] });
  await page.locator('#speeds').getByText('max', { exact: true }).click();
  await page.getByRole('button', { name: 'Play' }).click();
  await in_state(page, 'ended');
  await page.getByText('The run ended.').waitFor();
  assert.ok(await page.getByRole('button', { name: 'Play' }).isDisabled());
  await page.reload();
  await in_state(page, 'ended');
  await drawn(page, 'meter[0] RTO');
  assert.equal(server.exitCode, null);
  server.kill('SIGINT');
  assert.deepEqual(await once(server, 'exit'), [0, null]);
});

test('a page connects again, and shows each message once', async (t) => {
  const { page, address } = await simulated(t);
  await play(page, '100×');
  // So many that messages shown twice would push others out.
  await until(page, () => document.querySelectorAll('g.message').length > 30);
  await pause(page);
  // The history but its last frame, after which the stream ends.
  let [text, streams] = ['', 0];
  for await (const data of (await fetch(`${address}events`)).body) {
    text += new TextDecoder().decode(data);
    const is_whole = text.endsWith('\n\n') && text.lastIndexOf('"paused"') > text.lastIndexOf('"running"');
    if (is_whole && text.includes('"running"')) break;
  }
  const first = `${text.split('\n\n').slice(0, -2).join('\n\n')}\n\n`;
  const prepare = (page) => page.route('**/events', (route) => streams++
    ? route.continue() : route.fulfill({ contentType: 'text/event-stream', body: first }));
  const other = await pages.open(t, browser, address, { prepare });
  await in_state(other, 'connection lost');
  await in_state(other, 'paused');
  await until(other, (time) => document.getElementById('time').textContent === time, await page.locator('#time').innerText());
  assert.deepEqual((await seen(other)).messages, (await seen(page)).messages);
  assert.equal(streams, 2);
});

test('a page loads again if another run answers', async (t) => {
  const { page } = await simulated(t, { allowed: [/ERR_/] });
  let is_other = false;
  await page.route('**/network', async (route) => {
    const response = await route.fetch();
    const network = await response.json();
    await route.fulfill({ response, json: is_other ? { ...network, scenario: 'another' } : network });
  });
  await page.evaluate(() => {
    const hide = (is_hidden) => {
      Object.defineProperty(document, 'hidden', { value: is_hidden, configurable: true });
      dispatchEvent(new Event('visibilitychange'));
    };
    Object.assign(window, { hide });
  });
  // A hidden page has no stream, and the same run continues.
  await page.evaluate(() => window.hide(true));
  await page.evaluate(() => window.hide(false));
  await page.keyboard.press('.');
  await until(page, () => document.getElementById('time').textContent !== '0.000 s');
  is_other = true;
  await page.evaluate(() => window.hide(true));
  await page.evaluate(() => window.hide(false));
  await page.getByText('another · default').waitFor();
});

test('a page that the command refuses says why', async (t) => {
  const { address } = await start(t, ['run', scenario, '--live']);
  const prepare = (page) => page.route('**/events', (route) => route.fulfill({ status: 503, json: { error: 'Too many pages.' } }));
  const page = await pages.open(t, browser, address, { prepare, allowed: [/503/] });
  await page.getByText('Too many pages. The page tries again.').waitFor();
});

test('a lost connection is said', async (t) => {
  const { page, server } = await simulated(t, { allowed: [/ERR_/] });
  server.kill('SIGKILL');
  await in_state(page, 'connection lost');
  await page.getByText('The connection to the command is lost.').waitFor();
});

test('a program is seen in an emulation', async (t) => {
  const [began, done] = ['began', 'done'].map((name) => path.join(scratch, name));
  const wait = (file) => `while ! test -e '${file}'; do sleep 0.05; done`;
  const program = `${wait(began)}; '${CONCHE}' get coap://{server}/time; ${wait(done)}`;
  const { server, address } = await start(t, [
    'emulate', scenario, '--live', '--max-lateness', '60s',
    '--set', 'links.uplink.wire.rate=50kbit/s', '--node', `meter[0]=${program}`,
  ]);
  const page = await open(t, address);
  await in_state(page, 'running');
  assert.equal(await page.getByRole('button', { name: 'Play' }).count(), 0);
  assert.equal(await page.locator('.node.program').count(), 1);
  // Programs come first.
  assert.match(await page.locator('#chosen li').first().innerText(), /meter\[0\]/);
  assert.equal(await line(page, 'meter[0]').count(), 1);
  await page.keyboard.press('Space');
  await page.getByText('Programs run in real time').waitFor();
  writeFileSync(began, '');
  const get = page.locator('g.message').filter({ hasText: /GET .*time/ }).first();
  await get.locator('.point').waitFor({ state: 'attached' });
  await page.locator('#lateness').filter({ hasText: /99 % within [0-9.]+ ms/ }).waitFor();
  await picture(page, 'live-emulation');
  writeFileSync(done, '');
  await in_state(page, 'ended');
  await page.getByText('The run ended.').waitFor();
  assert.ok(await page.locator('g.message').count() > 1);
  if (server.exitCode === null) await once(server, 'exit');
  assert.equal(server.exitCode, 0);
});

test('400 pixels and a dark system are enough', async (t) => {
  const { page, address } = await simulated(t, { viewport: { width: 400, height: 800 } });
  const dark = await open(t, address, { viewport: { width: 400, height: 800 }, colorScheme: 'dark' });
  await play(page, '10×');
  const grounds = [];
  for (const view of [page, dark]) {
    await view.locator('g.message').nth(5).waitFor();
    await view.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
    for (const name of ['meter[2]', 'server']) await node(view, name).click();
    await not_wider(view);
    grounds.push(await view.locator('body').evaluate((it) => getComputedStyle(it).backgroundColor));
  }
  assert.deepEqual(grounds, ['rgb(245, 246, 248)', 'rgb(15, 17, 21)']);
  await picture(dark, 'live-narrow-dark');
  await dark.setViewportSize({ width: 1400, height: 900 });
  await picture(dark, 'live-dark');
});

test('every control has a name and is reached by keyboard', async (t) => {
  const { page } = await simulated(t);
  await page.getByRole('combobox', { name: 'Link' }).selectOption({ label: 'uplink: modem → server' });
  await play(page, '10×');
  await page.locator('g.message').nth(2).waitFor();
  await pause(page);
  assert.deepEqual(await pages.unnamed(page), []);
  const reached = new Set();
  await page.locator('#play').focus();
  for (let key = 0; key < 25; key++) {
    await page.keyboard.press('Tab');
    reached.add(await page.evaluate(() => {
      const { id, classList, name } = document.activeElement;
      return id || classList[0] || name;
    }));
  }
  const all = 'step speed help node nodes links rate delay loss up both group apply window plots hold message';
  for (const name of all.split(' ')) {
    assert.ok(reached.has(name), `${name} is not among ${[...reached].join(', ')}`);
  }
  await page.locator('h1').click();
  await page.keyboard.press('?');
  await page.getByRole('dialog').getByText('plays or pauses the run').waitFor();
  await picture(page, 'live-keys');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
});
