/** The notebook about kernels in a real JupyterLab: it runs whole, and its panel shows fields of structs by their names. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  command,
  notebook,
  openInstead,
  openPage,
  ROOT,
  runAll,
  screenshot,
  setTheme,
  show,
  startBrowser,
  startLab,
} from "./harness.mjs";
import { KERNELS } from "./programs.mjs";

const NAME = "kernels.ipynb";
let lab;
let browser;
let page;
let finish;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.add(join(ROOT, "notebooks", NAME), NAME);
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1400, height: 1000 }));
  await command(page, "application:toggle-left-area");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

test("the notebook runs, and the panel shows the thrust of the drone", async () => {
  await runAll(page);
  const failed = await page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]').count();
  assert.equal(failed, 0);
  const panel = page.locator(".jp-Notebook .tapedebug");
  await panel.waitFor();
  await show(panel);
  assert.match(await panel.textContent(), /drone\.thrust/);
  await screenshot(page, "kernels-light");
});

test("what it prints about kernels can be read in both themes", async () => {
  const error = page.locator(".jp-OutputArea-output", { hasText: "is outside axis 0 of" }).last();
  await show(error);
  assert.match(await error.textContent(), /the index 4 is outside axis 0 of `x`, which has length 4, in thread 3/);
  await screenshot(page, "kernels-inside-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "kernels-inside-dark");
});

const CHECK = `${KERNELS}
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
wp.autograd.gradcheck(square, dim=3, inputs=[x], outputs=[wp.zeros_like(x)])`;
const PROGRESS = `from tapedebug._progress import line_below_cell
line = line_below_cell()
line("checking tape: launch 1 (2 s)")
line("")`;

test("a check is shown once, and its progress leaves nothing", async () => {
  await lab.write("once.ipynb", notebook(CHECK, PROGRESS, "1 + 1"));
  await openInstead(page, "once.ipynb");
  await runAll(page);
  const outputs = page.locator(".jp-CodeCell").nth(0).locator(".jp-OutputArea-output:visible"); // progress may have come and gone
  assert.equal(await outputs.count(), 1);
  assert.match(await outputs.first().textContent(), /kernel square/);
  await setTheme(page, "JupyterLab Light");
  await screenshot(page, "check-once-light");
  const gone = page.locator(".jp-CodeCell").nth(1).locator(".jp-OutputArea-child");
  assert.equal(await gone.count(), 1);
  assert.equal(await gone.first().isVisible(), false);
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "check-once-dark");
});

test("nothing was written to the console, and nothing was fetched from elsewhere", () => finish());
