/** A notebook that was saved with a tape, opened where no kernel knows of it. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { codeCell, notebook, openPage, ROOT, screenshot, setTheme, startBrowser, startLab } from "./harness.mjs";

const TRACE_MIME = "application/vnd.tapedebug.trace+json";
const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";
let lab;
let browser;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

async function savedNotebook() {
  const trace = JSON.parse(await readFile(join(ROOT, "js/tests/fixtures/net.trace.json"), "utf8"));
  const output = {
    output_type: "display_data",
    metadata: { [TRACE_MIME]: { mask: [[null, "throw", "loss"]] } },
    data: {
      "text/plain": "<Tape>",
      "text/html": "<p>static fallback</p>",
      [TRACE_MIME]: trace,
      [WIDGET_MIME]: { version_major: 2, version_minor: 0, model_id: "0123456789abcdef0123456789abcdef" },
    },
  };
  const saved = notebook();
  saved.cells = [codeCell("tape", 0, [output])];
  return saved;
}

test("a saved tape shows without a kernel, never 'model not found'", async () => {
  await lab.write("saved.ipynb", await savedNotebook());
  const { page, finish } = await openPage(browser, lab, "saved.ipynb");
  const panel = page.locator(".jp-OutputArea-output .tapedebug");
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  // the widget manager gives up after two seconds
  await page.waitForTimeout(2500);
  assert.equal(await page.getByText("model not found").count(), 0);
  assert.equal(await page.getByText("static fallback").count(), 0);
  await page.getByText("overwrites values of").first().waitFor();
  await screenshot(page, "saved-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "saved-dark");
  await finish();
});
