/** The side bar through a kernel's life: not loaded, loaded, busy, restarted; and another notebook and a console beside it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { command, kernelIdle, notebook, openPage, python, screenshot, startBrowser, startLab } from "./harness.mjs";

const KERNELS = `import time
import tapedebug as wp

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])`;
const RECORD = `x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as parabola:
    wp.launch(square, dim=3, inputs=[x], outputs=[y])
    wp.launch(total, dim=3, inputs=[y], outputs=[loss])
parabola.backward(loss)`;
const SLOW = `with wp.Tape() as slow:
    for _ in range(40):
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        time.sleep(0.1)`;
const AGAIN = `%%tape --no-panel
wp.launch(square, dim=3, inputs=[x], outputs=[y])`;
/** Diagnosing it takes seconds; a value that its adjoints need was overwritten. */
const LONG = `x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
work, y, loss = (wp.zeros(n, dtype=float, requires_grad=True) for n in (3, 3, 1))
with wp.Tape(on_overwrite="ignore") as long:
    wp.copy(work, x)
    for _ in range(12000):
        wp.launch(square, dim=3, inputs=[work], outputs=[y])
    wp.copy(work, wp.ones(3, dtype=float))
    wp.launch(total, dim=3, inputs=[y], outputs=[loss])
long.backward(loss)`;
let lab;
let browser;
let page;
let finish;
let bar;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("first.ipynb", notebook(KERNELS, RECORD, SLOW, "del slow", AGAIN, LONG));
  await lab.write("second.ipynb", notebook("1 + 1"));
  ({ page, finish } = await openPage(browser, lab, "first.ipynb"));
  await kernelIdle(page);
  bar = page.locator("#tapedebug-sidebar");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const runCell = (number) =>
  page.evaluate((index) => {
    globalThis.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
    void globalThis.jupyterapp.commands.execute("notebook:run-cell");
  }, number);

const front = (path) => command(page, "docmanager:open", { path });

test("it says that tapedebug is not loaded, and loads it", async () => {
  await command(page, "tapedebug:show-tapes");
  await bar.getByText("tapedebug is not loaded in this kernel.").waitFor();
  await screenshot(page, "sidebar-not-loaded");
  await bar.getByRole("button", { name: "Load tapedebug" }).click();
  await bar.getByText("No live tape in this kernel.").waitFor();
  await screenshot(page, "sidebar-empty");
});

test("a tape appears when its cell has run, and opens in a tab that can check it", async () => {
  await runCell(0);
  await runCell(1);
  const row = bar.locator("[data-tape]");
  // the list may show the tape while it is still recorded, and before its name is known
  await row
    .filter({ hasText: /^(parabola\s·\st|T)ape\s\d+2\slaunches\s·\s3\sarrays\s·\sbackward\s×1In\s\[2\]:4$/ })
    .waitFor();
  await row.click();
  const tab = page.locator(".td-tab .tapedebug");
  await tab.getByRole("heading", { name: /^parabola · tape \d+$/ }).waitFor();
  await page.locator(".lm-TabBar-tab.lm-mod-current .lm-TabBar-tabLabel", { hasText: /parabola · tape \d+/ }).waitFor();
  await tab.locator(".td-run").click();
  await tab.getByText(/^1 pair checked in .* s: 1 AGREE\.$/).waitFor();
  await screenshot(page, "sidebar-tab");
  await tab.getByRole("tab", { name: "Graph" }).click();
  await tab.locator(".td-g-launch").nth(1).waitFor();
  await tab.getByRole("tab", { name: /^Jacobian/ }).click();
  await tab.getByText("Select a pair: click a cell of the input–output mask below.").waitFor();
  await screenshot(page, "sidebar-tab-graph");
  await bar.locator(".td-side-name", { hasText: /^parabola · tape \d+$/ }).waitFor();
  await front("first.ipynb");
});

test("on request it diagnoses a tape, and its tab shows the findings", async () => {
  await bar.getByRole("button", { name: "Diagnose" }).click();
  await bar.locator(".td-side-badge", { hasText: "✓ no findings" }).waitFor();
  await bar.getByText("✓ gradient AGREE").waitFor();
  await bar.getByRole("button", { name: "Diagnose again" }).waitFor();
  await page.locator(".td-tab .tapedebug .td-badge", { hasText: "gradient AGREE" }).waitFor({ state: "attached" });
});

test("it exports a report, and says where to", async () => {
  await bar.getByRole("button", { name: "Export" }).click();
  await bar.getByText(/^Report written to .*tapedebug-report-.+\.html$/).waitFor();
});

test("a second click brings the same tab to the front", async () => {
  await bar.locator("[data-tape]").click();
  await page.locator(".td-tab .tapedebug").waitFor();
  assert.equal(await page.locator(".td-tab").count(), 1);
  await front("first.ipynb");
});

test("playing walks along the tape, and each launch shows the values and the adjoint of then", async () => {
  await bar.locator("[data-tape]").click();
  const tab = page.locator(".td-tab .tapedebug");
  const shows = async (launch, array, numbers) => {
    await tab.locator(".td-scrub-text", { hasText: new RegExp(`^${launch}$`) }).waitFor();
    await tab.locator(".td-values h2", { hasText: array }).waitFor();
    await page.waitForFunction(
      (want) =>
        [...document.querySelectorAll(".td-tab .td-numbers td")].map((cell) => cell.textContent).join(" ") === want,
      numbers,
    );
  };
  await tab.getByRole("button", { name: "Play" }).click();
  await shows("launch 0 backward", /^y v1/, "1 1 4 1 9 1");
  await tab.locator(".td-play[aria-pressed=false]").waitFor();
  await tab.getByRole("button", { name: "previous launch" }).click();
  await shows("launch 1 backward", /^loss v1/, "14 1");
  await tab.locator(".td-slider").press("Home");
  await shows("launch 0", /^y v1/, "1 1 4 1 9 1");
  await front("first.ipynb");
});

test("the menu of a row does the same", async () => {
  await bar.locator(".td-side-row").click({ button: "right" });
  await page.getByRole("menuitem", { name: "Open Tape", exact: true }).click();
  await page.locator(".td-tab .tapedebug").waitFor();
  assert.equal(await page.locator(".td-tab").count(), 1);
  await front("first.ipynb");
});

test("while a cell records it says so, and catches up afterwards", async () => {
  await runCell(2);
  await bar.getByText("A cell is running. Tapes can be opened when it is done.").waitFor();
  await bar.getByText("● recording").waitFor();
  await screenshot(page, "sidebar-recording");
  await bar.getByText("A cell is running").waitFor({ state: "detached" });
  await bar.getByText("● recording").waitFor({ state: "detached" });
  assert.equal(await bar.locator("[data-tape]").count(), 2);
});

test("a tape that nobody holds any more leaves the list", async () => {
  await runCell(3);
  await page.waitForFunction(() => document.querySelectorAll("#tapedebug-sidebar [data-tape]").length === 1);
});

test("a tape is called by its cell where no variable holds it, and a cell that runs again lists one", async () => {
  const names = () => bar.locator(".td-side-name").allTextContents();
  const called = async (number) => {
    await runCell(4);
    const cell = bar.locator(".td-side-name", { hasText: `In [${number}] · tape` });
    await cell.waitFor();
    assert.equal((await names()).length, 2, String(await names()));
    return await names();
  };
  const numbers = [];
  for (let number = 5; number < 9; number += 1) numbers.push((await called(number))[0]);
  assert.equal(new Set(numbers).size, 4);
  assert.match((await names())[1], /^parabola · tape \d+$/);
  await screenshot(page, "sidebar-names");
});

test("while a tape is diagnosed, its row shows the verdict and how many rules are left", async () => {
  await runCell(5);
  const row = bar.locator(".td-side-row", { hasText: /^long · tape \d+/ });
  await row.waitFor();
  await row.getByRole("button", { name: "Diagnose", exact: true }).click();
  await row.locator(".td-side-doing", { hasText: /^… diagnosing, \d+ rules left$/ }).waitFor();
  await row.getByText("✕ gradient WRONG").waitFor();
  assert.equal(await row.getByRole("button", { name: "Diagnose" }).count(), 0);
  await row.locator("[data-tape]").click();
  const tab = page.locator(".td-tab .tapedebug").last();
  await tab.locator(".td-badge", { hasText: "gradient WRONG" }).waitFor();
  assert.equal(await row.locator(".td-side-doing").count(), 1, "its tab shows the verdict before the diagnosis ends");
  await screenshot(page, "sidebar-diagnosing");
  await tab.getByText("still being looked for").waitFor({ state: "detached" });
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.close());
  await front("first.ipynb");
  await row.getByRole("button", { name: "Diagnose again" }).waitFor();
  await row.locator(".td-side-badge.td-error").waitFor();
  assert.equal(await row.locator(".td-side-doing").count(), 0);
  await row.getByRole("button", { name: "Diagnose again" }).click();
  await row.locator(".td-side-doing", { hasText: /^… diagnosing, \d+ rules left$/ }).waitFor();
  await screenshot(page, "sidebar-cancel");
  await row.getByRole("button", { name: "Cancel diagnosis" }).click();
  await row.getByRole("button", { name: "Diagnose again" }).waitFor();
  const isEnabled = () => page.evaluate(() => globalThis.jupyterapp.commands.isEnabled("tapedebug:cancel-diagnosis"));
  assert.equal(await isEnabled(), false);
  await row.getByRole("button", { name: "Diagnose again" }).click();
  await row.locator(".td-side-doing", { hasText: /^… diagnosing, \d+ rules left$/ }).waitFor();
  assert.equal(await isEnabled(), true);
  await command(page, "apputils:activate-command-palette");
  await page.locator(".lm-CommandPalette-input").fill("cancel diagnosis");
  await page.locator(".lm-CommandPalette-item:not(.lm-mod-disabled)", { hasText: "Cancel Diagnosis" }).click();
  await row.getByRole("button", { name: "Diagnose again" }).waitFor();
  assert.equal(await isEnabled(), false);
  assert.equal(await row.locator(".td-side-doing").count(), 0);
  await row.getByText("✕ gradient WRONG").waitFor();
});

test("it follows the notebook in front, and a console", async () => {
  await front("second.ipynb");
  await bar.getByText("tapedebug is not loaded in this kernel.").waitFor();
  assert.equal(await bar.locator(".td-side-notebook").textContent(), "second.ipynb");
  for (const name of ["renamed.ipynb", "second.ipynb"]) {
    await page.evaluate((other) => globalThis.jupyterapp.shell.currentWidget.context.rename(other), name);
    await bar.locator(".td-side-notebook", { hasText: name }).waitFor();
  }
  await front("first.ipynb");
  await bar.locator("[data-tape]").first().waitFor();
  assert.equal(await bar.locator(".td-side-notebook").textContent(), "first.ipynb");
  await command(page, "console:create", { kernelPreference: { name: "python3" } });
  await page.locator(".jp-CodeConsole").waitFor();
  await bar.locator(".td-side-notebook", { hasText: "Console 1" }).waitFor();
  await bar.getByText("tapedebug is not loaded in this kernel.").waitFor();
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.dispose());
  await bar.locator(".td-side-notebook", { hasText: "first.ipynb" }).waitFor();
  await front("first.ipynb");
});

test("after a restart the list is empty, and the tab keeps what was last seen", async () => {
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await bar.locator("[data-tape]").waitFor({ state: "detached" });
  await bar.getByText("The kernel was restarted, and its tapes are lost.").waitFor();
  await page.evaluate(() => {
    for (const tab of globalThis.jupyterapp.shell.widgets("main")) {
      if (tab.content?.hasClass?.("td-tab")) globalThis.jupyterapp.shell.activateById(tab.id);
    }
  });
  const said = "The kernel of this tape was restarted. This is the last known state, read-only.";
  await page.locator(".td-notice", { hasText: said }).waitFor();
  assert.ok(await page.locator(".td-tab .tapedebug .td-run").isDisabled());
  await screenshot(page, "sidebar-restarted");
  assert.equal(await python(page, "print(1)"), "1\n"); // and the notebook goes on
  await finish();
});
