/** Notebooks that were saved with a tape, opened where no kernel knows of it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openInstead, openPage, ROOT, screenshot, setTheme, show, startBrowser, startLab } from "./harness.mjs";
import { netTrace, saved } from "./programs.mjs";

const EVIL = "</script><img src=x onerror=alert(1)>";
let lab;
let browser;
let page;
let finish;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("saved.ipynb", saved(await netTrace()));
  ({ page, finish } = await openPage(browser, lab, "saved.ipynb"));
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

test("a saved tape shows without a kernel, never 'model not found'", async () => {
  const panel = page.locator(".jp-OutputArea-output .tapedebug");
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  await page.waitForTimeout(2500); // the widget manager gives up after two seconds
  assert.equal(await page.getByText("model not found").count(), 0);
  assert.equal(await page.getByText("static fallback").count(), 0);
  assert.ok(await panel.locator(".td-run").isDisabled());
  assert.equal(await panel.locator('input[data-pair*="throw"]').first().isChecked(), true);
  await page.getByText("overwrites values of").first().waitFor();
  await screenshot(page, "saved-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "saved-dark");
  await page.evaluate(() => globalThis.jupyterapp.commands.execute("application:toggle-left-area"));
  await page.setViewportSize({ width: 700, height: 1000 });
  await show(panel);
  await screenshot(page, "saved-narrow-dark");
  const { width, height } = await panel.boundingBox();
  assert.ok(width > 400 && width < 640 && height > 400, `the panel is ${width} × ${height}`);
  const out = await panel.evaluate((element) => element.scrollWidth - element.clientWidth);
  assert.equal(out, 0, "nothing hangs out of the panel at the side");
  await setTheme(page, "JupyterLab Light");
  await page.setViewportSize({ width: 1400, height: 900 });
});

test("names with markup stay text, and what is no trace says so without breaking the page", async () => {
  const evil = await netTrace();
  evil.name = EVIL;
  evil.arrays[0].label = EVIL;
  evil.kernels[0].name = EVIL;
  evil.findings[0].message = EVIL;
  await lab.write("evil.ipynb", saved(evil, { format: "something else" }, [], 3));
  await openInstead(page, "evil.ipynb");
  const panels = page.locator(".jp-OutputArea-output .tapedebug");
  await panels.nth(3).waitFor({ state: "attached" });
  assert.match(await panels.first().locator("h1").textContent(), /^<\/script><img src=x onerror=/);
  assert.equal(await page.locator(".jp-OutputArea-output img").count(), 0);
  const said = await panels.evaluateAll((all) => all.slice(1).map((panel) => panel.textContent));
  for (const text of said) assert.match(text, /This trace cannot be shown.*This is not a tapedebug trace/s);
  await show(panels.nth(1));
  await screenshot(page, "saved-hostile");
});

test("a packed tape shows as well, and one that was cut short says so", async () => {
  const path = join(ROOT, "js", "tests", "fixtures", "net.packed.json");
  const packed = JSON.parse(await readFile(path, "utf8"));
  const short = { ...packed, columns: packed.columns.slice(0, 400) };
  await lab.write("packed.ipynb", saved(packed, short));
  await openInstead(page, "packed.ipynb");
  const panels = page.locator(".jp-OutputArea-output .tapedebug");
  await panels.nth(1).waitFor({ state: "attached" });
  await panels.first().getByText("overwrites values of").first().waitFor();
  await panels.first().getByRole("tab", { name: "Graph" }).click();
  await panels.first().locator(".td-g-launch").first().waitFor();
  await screenshot(page, "saved-graph-light");
  assert.match(await panels.nth(1).textContent(), /This trace cannot be shown.*columns of this trace are damaged/s);
});

test("nothing went wrong in the page meanwhile", async () => finish());
