/** The widget among others in JupyterLab: in boxes and tabs, twice, two on one tape; and what ends while it is shown. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  command,
  kernelIdle,
  notebook,
  openPage,
  python,
  runAll,
  screenshot,
  setTheme,
  show,
  startBrowser,
  startLab,
} from "./harness.mjs";
import { KERNELS, WRONG, WRONG_TAPE } from "./programs.mjs";

const BOX = `import ipywidgets
one, other = wp.TapeDebugger(found, height=420), wp.TapeDebugger(tape, height=420)
label = ipywidgets.Label()
ipywidgets.jslink((one, "status"), (label, "value"))
ipywidgets.VBox([label, ipywidgets.HBox([one]), ipywidgets.Tab([other], titles=["the same tape"])])`;

/** A check that goes on until it is cancelled. */
const SLOW = `import time
from tapedebug.panel import check_runner
quick = check_runner.check_pairs
def slow(tape, mask, *, cancelled, progress, **options):
    for step in range(600):
        if cancelled():
            return []
        progress(min(0.9, step / 50))
        time.sleep(0.05)
    return []
check_runner.check_pairs = slow`;

/** A check that ends its kernel, once it has given a sign of life. */
const DEADLY = `import os, time
from tapedebug.panel import check_runner
def deadly(*args, **options):
    time.sleep(1)
    os.kill(os.getpid(), 9)
check_runner.check_pairs = deadly`;

let lab;
let browser;
let page;
let finish;
let one;
let other;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("boxes.ipynb", notebook(KERNELS, WRONG_TAPE, BOX, "one"));
  await lab.write("second.ipynb", notebook(KERNELS, WRONG));
  ({ page, finish } = await openPage(browser, lab, "boxes.ipynb", { height: 1000 }));
  await command(page, "application:toggle-left-area");
  one = page.locator(".widget-hbox .tapedebug");
  other = page.locator(".jupyter-widget-tab-contents .tapedebug, .widget-tab-contents .tapedebug");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const json = async (expression) => JSON.parse(await python(page, `import json; print(json.dumps(${expression}))`));
const chosen = (panel) => panel.locator(".td-choice[aria-selected=true]");
const boxOf = (panel, entry) => panel.locator(`input[data-pair='${JSON.stringify(entry)}']`);
const cellOf = (panel, entry) => panel.locator(`td:has(input[data-pair='${JSON.stringify(entry)}'])`);

test("it sits in boxes and tabs, as wide as they are and as high as it was asked to be", async () => {
  await runAll(page);
  await one.waitFor();
  await other.waitFor();
  await show(one);
  for (const panel of [one, other]) {
    const { width, height } = await panel.boundingBox();
    assert.equal(height, 420);
    assert.ok(width > 400, `${width} pixels wide`);
    assert.equal(await panel.evaluate((element) => element.scrollWidth - element.clientWidth), 0);
  }
  await screenshot(page, "widget-boxes-light");
});

test("two panels of one tape have selections of their own, and share the results of checks", async () => {
  await one.locator(".td-card").first().click();
  await chosen(one).getByText("Launch 2 · refill").waitFor();
  assert.equal(await chosen(other).textContent(), "Launch");
  assert.deepEqual(await json("other.selection"), {});
  await boxOf(other, [null, "x", "loss"]).check();
  await other.locator(".td-run").click();
  await other.getByText(/^1 pair checked in .* s: 1 WRONG\.$/).waitFor();
  await cellOf(one, [null, "x", "loss"]).getByText("WRONG").waitFor();
});

test("a trait that is linked to another widget follows", async () => {
  await json("one.run([(1, 'x', 'y')]) and None");
  await page.locator(".widget-label", { hasText: /^1 pair checked in .* s: 1 AGREE\.$/ }).waitFor();
});

test("shown twice, it is one panel in two places", async () => {
  const again = page.locator(".jp-Cell").nth(3).locator(".tapedebug");
  await again.waitFor();
  await json("one.select(launch=3)");
  for (const panel of [one, again]) await chosen(panel).getByText("Launch 3 · total").waitFor();
  await again.locator(".td-card").first().click();
  await chosen(one).getByText("Launch 2 · refill").waitFor();
  await page.evaluate(() => {
    globalThis.jupyterapp.shell.currentWidget.content.activeCellIndex = 3;
  });
  await command(page, "notebook:clear-cell-output");
  await again.waitFor({ state: "detached" });
  await json("one.select(launch=1)");
  await chosen(one).getByText("Launch 1 · square").waitFor();
});

test("a slow check shows how far it is and can be cancelled", async () => {
  await python(page, SLOW);
  await show(one);
  await one.locator(".td-run").click();
  const cancel = one.getByRole("button", { name: /^Cancel/ }).first();
  await cancel.click();
  await one.getByText(/^Cancelled after 0 of 1 pair\.$/).waitFor();
  await one.locator(".td-run:enabled").waitFor();
  await python(page, "check_runner.check_pairs = quick");
  await one.locator(".td-run").click();
  await one.getByText(/^1 pair checked in .* s: /).waitFor();
});

test("another notebook beside it has panels of its own", async () => {
  await command(page, "docmanager:open", { path: "second.ipynb" });
  await page.waitForFunction(() => globalThis.jupyterapp.shell.currentWidget?.title.label === "second.ipynb");
  await runAll(page);
  const panel = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .tapedebug");
  await panel.locator(".td-run").click();
  await panel.getByText(/^1 pair checked in .* s: 1 WRONG\.$/).waitFor();
  await command(page, "docmanager:open", { path: "boxes.ipynb" });
  await chosen(one).getByText("Launch 1 · square").waitFor();
});

test("when the kernel is restarted panels inside boxes say so, and what needs it is off", async () => {
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  for (const panel of [one, other]) {
    await panel.getByText("The kernel of this tape is gone. This is the last known state.").waitFor();
    await panel.locator(".td-run:disabled").waitFor();
  }
  await other.locator(".td-card").first().click();
  await chosen(other).getByText("Launch 2 · refill").waitFor();
  await other.getByRole("tab", { name: "Graph" }).click();
  await other
    .getByText("The graph could not be loaded. This needs the kernel of the tape, which is gone.", { exact: true })
    .waitFor();
  await other.getByRole("tab", { name: "Lanes" }).click();
  assert.match(await cellOf(other, [null, "x", "loss"]).textContent(), /WRONG/);
});

test("the notebook goes on with the kernel that comes after", async () => {
  await runAll(page);
  await one.locator(".td-run:enabled").waitFor();
  await one.locator(".td-run").click();
  await one.getByText(/^1 pair checked in .* s: 1 WRONG\.$/).waitFor();
});

test("when the kernel dies during a run the panel says so, and shows what was last seen", async () => {
  await kernelIdle(page);
  await python(page, DEADLY);
  await show(one);
  await setTheme(page, "JupyterLab Dark");
  await one.locator(".td-run").click();
  for (const panel of [one, other]) {
    await panel.getByText("The kernel of this tape is gone. This is the last known state.").waitFor();
    await panel.locator(".td-run:disabled").waitFor();
  }
  await page.locator(".jp-Dialog button").first().click(); // JupyterLab tells of the restart, too
  await one.locator(".td-card").first().click();
  await chosen(one).getByText("Launch 2 · refill").waitFor();
  await screenshot(page, "widget-kernel-died-dark");
  await finish();
});
