// Chromium, and functions that the tests of all pages share. Environment: perhaps SCREENSHOTS (directory
// for pictures).
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import path from 'node:path';
import { chromium } from 'playwright-core';

const { SCREENSHOTS } = process.env;

export const launch = (...args) => {
  const executablePath = execFileSync('sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();
  return chromium.launch({ executablePath, args: ['--no-sandbox', ...args] });
};

/// Starts a command that serves a page. Returns its process, and the address that it prints.
export const serve = async (program, words, options = {}) => {
  const server = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  let text = '';
  const address = await new Promise((resolve, reject) => {
    const read = (data) => {
      text += data;
      const found = text.match(/http:\/\/\S+\/(?=[\s";])/);
      if (found) resolve(found[0]);
    };
    server.stdout.on('data', read);
    server.stderr.on('data', read);
    server.on('exit', (code) => reject(new Error(`the server ended with ${code}: ${text}`)));
  });
  return { server, address };
};

/// Opens a page, and fails the test if a script fails. `allowed` are errors that are no failure, and
/// `prepare` receives the page before it loads.
export const open = async (t, browser, url, { allowed = [], prepare, ...options } = {}) => {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  // A loaded machine takes its time.
  context.setDefaultTimeout(120_000);
  const page = await context.newPage();
  const problems = [];
  const add = (text) => { if (!allowed.some((it) => it.test(text))) problems.push(text); };
  page.on('pageerror', (error) => add(error.message));
  page.on('console', (message) => { if (message.type() === 'error') add(message.text()); });
  t.after(async () => {
    await context.close();
    assert.deepEqual(problems, []);
  });
  await prepare?.(page);
  await page.goto(url);
  return page;
};

export const picture = async (page, name) => {
  if (SCREENSHOTS) await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
};

export const not_wider = async (of) => {
  const [wide, width] = await of.locator('html').evaluate((it) => [it.scrollWidth, it.ownerDocument.defaultView.innerWidth]);
  assert.ok(wide <= width, `${wide} px of ${width}`);
};

/// Returns the visible controls of a page without a name for a screen reader.
export const unnamed = (page) => page.locator('button, select, input, textarea, progress, iframe').evaluateAll((all) =>
  all.filter((it) => !it.hidden && !(it.labels?.length || it.ariaLabel || it.title || it.textContent.trim())).map((it) => it.id));
