/** Marks in cells, the recording of the next cell, trace files, the launcher and the settings. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
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
  startBrowser,
  startLab,
} from "./harness.mjs";

const KERNELS = `%load_ext tapedebug
import tapedebug as wp

@wp.kernel
def forces(x: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    force[i] = x[i] * x[i]

@wp.kernel
def integrate(x: wp.array(dtype=float), force: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] + 0.1 * force[i] * force[i]`;
const RECORD = `a, force, b, c = (wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True) for _ in range(4))
with wp.Tape(on_overwrite="ignore") as tape:
    wp.launch(forces, dim=3, inputs=[a], outputs=[force])
    wp.launch(integrate, dim=3, inputs=[a, force], outputs=[b])
    wp.launch(forces, dim=3, inputs=[b], outputs=[force])`;
const LAUNCH = "wp.launch(forces, dim=3, inputs=[a], outputs=[c])";
const OVERWRITES = "writes force ✕ overwrites what integrate (launch 1) needs";
let lab;
let browser;
let page;
let finish;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("net.ipynb", notebook(KERNELS, RECORD));
  await writeFile(join(lab.root, "damaged.tapetrace"), "PK\u0003\u0004 and nothing more");
  await writeFile(
    join(lab.root, "net.trace.json"),
    await readFile(join(ROOT, "js", "tests", "fixtures", "net.trace.json"), "utf8"),
  );
  ({ page, finish } = await openPage(browser, lab, "net.ipynb"));
  await runAll(page);
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const marks = () => page.locator(".jp-Notebook .td-mark");
const loud = () => page.locator("button.td-mark-error", { hasText: OVERWRITES });
const gone = () => page.waitForFunction(() => document.querySelectorAll(".jp-Notebook .td-mark").length === 0);
const front = (path) => command(page, "docmanager:open", { path });
const source = (cell, text) =>
  page.evaluate(
    ([at, value]) => {
      const { sharedModel } = globalThis.jupyterapp.shell.currentWidget.content.widgets[at].model;
      const before = sharedModel.getSource();
      sharedModel.setSource(value ?? `${before}\n# changed`);
      return before;
    },
    [cell, text],
  );

test("lines of cells are marked with what they read, write and overwrite", async () => {
  await loud().waitFor();
  const line = page.locator(".cm-line.td-mark-error", { hasText: "force[i] = x[i] * x[i]" });
  assert.equal(await line.count(), 1);
  assert.match(await loud().getAttribute("title"), /over values that the adjoint of integrate \(launch 1\) needs/);
  assert.ok((await marks().allTextContents()).includes("reads x"));
  await screenshot(page, "lab-marks-light");
  await setTheme(page, "JupyterLab Dark");
  await page.setViewportSize({ width: 700, height: 900 });
  await page.waitForTimeout(300);
  await screenshot(page, "lab-marks-dark-700");
  await page.setViewportSize({ width: 1400, height: 900 });
  await setTheme(page, "JupyterLab Light");
});

test("a change of the cell takes its marks away, and the same text brings them back", async () => {
  const before = await source(0);
  await gone();
  await source(0, before);
  await loud().waitFor();
});

test("marks can be switched off and on, and cleared", async () => {
  await command(page, "tapedebug:toggle-marks");
  await gone();
  await command(page, "tapedebug:toggle-marks");
  await loud().waitFor();
  await command(page, "tapedebug:clear-marks");
  await gone();
});

test("a diagnosis brings its findings, and a click opens the tape at its finding", async () => {
  await python(page, "tape.backward(grads={b: wp.ones(3, dtype=float)})");
  await loud().waitFor(); // a newer state of the tape ends what was cleared
  await loud().click();
  const tab = page.locator(".td-tab .tapedebug");
  await tab.waitFor();
  assert.equal(await page.locator(".jp-Dialog").count(), 0);
  await front("net.ipynb");
});

test("the next cell is recorded from the toolbar, or not after all", async () => {
  const button = page.locator(".td-next-button");
  await button.click();
  await page.locator('.td-next-button[data-state="armed"]').waitFor();
  await screenshot(page, "lab-armed");
  await button.click();
  await page.locator('.td-next-button[data-state="off"]').waitFor();
  await button.click();
  await page.locator('.td-next-button[data-state="armed"]').waitFor();
  await page.evaluate((code) => {
    const { content } = globalThis.jupyterapp.shell.currentWidget;
    content.model.sharedModel.addCell({ cell_type: "code", source: code });
    content.activeCellIndex = content.widgets.length - 1;
  }, LAUNCH);
  await command(page, "notebook:run-cell");
  await page.locator(".jp-OutputArea .tapedebug").waitFor();
  await page.locator('.td-next-button[data-state="off"]').waitFor();
  // the newest tape speaks for the cell now
  await page.waitForFunction(() => document.querySelectorAll(".jp-Notebook button.td-mark-error").length === 0);
});

test("marks go with the kernel", async () => {
  await marks().first().waitFor();
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await gone();
});

test("a saved trace opens in the debugger, and a damaged one says what is wrong", async () => {
  await runAll(page);
  await python(page, 'wp.trace.record(tape).save("saved.tapetrace")');
  await front("saved.tapetrace");
  await page.locator(".td-tab .tapedebug .td-header").last().waitFor();
  await screenshot(page, "lab-file");
  await front("net.trace.json");
  await page.locator(".jp-Document .td-tab .tapedebug h1.td-name").last().waitFor();
  await front("damaged.tapetrace");
  await page.getByRole("heading", { name: "damaged.tapetrace can not be shown" }).waitFor();
  await page.getByText("The zip is damaged: its end is missing; the file was cut off, or is no zip.").waitFor();
  await screenshot(page, "lab-file-damaged");
});

test("the launcher makes a notebook that loads tapedebug", async () => {
  await command(page, "launcher:create");
  await page.locator(".jp-LauncherCard", { hasText: "Gradient Notebook" }).waitFor();
  await screenshot(page, "lab-launcher");
  await page.locator(".jp-LauncherCard", { hasText: "Gradient Notebook" }).click();
  await page.locator(".cm-line", { hasText: "%%tape --loss loss" }).waitFor();
  await finish();
});
