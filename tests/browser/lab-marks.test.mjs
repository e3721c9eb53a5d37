/** Marks in cells, the recording of the next cell, trace files, the launcher; every command of the palette and every setting. */
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
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
  const trace = await readFile(join(ROOT, "js", "tests", "fixtures", "net.trace.json"), "utf8");
  await writeFile(join(lab.root, "net.trace.json"), trace);
  await writeFile(join(lab.root, "large.trace.json"), trace + " ".repeat(1_000_000));
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
const tab = () => page.locator(".td-tab:visible .tapedebug");
const bar = () => page.locator("#tapedebug-sidebar");
const chosen = new Set();
let offered = [];

/** Chooses one of our commands from the palette, as somebody would. */
async function choose(label) {
  await command(page, "apputils:activate-command-palette");
  await page.locator(".lm-CommandPalette-input").fill("Gradient Tapes");
  const items = page.locator('.lm-CommandPalette-item[data-command^="tapedebug:"]');
  const item = items.filter({ has: page.getByText(label, { exact: true }) });
  chosen.add(await item.getAttribute("data-command"));
  offered = await items.evaluateAll((all) => all.map((one) => one.dataset.command));
  await item.click();
}

/** Changes one of our settings in JupyterLab's editor of settings. */
async function setting(name, value) {
  await command(page, "settingeditor:open", { query: "Gradient Tapes" });
  const field = page.locator(`[id="jp-SettingsEditor-tapedebug:settings_${name}"]`);
  if (typeof value === "boolean") await field.setChecked(value);
  else if (typeof value === "number") await field.fill(String(value));
  else await field.selectOption(value);
}
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
  await choose("Marks of Tapes in Cells");
  await gone();
  await choose("Marks of Tapes in Cells");
  await loud().waitFor();
  await choose("Clear Marks of Tapes in This Notebook");
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

test("commands on the newest tape open, diagnose and export it", async () => {
  await choose("Show Live Tapes");
  await bar().locator("[data-tape]").waitFor();
  await choose("Open Latest Tape");
  await tab()
    .getByRole("heading", { name: /^tape \d+$/ })
    .waitFor();
  await choose("Diagnose Latest Tape");
  await bar().getByText("✕ gradient WRONG").waitFor();
  await tab().locator(".td-badge", { hasText: "gradient WRONG" }).waitFor();
  await choose("Export Report of Latest Tape");
  await tab()
    .locator(".td-status", { hasText: /^Report written to / })
    .waitFor();
  const written = (await readdir(lab.root)).filter((name) => /^tapedebug-report-.+\.html$/.test(name));
  assert.equal(written.length, 1);
  await front("net.ipynb");
  await page.evaluate(() => {
    const { content } = globalThis.jupyterapp.shell.currentWidget;
    content.activeCellIndex = 0;
    const { editor } = content.activeCell;
    const line = content.activeCell.model.sharedModel.getSource().split("\n").indexOf("    force[i] = x[i] * x[i]");
    editor.setCursorPosition({ line, column: 0 });
  });
  await choose("Open the Tape at This Line");
  await tab().locator(".td-card[aria-pressed=true]").waitFor();
  await front("net.ipynb");
});

test("the next cell is recorded from the toolbar, or not after all", async () => {
  const button = page.locator(".td-next-button");
  await choose("Record Next Cell");
  await page.locator('.td-next-button[data-state="armed"]').waitFor();
  await screenshot(page, "lab-armed");
  await choose("Record Next Cell");
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

test("settings take effect at once: marks, the theme of panels, diagnosis after recording", async () => {
  await setting("marks", false);
  await gone();
  await setting("marks", true);
  await marks().first().waitFor({ state: "attached" });
  const dark = page.locator('.tapedebug[data-td-theme="dark"]');
  const panels = await page.locator(".tapedebug").count();
  assert.equal(await dark.count(), 0);
  await setting("autoDiagnose", true);
  await setting("theme", "dark"); // once this one is seen, so is the one before
  await dark.nth(panels - 1).waitFor({ state: "attached" });
  await screenshot(page, "lab-settings");
  await front("net.ipynb");
  const newest = () => bar().locator("[data-tape]").first();
  const before = Number(await newest().getAttribute("data-tape"));
  await choose("Record This Cell on a Tape");
  await bar()
    .locator(`[data-tape="${before + 1}"] .td-side-badge`)
    .first()
    .waitFor();
  await page.locator(".jp-Notebook .jp-OutputArea .tapedebug").waitFor();
  await setting("autoDiagnose", false);
  await setting("theme", "follow");
  await dark.first().waitFor({ state: "detached" });
  await front("net.ipynb");
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
  await choose("Open Trace File…");
  const dialog = page.locator(".jp-Dialog", { has: page.locator(".jp-Open-Dialog") });
  await dialog.locator(".jp-DirListing-item", { hasText: "net.trace.json" }).click();
  await dialog.locator(".jp-mod-accept").click();
  await page.locator(".jp-Document .td-tab .tapedebug h1.td-name").last().waitFor();
  await front("damaged.tapetrace");
  await page.getByRole("heading", { name: "damaged.tapetrace cannot be shown" }).waitFor();
  await page.getByText("The zip is damaged: its end is missing; the file was cut off, or is not a zip.").waitFor();
  await screenshot(page, "lab-file-damaged");
});

test("a trace larger than the setting allows says so, and opens when more is allowed", async () => {
  await setting("largestTrace", 1);
  await front("large.trace.json");
  const failure = page.getByRole("heading", { name: "large.trace.json cannot be shown" });
  await failure.waitFor();
  await page.getByText(/^The trace is 1,\d{3},\d{3} bytes long; at most 1,000,000 are opened\.$/).waitFor();
  await setting("largestTrace", 2);
  await failure.waitFor({ state: "detached" });
});

test("the launcher makes a notebook that loads tapedebug", async () => {
  await choose("New Gradient Notebook");
  await page.locator(".jp-NotebookPanel:visible .cm-line", { hasText: "%%tape --loss loss" }).waitFor();
  // That needs a diagnosis to cancel, which the test of the side bar has.
  chosen.add("tapedebug:cancel-diagnosis");
  assert.deepEqual([...chosen].sort(), offered.sort(), "every other command has been chosen above");
  await command(page, "launcher:create");
  await page.locator(".jp-LauncherCard", { hasText: "Gradient Notebook" }).waitFor();
  await screenshot(page, "lab-launcher");
  await page.locator(".jp-LauncherCard", { hasText: "Gradient Notebook" }).click();
  await page.locator(".jp-NotebookPanel:visible .cm-line", { hasText: "%%tape --loss loss" }).waitFor();
  await finish();
});
