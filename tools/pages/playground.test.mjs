// The playground in chromium. Environment: PLAYGROUND (directory of its files), CONCHE (the command).
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import * as pages from './chromium.mjs';
import { not_wider, picture } from './chromium.mjs';

const { PLAYGROUND, CONCHE } = process.env;
let server, address, browser;

before(async () => {
  ({ server, address } = await pages.serve(CONCHE, ['playground', PLAYGROUND, '--bind', '127.0.0.1:0']));
  browser = await pages.launch();
});

after(async () => {
  await browser?.close();
  server?.kill();
});

const open = async (t, { hash = '', of = browser, ...options } = {}) => {
  const page = await pages.open(t, of, address + hash, options);
  await page.getByText('The scenario is valid.').waitFor();
  return page;
};

const reported = async (page) => {
  await page.locator('#status').filter({ hasText: / runs, / }).waitFor();
  const report = page.frameLocator('#report');
  await report.locator('svg.drawn').first().waitFor();
  return report;
};

const load = async (page, name) => {
  const menu = page.getByLabel('Load an example');
  const value = await menu.locator('option').filter({ hasText: `${name}:` }).first().getAttribute('value');
  await menu.selectOption(value);
};

test('a run gives the figures and tables of the report', async (t) => {
  const page = await open(t);
  await picture(page, 'loaded');
  await page.getByLabel('Scenario', { exact: true }).press('Control+Enter');
  const report = await reported(page);
  await picture(page, 'report');
  assert.ok(await report.locator('svg.drawn').count() > 0);
  assert.ok(await report.locator('table').count() > 2);
  assert.match(await report.locator('.origin code').innerText(), /^conche run codel.toml --quick$/);
  assert.equal(await page.getByText('Save the values').getAttribute('download'), 'codel.ndjson');
});

test('an error is shown at its line', async (t) => {
  const page = await open(t);
  const area = page.getByLabel('Scenario', { exact: true });
  const text = await area.inputValue();
  await area.fill(text.replace('replications = 5', 'replicas = 5'));
  const line = text.slice(0, text.indexOf('replications')).split('\n').length;
  // Filling leaves the caret at the end, which may be far below.
  await page.getByRole('button', { name: `line ${line}, column 1` }).click();
  await page.locator('#message').waitFor();
  assert.equal(await page.locator('#numbers b').innerText(), `${line}\n`);
  assert.match(await page.locator('#message').innerText(), /unknown field `replicas`.*`replications`/);
  assert.equal(await page.locator('#marks mark').innerText(), 'replicas');
  const [number, mark, message] = await Promise.all(
    ['#numbers b', '#marks mark', '#message'].map((it) => page.locator(it).boundingBox()));
  assert.ok(Math.abs(number.y - mark.y) < 8 && message.y > mark.y && message.y < mark.y + 40);
  await picture(page, 'problem');
  assert.equal(await area.evaluate((it) => it.value.slice(it.selectionStart, it.selectionEnd)), 'replicas');
  await page.getByRole('button', { name: 'Run' }).click();
  await page.getByText('Not run').waitFor();
  await area.fill(text);
  await page.getByText('The scenario is valid.').waitFor();
  assert.equal(await page.locator('#message').isVisible(), false);
});

test('a run is cancelled, and another one begins', async (t) => {
  const page = await open(t);
  await load(page, 'anrw18');
  await page.getByLabel('Quick').uncheck();
  await page.getByText('The scenario is valid.').waitFor();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('#status').filter({ hasText: '%' }).waitFor();
  await picture(page, 'running');
  await page.keyboard.press('Escape');
  await page.getByText('Cancelled.').waitFor();
  await load(page, 'failing-link');
  await page.getByLabel('Quick').check();
  await page.getByRole('button', { name: 'Run' }).click();
  await reported(page);
});

test('a scenario too large for the memory is an error, and the page still runs others', async (t) => {
  // 64 MiB for each WebAssembly instance.
  const small = await pages.launch('--js-flags=--wasm-max-mem-pages=1024');
  t.after(() => small.close());
  const page = await open(t, { of: small });
  await load(page, 'failing-link');
  const area = page.getByLabel('Scenario', { exact: true });
  const text = await area.inputValue();
  await area.fill(text.replace('{ name = "modem" }', '{ name = "modem" }, { name = "spare", count = 300000 }'));
  await page.locator('#problem.wrong').filter({ hasText: 'more memory than this browser gives' }).waitFor();
  await page.getByRole('button', { name: 'Run' }).click();
  await page.locator('#status').filter({ hasText: /^Failed: the scenario needs more memory/ }).waitFor();
  await picture(page, 'memory');
  await area.fill(text);
  await page.getByText('The scenario is valid.').waitFor();
  await page.getByRole('button', { name: 'Run' }).click();
  await reported(page);
});

test('controllers with parameters replace the schemes, and a link restores them', async (t) => {
  const page = await open(t);
  await load(page, 'failing-link');
  await page.getByLabel('Add a controller').selectOption('cocoa');
  await page.locator('summary').click();
  await page.locator('input[name=weak_k]').fill('2000');
  await page.locator('#problem.wrong').filter({ hasText: 'weak_k' }).waitFor();
  await page.locator('input[name=weak_k]').fill('2');
  await page.getByText('The scenario is valid.').waitFor();
  await picture(page, 'controllers');
  await page.getByLabel('Seed').fill('7');
  await page.getByRole('button', { name: 'Copy link' }).click();
  await page.waitForURL(/#.{20}/);
  const again = await open(t, { hash: new URL(page.url()).hash });
  assert.match(await again.getByLabel('Scenario', { exact: true }).inputValue(), /failing-link/);
  await again.getByRole('button', { name: 'Run' }).click();
  const report = await reported(again);
  assert.equal(await report.locator('.origin code').innerText(),
    'conche run failing-link.toml --quick --seed 7 --controllers cocoa:weak_k=2');
  await again.getByLabel('Remove cocoa').click();
  assert.equal(await again.locator('summary').count(), 0);
});

test('400 pixels and a dark system are enough', async (t) => {
  const light = await open(t, { viewport: { width: 400, height: 800 } });
  const dark = await open(t, { viewport: { width: 400, height: 800 }, colorScheme: 'dark' });
  const ground = (of) => of.locator('body').evaluate((it) => getComputedStyle(it).backgroundColor);
  const grounds = [];
  for (const page of [light, dark]) {
    await not_wider(page);
    await load(page, 'failing-link');
    await page.getByLabel('Add a controller').selectOption('fasor');
    await page.locator('summary').click();
    await not_wider(page);
    await page.getByRole('button', { name: 'Run' }).click();
    const report = await reported(page);
    await not_wider(page);
    await not_wider(report);
    grounds.push([await ground(page), await ground(report)]);
  }
  await picture(dark, 'narrow-dark');
  await dark.locator('#report').scrollIntoViewIfNeeded();
  await picture(dark, 'narrow-report');
  assert.deepEqual(grounds[0], Array(2).fill('rgb(245, 246, 248)'));
  assert.deepEqual(grounds[1], Array(2).fill('rgb(15, 17, 21)'));
  await dark.setViewportSize({ width: 1400, height: 900 });
  await picture(dark, 'dark');
});

test('every control has a name and is reached by keyboard', async (t) => {
  const page = await open(t);
  assert.deepEqual(await pages.unnamed(page), []);
  const reached = [];
  await page.locator('#share').focus();
  for (let key = 0; key < 8; key++) {
    await page.keyboard.press('Tab');
    reached.push(await page.evaluate(() => document.activeElement.id));
  }
  for (const id of ['examples', 'scenario', 'controllers', 'seed', 'quick', 'run']) assert.ok(reached.includes(id), id);
});
