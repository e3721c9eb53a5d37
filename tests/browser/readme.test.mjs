/** What the README promises of its first cell, in a real JupyterLab: red as shown, however often it runs, and a report to send. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  command,
  notebook,
  openPage,
  ROOT,
  runAll,
  screenshot,
  setTheme,
  show,
  startBrowser,
  startLab,
} from "./harness.mjs";

const NAME = "first.ipynb";
let lab;
let browser;
let page;
let finish;
let panel;

/** The first block of Python below a heading of the README. */
async function block(heading) {
  const text = await readFile(join(ROOT, "README.md"), "utf8");
  return /```python\n(.*?)```/s.exec(text.slice(text.indexOf(`## ${heading}`)))[1].trimEnd();
}

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  const script = await block("A first example");
  const kernels = script.slice(0, script.indexOf("\nx = wp.array")).trimEnd();
  const cell = await block("In a notebook");
  await lab.write(NAME, notebook(`${kernels}\n%load_ext tapedebug`, cell, "print(x.grad.numpy())", "%tape_report"));
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1500, height: 1000 }));
  await command(page, "application:toggle-left-area");
  panel = page.locator(".jp-Notebook .tapedebug");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const outputs = (at) =>
  page.locator(".jp-Notebook .jp-CodeCell").nth(at).locator(".jp-OutputArea-output").allInnerTexts();

async function assertRed() {
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  assert.equal(await panel.locator(".td-badge").textContent(), "✕ gradient WRONG");
  const cards = await panel.locator(".td-card").allInnerTexts();
  assert.equal(cards.length, 1);
  assert.match(cards[0], /overwrite · x\n/);
  assert.match(cards[0], /off by 363 %/);
  assert.match(cards[0], /Fix: give negate an array of its own for y/);
}

test("the cell is red, and the panel shows the overwrite with its line", async () => {
  await runAll(page);
  await assertRed();
  assert.match((await outputs(2)).join(""), /\[ *-2\. +-8\. +-18\.\]/);
  await show(panel);
  await screenshot(page, "readme-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "readme-dark");
  await setTheme(page, "JupyterLab Light");
});

test("%tape_report names the tape and links to the file", async () => {
  const told = (await outputs(3)).join("\n");
  const [, file] = /^Report of In \[2\] \(tape \d+, 3 launches, gradient WRONG\) written to .*\/(\S+) \(\d+ kB\)/.exec(
    told,
  );
  assert.equal(file, "tapedebug-report-In-2.html");
  await page.locator(".jp-Notebook .jp-CodeCell").nth(3).getByRole("link", { name: file }).waitFor();
  assert.match(await readFile(join(lab.root, file), "utf8"), /gradient of loss with respect to x is wrong/);
});

test("run again, it says the same, and reports are not replaced", async () => {
  for (let i = 0; i < 3; i++) await runAll(page);
  await assertRed();
  assert.match((await outputs(2)).join(""), /\[ *-2\. +-8\. +-18\.\]/);
  const reports = (await readdir(lab.root)).filter((name) => name.startsWith("tapedebug-report-"));
  assert.equal(reports.length, 4);
  await show(panel);
  await screenshot(page, "readme-again-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "readme-again-dark");
  await finish();
});
