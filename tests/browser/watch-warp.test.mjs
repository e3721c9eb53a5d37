/**
 * The notebook that keeps `import warp as wp`: NVIDIA Warp runs its kernels, and the panel, the mask, *Run* and the report work on
 * them. Skipped where warp-lang is not installed, as in CI.
 */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  command,
  notebook,
  openPage,
  python,
  ROOT,
  runAll,
  screenshot,
  setTheme,
  show,
  startBrowser,
  startLab,
} from "./harness.mjs";

const NAME = "watch_warp.ipynb";
const HAS_WARP = "import importlib.util, sys; sys.exit(importlib.util.find_spec('warp') is None)";
const installed = spawnSync(process.env.PYTHON ?? "python", ["-c", HAS_WARP]).status === 0;
const skip = installed ? false : "warp-lang is not installed";
const TITLE = /^NVIDIA Warp \d+\.\d+\S*, cpu$/;
let lab;
let browser;
let page;
let finish;
let panel;

before(async () => {
  if (skip) return;
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.add(join(ROOT, "notebooks", NAME), NAME);
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1600, height: 1000 }));
  await command(page, "application:toggle-left-area");
  await runAll(page);
  panel = page.locator(".jp-Notebook .tapedebug").first();
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const cellOf = (input, output) => panel.locator(`td:has(input[data-pair$='"${input}","${output}"]'])`);

test("the panel names the engine and the overwrite, in both themes", { skip }, async () => {
  const failed = await page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]').count();
  assert.equal(failed, 0);
  await panel.waitFor();
  await show(panel);
  assert.match(await panel.locator(".td-engine").textContent(), TITLE);
  assert.equal(await panel.locator(".td-badge").textContent(), "✕ gradient WRONG");
  const worst = await panel.locator(".td-card").first().innerText();
  assert.match(worst, /overwrite · angle/);
  assert.match(worst, /Fix: give swing an array of its own for angle/);
  assert.doesNotMatch(worst, /on_overwrite/);
  await screenshot(page, "watch-warp-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "watch-warp-dark");
  await setTheme(page, "JupyterLab Light");
});

test("what was checked says what watching leaves out", { skip }, async () => {
  await panel.locator(".td-checked summary").click();
  const text = await panel.locator(".td-checked-body").innerText();
  assert.match(text, /engine\s+NVIDIA Warp/);
  assert.match(text, /not-reset was not looked for: NVIDIA Warp keeps no record/);
  await screenshot(page, "watch-warp-checked");
  await page.keyboard.press("Escape");
  await panel.locator(".td-checked summary").click();
});

test("a pair that is switched off is not run, and the rest is", { skip }, async () => {
  await python(page, 'panel.mask = [[None, "start", "loss"], [None, "length", "loss"]]; panel.checks');
  await cellOf("start", "loss").locator("input").uncheck();
  await panel.locator(".td-run").click();
  await page.waitForFunction(() =>
    document.querySelector(`.tapedebug td:has(input[data-pair$='"length","loss"]'])`)?.textContent.includes("WRONG"),
  );
  assert.match(await cellOf("length", "loss").textContent(), /WRONG/);
});

test("the mended cell agrees", { skip }, async () => {
  const mended = page.locator(".jp-Notebook .tapedebug").nth(1);
  await show(mended);
  assert.match(await mended.locator(".td-badge").textContent(), /gradient AGREE/); // in part: races were not looked for
  assert.match(await mended.locator(".td-engine").textContent(), TITLE);
});

test("values at a launch are those of Warp's array then, and arrays and gradients are as before", {
  skip,
}, async () => {
  const told = await python(
    page,
    "trace = tapedebug.trace.recording.record(tape, values='arrays')\n" +
      "print(float(trace.values('angle', 1)[0]), float(start.numpy()[0]), float(length.grad.numpy()[40]))",
  );
  const [then, first] = told.trim().split(" ").map(Number);
  assert.ok(Math.abs(then - first) < 1e-6, told);
});

test("nothing went wrong meanwhile", { skip }, async () => finish());

test("the record button watches a cell that makes its own tape", { skip }, async () => {
  const name = "own-tape.ipynb";
  const set = "import warp as wp\n%load_ext tapedebug\nx = wp.array([1.0, 2.0], dtype=float, requires_grad=True)";
  const kernel =
    "@wp.kernel\ndef square(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    i = wp.tid()\n    y[i] = x[i] * x[i]";
  const arm = "from tapedebug.notebook.record_next_cell import next_cell\nnext_cell.arm(True)";
  const cell =
    "y = wp.zeros(2, dtype=float, requires_grad=True)\nwith wp.Tape() as mine:\n    wp.launch(square, dim=2, inputs=[x], outputs=[y])";
  await lab.write(name, notebook(`${set}\n${kernel}`, arm, cell));
  const opened = await openPage(browser, lab, name);
  await runAll(opened.page);
  const shown = opened.page.locator(".jp-Notebook .tapedebug");
  await shown.waitFor();
  assert.match(await shown.locator(".td-engine").textContent(), TITLE);
  await opened.finish();
});
