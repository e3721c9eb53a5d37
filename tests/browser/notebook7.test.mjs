/** The panel in Notebook 7: it shows, every view leads to the others, and a saved one needs no kernel. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  command,
  notebook,
  openPage,
  python,
  runAll,
  screenshot,
  setTheme,
  show,
  startBrowser,
  startNotebook,
} from "./harness.mjs";
import { KERNELS, netTrace, saved, WRONG } from "./programs.mjs";

let server;
let browser;
let page;
let finish;
let panel;

before(async () => {
  [server, browser] = await Promise.all([startNotebook(), startBrowser()]);
  await server.write("wrong.ipynb", notebook(KERNELS, WRONG));
  await server.write("saved.ipynb", saved(await netTrace()));
  ({ page, finish } = await openPage(browser, server, "wrong.ipynb", { height: 1000 }));
  panel = page.locator(".jp-Notebook .tapedebug");
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const json = async (expression) => JSON.parse(await python(page, `import json; print(json.dumps(${expression}))`));
const heading = () => panel.locator(".td-choice[aria-selected=true]").textContent();
const boxOf = (entry) => panel.locator(`input[data-pair='${JSON.stringify(entry)}']`);
const cellOf = (entry) => panel.locator(`td:has(input[data-pair='${JSON.stringify(entry)}'])`);

/** Waits until Python has the selection that the panel shows. */
async function selection(key, value) {
  for (let i = 0; i < 100; i += 1) {
    const now = await json("panel.selection");
    if (now[key] === value) return now;
    await page.waitForTimeout(50);
  }
  assert.fail(`${key} of ${JSON.stringify(await json("panel.selection"))} is not ${JSON.stringify(value)}`);
}

test("it shows a tape, and nothing of the extension minds that this is not JupyterLab", async () => {
  await runAll(page);
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  await show(panel);
  assert.equal(await panel.locator(".td-badge").textContent(), "✕ gradient WRONG");
  const plugins = await page.evaluate(() =>
    ["tapedebug:tapes", "tapedebug:viewer", "tapedebug:sidebar", "tapedebug:output"].map((id) =>
      globalThis.jupyterapp.isPluginActivated(id),
    ),
  );
  assert.deepEqual(plugins, [true, true, true, true]);
  await screenshot(page, "notebook7-light");
});

test("a finding leads to its lanes, the inspector and the line", async () => {
  const card = panel.locator(".td-card").first();
  assert.match(await card.textContent(), /overwrite · work/);
  await card.click();
  await panel.locator(".td-card[aria-pressed=true]").waitFor();
  assert.equal(await heading(), "Launch 2 · refill");
  assert.match(await panel.locator(".td-scrub-text").textContent(), /^launch 2/);
  assert.match(await panel.locator(".td-line.td-marked").textContent(), /x\[wp\.tid\(\)\] = 0\.5/);
  const now = await selection("finding", (await json("panel.findings"))[0].id);
  assert.equal(now.launch, 2);
  assert.equal(now.array, "work");
  await screenshot(page, "notebook7-finding");
});

test("the lanes lead to the inspector, and the keyboard walks along them", async () => {
  const canvas = panel.locator(".td-canvas");
  const { width } = await canvas.boundingBox();
  await canvas.click({ position: { x: width - 20, y: 28 } });
  await page.waitForFunction(
    () => document.querySelector(".tapedebug .td-scrub-text").textContent === "launch 0 backward",
  );
  await selection("launch", 0);
  await page.keyboard.press("ArrowLeft");
  await selection("launch", 1);
  assert.equal(await heading(), "Launch 1 · square");
});

test("a line leads to its generated adjoint", async () => {
  await panel.locator(".td-line", { hasText: "y[i] = x[i] * x[i]" }).click();
  await panel.locator(".td-adjoint pre").waitFor();
  assert.match(await panel.locator(".td-adjoint-title").textContent(), /generated adjoint of line \d+/);
});

test("go to writer leads to the version, and from there to its writer", async () => {
  await json("panel.select(launch=3)");
  await panel.locator(".td-choice", { hasText: "Launch 3 · total" }).waitFor();
  await panel.getByRole("button", { name: "go to writer" }).first().click();
  const now = await selection("launch", 1);
  assert.equal(now.array, "y");
});

test("the pairs that are switched on are checked, and those alone", async () => {
  await boxOf([1, "x", "y"]).check();
  await boxOf([null, "x", "loss"]).check();
  await panel.locator(".td-run").click();
  await panel.getByText(/^2 pairs checked in .* s: /).waitFor();
  assert.match(await cellOf([1, "x", "y"]).textContent(), /AGREE/);
  assert.match(await cellOf([null, "x", "loss"]).textContent(), /WRONG/);
  const verdicts = await json("{str((c['launch'], c['input'], c['output'])): c['verdict'] for c in panel.checks}");
  assert.equal(verdicts["(1, 'x', 'y')"], "AGREE");
  assert.equal(verdicts["(None, 'x', 'loss')"], "WRONG");
  assert.equal(await json("panel.verdict"), "WRONG");
  await screenshot(page, "notebook7-checked");
});

test("a tape opens from the side bar, below the notebook", async () => {
  await command(page, "tapedebug:show-tapes");
  const bar = page.locator("#tapedebug-sidebar");
  await bar.locator("[data-tape]").click();
  const below = page.locator("#jp-down-stack .td-tab:visible");
  await below.locator(".td-header").waitFor();
  await screenshot(page, "notebook7-below");
  const { width, height } = await below.boundingBox();
  assert.ok(width > 600 && height > 250, `the panel is ${width} × ${height}`);
  await below.locator(".td-run").click();
  await below.getByText(/^\d+ pairs? checked in .* s: /).waitFor();
  await python(page, "with wp.Tape() as other: wp.launch(square, dim=3, inputs=[x], outputs=[y])");
  await bar.locator(".td-side-row", { hasText: "1 launch" }).locator("[data-tape]").click();
  await below.getByRole("heading", { name: /^other · tape/ }).waitFor();
  await bar.locator(".td-side-row", { hasText: "4 launches" }).locator("[data-tape]").click();
  await below.getByRole("heading", { name: /^tape \d+$/ }).waitFor();
  assert.equal(await page.locator("#jp-down-stack .td-tab").count(), 2);
  for (let i = 0; i < 2; i += 1) await page.locator("#jp-down-stack .lm-TabBar-tabCloseIcon").first().click();
  await page.locator("#jp-down-stack").waitFor({ state: "hidden" });
  await python(page, "del other");
  await page.evaluate(() => globalThis.jupyterapp.shell.collapseRight());
});

test("Python chooses and the panel follows", async () => {
  await json("panel.select(finding=0)");
  await panel.locator(".td-card[aria-pressed=true]").waitFor();
  await json("panel.set_trait('selection', {'launch': 3, 'array': 'loss'})");
  await panel.locator(".td-choice", { hasText: "Launch 3 · total" }).waitFor();
  await panel.locator(".td-choice", { hasText: "Array loss" }).waitFor();
  await json("panel.set_trait('mask', [[3, 'y', 'loss']])");
  await page.waitForFunction(() => document.querySelectorAll(".tapedebug input[data-pair]:checked").length === 1);
  assert.ok(await boxOf([3, "y", "loss"]).isChecked());
  const refused = await python(page, "panel.select(array='speed')");
  assert.match(refused, /there is no array 'speed'; this tape has work, x, y, loss/);
});

test("it is readable in both themes, wide and narrow", async () => {
  await setTheme(page, "JupyterLab Dark");
  await show(panel);
  await screenshot(page, "notebook7-dark");
  await page.setViewportSize({ width: 700, height: 1000 });
  await panel.locator("xpath=self::*[contains(@class, 'td-narrow')]").waitFor();
  await show(panel);
  await screenshot(page, "notebook7-narrow-dark");
  assert.equal(await panel.evaluate((element) => element.scrollWidth - element.clientWidth), 0);
  await setTheme(page, "JupyterLab Light");
  await screenshot(page, "notebook7-narrow-light");
  await page.setViewportSize({ width: 1400, height: 1000 });
});

test("after a restart of the kernel it shows what was last seen, without Run", async () => {
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await panel
    .getByText("The kernel of this tape was restarted. This is the state saved in the notebook. Record the tape again")
    .waitFor();
  assert.ok(await panel.locator(".td-run").isDisabled());
  assert.equal(await panel.count(), 1);
  assert.match(await cellOf([null, "x", "loss"]).textContent(), /WRONG/);
  assert.equal(await page.getByText("model not found").count(), 0);
  await command(page, "docmanager:save");
  await finish();
});

test("reopened without the kernel that made it, a notebook shows the saved tape", async () => {
  for (const name of ["wrong.ipynb", "saved.ipynb"]) {
    ({ page, finish } = await openPage(browser, server, name, { height: 1000 }));
    panel = page.locator(".jp-OutputArea-output .tapedebug");
    await panel.waitFor();
    await page.waitForTimeout(2500); // the widget manager gives up after two seconds
    assert.equal(await page.getByText("model not found").count(), 0, name);
    assert.equal(await page.getByText("static fallback").count(), 0, name);
    assert.ok(await panel.locator(".td-run").isDisabled(), name);
    assert.match(await panel.locator(".td-card").first().textContent(), /overwrite/);
    await screenshot(page, `notebook7-reopened-${name.split(".")[0]}`);
    await finish();
  }
});
