/** The notebook about kernels in a real JupyterLab: it runs whole, and its panel shows fields of structs by their names. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { command, openPage, ROOT, runAll, screenshot, setTheme, show, startBrowser, startLab } from "./harness.mjs";

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

test("nothing was written to the console, and nothing was fetched from elsewhere", () => finish());
