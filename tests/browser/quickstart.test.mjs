/** The quickstart notebook in a real JupyterLab, as somebody would use it. The tests go on where the one before ended. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import {
  command,
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

const TRACE_MIME = "application/vnd.tapedebug.trace+json";
const NAME = "quickstart.ipynb";
let lab;
let browser;
let page;
let finish;
let panel;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.add(join(ROOT, "notebooks", NAME), NAME);
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1600, height: 1000 }));
  await command(page, "application:toggle-left-area");
  panel = page.locator(".jp-Notebook .tapedebug");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const json = async (expression) => JSON.parse(await python(page, `import json; print(json.dumps(${expression}))`));
const boxes = () =>
  panel
    .locator("input[data-pair]")
    .evaluateAll((inputs) => inputs.map((input) => [JSON.parse(input.dataset.pair), input.checked]));
const cellOf = (input, output) => panel.locator(`td:has(input[data-pair$='"${input}","${output}"]'])`);
const sorted = (mask) => mask.map((entry) => JSON.stringify(entry)).sort();

test("the notebook runs and shows the panel, with the overwritten array marked", async () => {
  await runAll(page);
  const failed = await page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]').count();
  assert.equal(failed, 0);
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  await show(panel);
  const worst = panel.locator(".td-card").first();
  assert.match(await worst.getAttribute("class"), /td-error/);
  assert.match(await worst.textContent(), /overwrite · .*x_next.*integrate.*In \[4\]:22 in simulate/s);
  assert.match(await panel.locator(".td-card.td-info").first().textContent(), /force.*harmless/s);
  await page.waitForFunction(brokenBar);
  await screenshot(page, "quickstart-light");
});

test("choosing a finding chooses its launch, and Python sees it", async () => {
  await panel.locator(".td-card").first().click();
  await page.waitForFunction(
    () => document.querySelector(".tapedebug .td-card")?.getAttribute("aria-pressed") === "true",
  );
  const selection = await json("panel.selection");
  const finding = await json("panel.trace['findings'][0]");
  assert.equal(selection.finding, finding.id);
  assert.ok(finding.launches.includes(selection.launch));
  await screenshot(page, "quickstart-finding");
});

test("a pair that is switched off is not run, and the others get verdicts", async () => {
  await json("panel.set_trait('selection', {'launch': 2})");
  await panel.getByText("launch 2 · spring_forces").first().waitFor();
  await panel.getByRole("button", { name: "all", exact: true }).click();
  await cellOf("v", "force").getByRole("checkbox").uncheck();
  const on = (await boxes()).filter(([, checked]) => checked).map(([entry]) => entry);
  assert.deepEqual(
    sorted(on),
    sorted([
      [null, "throw", "loss"],
      [2, "x", "force"],
    ]),
  );
  assert.deepEqual(sorted(await json("panel.mask")), sorted(on));
  assert.match(await cellOf("x", "force").textContent(), /–/);

  await panel.locator(".td-run").click();
  await panel.getByText(/^2 pairs checked in .* s: /).waitFor();
  assert.match(await cellOf("x", "force").textContent(), /AGREE/);
  assert.match(await cellOf("v", "force").textContent(), /–/);
  assert.match(await cellOf("throw", "loss").textContent(), /WRONG/);
  const verdicts = Object.fromEntries(
    (await json("panel.checks")).map(({ launch, input, output, verdict }) => [`${launch} ${input} ${output}`, verdict]),
  );
  assert.equal(verdicts["2 x force"], "AGREE");
  assert.equal(verdicts["null throw loss"], "WRONG");
  assert.equal(verdicts["2 v force"], undefined);
  await screenshot(page, "quickstart-checked");
});

test("Python sets the mask, and the panel follows", async () => {
  await json("panel.set_trait('mask', [(2, 'v', 'force')])");
  await page.waitForFunction(() => document.querySelectorAll(".tapedebug input[data-pair]:checked").length === 1);
  assert.deepEqual(
    (await boxes()).filter(([, checked]) => checked).map(([entry]) => entry),
    [[2, "v", "force"]],
  );
  const refused = await python(page, "panel.mask = [(2, 'v', 'speed')]");
  assert.match(
    refused,
    /mask entry \[2, 'v', 'speed'\]: launch 2 \(spring_forces\) has no array 'speed'; it has x, v, force/,
  );
  assert.deepEqual(await json("panel.mask"), [[2, "v", "force"]]);
});

test("the report is written beside the notebook", async () => {
  await panel.getByRole("button", { name: "Export report" }).click();
  await panel.getByText(/^Report written to .*tapedebug-report-tape\.html$/).waitFor();
  const html = await readFile(join(lab.root, "tapedebug-report-tape.html"), "utf8");
  assert.match(html, /^<!doctype html>/i);
});

test("the side bar lists the live tapes with their findings and opens one in a tab", async () => {
  await command(page, "tapedebug:show-tapes");
  const bar = page.locator("#tapedebug-sidebar");
  const number = await json("panel.trace['tape']['id']");
  const row = bar.locator(`[data-tape="${number}"]`);
  await row.waitFor();
  const errors = (await json("panel.trace['findings']")).filter(({ severity }) => severity === "error").length;
  assert.equal(await row.locator(".td-side-badge.td-error").textContent(), `✕ ${errors}`);
  const alive = await json("sorted(tape.id for tape in wp.live_tapes())");
  const listed = await bar
    .locator("[data-tape]")
    .evaluateAll((rows) => rows.map((shown) => Number(shown.dataset.tape)));
  assert.deepEqual(listed, alive.reverse());
  await screenshot(page, "sidebar-light");

  await row.click();
  const tab = page.locator(".td-tab .tapedebug");
  await tab.waitFor();
  assert.match(await tab.locator(".td-card").first().textContent(), /overwrite/);
  await tab.locator(".td-run").click();
  await tab.getByText(/^1 pair checked in .* s: 1 WRONG\.$/).waitFor();
  await screenshot(page, "tab-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "tab-dark");
});

test("a saved notebook keeps the results of the checks", async () => {
  await command(page, "docmanager:open", { path: NAME });
  await show(panel);
  await screenshot(page, "quickstart-dark");
  await command(page, "docmanager:save");
  const text = await readFile(join(lab.root, NAME), "utf8");
  const saved = JSON.parse(text);
  // the tape once, and nothing of the front end: the state of the widgets would be both, for each panel
  assert.ok(!text.includes("_esm") && !text.includes('TapeDebugger"'), "the state of a panel is saved");
  assert.ok(text.length < 280_000, `${text.length} characters`);
  console.log(`the saved quickstart has ${text.length} characters`);
  const outputs = saved.cells
    .flatMap((cell) => cell.outputs ?? [])
    .filter((output) => TRACE_MIME in (output.data ?? {}));
  assert.equal(outputs.length, 1);
  const { checks } = outputs[0].data[TRACE_MIME].head;
  assert.equal(checks.find(({ launch, input }) => launch === 2 && input === "x")?.verdict, "AGREE");
  assert.match([outputs[0].data["text/html"]].flat().join(""), /gradient WRONG/);
});

test("after a restart of the kernel the panel shows what was saved, without Run", async () => {
  await page.evaluate(async () => {
    const notebook = globalThis.jupyterapp.shell.currentWidget;
    await notebook.sessionContext.session.kernel.restart();
  });
  await panel.locator(".td-run:disabled").waitFor();
  assert.equal(await panel.count(), 1);
  assert.match(await panel.locator(".td-card").first().textContent(), /overwrite/);
  assert.equal(await page.getByText("model not found").count(), 0);
  await page
    .locator("#tapedebug-sidebar")
    .getByText(/tapes with it|not loaded in this kernel/)
    .waitFor();
});

test("reopened, it shows the saved tape", async () => {
  await finish();
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1600, height: 1000 }));
  panel = page.locator(".jp-Notebook .tapedebug");
  await setTheme(page, "JupyterLab Light");
  await panel.waitFor();
  await page.waitForTimeout(2500); // the widget manager gives up after two seconds
  await show(panel);
  assert.equal(await page.getByText("model not found").count(), 0);
  assert.ok(await panel.locator(".td-run").isDisabled());
  await screenshot(page, "reopened-light");
  await finish();
});

/** Whether the lanes show a bar that is broken: a good number of pixels in the colour of errors. */
function brokenBar() {
  const canvas = document.querySelector(".jp-Notebook .tapedebug .td-canvas");
  if (!canvas?.width) return false;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let red = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 200 && data[i] > 170 && data[i + 1] < 80 && data[i + 2] < 90) red += 1;
  }
  return red > 100;
}
