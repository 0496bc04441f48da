// The WebAssembly gives the results of the command, to the last byte.
// Environment: PLAYGROUND (directory of its files), CONCHE (the command), SCENARIOS (files to run, one a line).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import test, { after } from 'node:test';
import { pathToFileURL } from 'node:url';

const { PLAYGROUND, CONCHE, SCENARIOS } = process.env;
const { answer } = await import(pathToFileURL(path.join(PLAYGROUND, 'program.js')));
const program = new WebAssembly.Module(readFileSync(path.join(PLAYGROUND, 'conche-playground.wasm')));
const run = (file, options, progress) => answer(program, { run: { scenario: readFileSync(file, 'utf8'), options } }, progress);

const scratch = mkdtempSync(path.join(tmpdir(), 'playground-'));
after(() => rmSync(scratch, { recursive: true }));
const drawings = (page) => page.match(/<svg.*?<\/svg>/gs) ?? [];
const tables = (page) => page.match(/<table.*?<\/table>/gs) ?? [];
const conche = (...words) => execFileSync(CONCHE, words, { encoding: 'utf8', maxBuffer: 1 << 30 });

const same = (file, options, words) => {
  const { Ok, Err } = run(file, options);
  assert.equal(Err, undefined);
  const directory = path.join(scratch, path.basename(file, '.toml'));
  const native = conche('run', file, ...words, '--json', '--quiet', '--overwrite', '-o', directory);
  assert.ok(native.split('\n').length > 10);
  assert.equal(Ok.values, native);
  conche('report', directory, '--quiet');
  const page = readFileSync(path.join(directory, 'report.html'), 'utf8');
  assert.ok(drawings(page).length > 3);
  assert.deepEqual(drawings(Ok.page), drawings(page));
  assert.deepEqual(tables(Ok.page), tables(page));
};

for (const file of SCENARIOS.trim().split('\n')) {
  test(`${path.basename(file)} has the values and figures of the command`, () => same(file, { quick: true }, ['--quick']));
}

test('controllers with parameters and a seed have the effect of the command\'s options', () => {
  const file = SCENARIOS.trim().split('\n').find((it) => it.includes('failing-link'));
  const controllers = ['default', 'cocoa:weak_k=2,max_rto=20s'];
  same(file, { controllers, seed: 7, quick: true }, ['--quick', '--seed', '7', '--controllers', controllers.join(',')]);
});

test('the share of the work is reported up to its end', () => {
  const shares = [];
  const file = SCENARIOS.trim().split('\n')[0];
  run(file, { quick: true, controllers: ['default'] }, (share) => shares.push(share));
  assert.ok(shares.length > 1 && shares.every((share, at) => at === 0 || share > shares[at - 1]));
  assert.equal(shares.at(-1), 1);
});
