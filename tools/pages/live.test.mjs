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
  assert.match(await page.locator('#details').innerText(), /^retransmission CON POST .*report.* from meter.* to server/s);
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
  await page.getByRole('checkbox', { name: 'Up' }).check();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.locator('g.edge.down').waitFor({ state: 'detached' });
  await page.getByLabel('Delay').fill('70ms');
  await page.getByLabel('Both directions').check();
  await page.getByLabel('All of').check();
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.getByText('Changed all links').waitFor();
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
  await page.getByLabel('Choose a node').selectOption('meter[0] (program)');
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
