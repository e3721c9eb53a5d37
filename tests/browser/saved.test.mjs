/** Notebooks that were saved with a tape, opened where no kernel knows of it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { codeCell, notebook, openPage, ROOT, screenshot, setTheme, show, startBrowser, startLab } from "./harness.mjs";

const TRACE_MIME = "application/vnd.tapedebug.trace+json";
const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";
const EVIL = "</script><img src=x onerror=alert(1)>";
let lab;
let browser;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

async function netTrace() {
  return JSON.parse(await readFile(join(ROOT, "js/tests/fixtures/net.trace.json"), "utf8"));
}

function saved(...traces) {
  const outputs = traces.map((trace) => ({
    output_type: "display_data",
    metadata: { [TRACE_MIME]: { mask: [[null, "throw", "loss"]] } },
    data: {
      "text/plain": "<Tape>",
      "text/html": "<p>static fallback</p>",
      [TRACE_MIME]: trace,
      [WIDGET_MIME]: { version_major: 2, version_minor: 0, model_id: "0123456789abcdef0123456789abcdef" },
    },
  }));
  return { ...notebook(), cells: outputs.map((output, number) => codeCell("tape", number, [output])) };
}

test("a saved tape shows without a kernel, never 'model not found'", async () => {
  await lab.write("saved.ipynb", saved(await netTrace()));
  const { page, finish } = await openPage(browser, lab, "saved.ipynb");
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
  await finish();
});

test("names with markup stay text, and what is no trace says so without breaking the page", async () => {
  const evil = await netTrace();
  evil.name = EVIL;
  evil.arrays[0].label = EVIL;
  evil.kernels[0].name = EVIL;
  evil.findings[0].message = EVIL;
  await lab.write("evil.ipynb", saved(evil, { format: "something else" }, [], 3));
  const { page, finish } = await openPage(browser, lab, "evil.ipynb");
  const panels = page.locator(".jp-OutputArea-output .tapedebug");
  await panels.nth(3).waitFor({ state: "attached" });
  assert.match(await panels.first().locator("h1").textContent(), /^<\/script><img src=x onerror=/);
  assert.equal(await page.locator(".jp-OutputArea-output img").count(), 0);
  const said = await panels.evaluateAll((all) => all.slice(1).map((panel) => panel.textContent));
  for (const text of said) assert.match(text, /This trace can not be shown.*This is not a tapedebug trace/s);
  await show(panels.nth(1));
  await screenshot(page, "saved-hostile");
  await finish();
});
