/** The mask matrix and the Jacobian view in a real JupyterLab: a custom adjoint that is wrong, found and looked at. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { notebook, openPage, python, runAll, screenshot, setTheme, show, startBrowser, startLab } from "./harness.mjs";

const NAME = "jacobian.ipynb";
const KERNELS = `
import numpy as np
import tapedebug as wp
%load_ext tapedebug

@wp.func
def cubed(x: float):
    return x * x * x

@wp.func_grad(cubed)
def adj_cubed(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * adj_ret

@wp.kernel
def bend(x: wp.array(dtype=wp.vec3), k: wp.array(dtype=float), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    v = x[i]
    y[i] = wp.vec3(v[0] * k[i], cubed(v[1]), v[2] + v[0])

@wp.kernel
def smooth(y: wp.array(dtype=wp.vec3), z: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    n = y.shape[0]
    z[i] = 0.5 * y[i] + 0.25 * y[(i + 1) % n] + 0.25 * y[(i + n - 1) % n]

@wp.kernel
def total(z: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.dot(z[i], z[i]))
`;
const RECORD = `
n = 6
rng = np.random.default_rng(0)
x = wp.array(rng.uniform(0.5, 2.0, (n, 3)), dtype=wp.vec3, requires_grad=True)
k = wp.array(rng.uniform(0.5, 2.0, n), dtype=float, requires_grad=True)
y, z = (wp.zeros(n, dtype=wp.vec3, requires_grad=True) for _ in range(2))
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(bend, dim=n, inputs=[x, k], outputs=[y])
    wp.launch(smooth, dim=n, inputs=[y], outputs=[z])
    wp.launch(total, dim=n, inputs=[z], outputs=[loss])
tape.backward(loss)
panel = wp.TapeDebugger(tape)
panel
`;
/** Each step of a check takes a while, so that one can see it; or it stops after its first pair until it is cancelled. */
const SLOW = `
import time
from tapedebug.autograd import pair_check
quick = pair_check._Progress.checkpoint
held = False
def slow(self):
    time.sleep(pause)
    while held and self.done and not self.cancelled():
        time.sleep(0.05)
        self._report_share(self.done)
    return quick(self)
pair_check._Progress.checkpoint = slow
`;

let lab;
let browser;
let page;
let finish;
let panel;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write(NAME, notebook(KERNELS, RECORD));
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1400, height: 950 }));
  await page.evaluate(() => globalThis.jupyterapp.commands.execute("application:toggle-left-area"));
  await runAll(page);
  panel = page.locator(".jp-Notebook .tapedebug");
  await panel.waitFor();
  await python(page, SLOW);
  await show(panel);
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const json = async (expression) => JSON.parse(await python(page, `import json; print(json.dumps(${expression}))`));
const cellOf = (launch, input, output) =>
  panel.locator(`td:has(input[data-pair='${JSON.stringify([launch, input, output])}'])`);
const pause = (seconds) => python(page, `pause = ${seconds}`);

test("pairs are switched by cell, row and key, and Python sees the mask", async () => {
  await pause(0);
  await json("panel.set_trait('selection', {'launch': 0})");
  await cellOf(0, "x", "y").waitFor();
  await cellOf(null, "x", "loss").getByRole("checkbox").uncheck();
  await cellOf(null, "k", "loss").getByRole("checkbox").uncheck();
  await panel.getByRole("rowheader", { name: /^output y,/ }).click();
  await cellOf(0, "k", "y").getByRole("checkbox").uncheck();
  await cellOf(0, "k", "y").focus();
  await page.keyboard.press("ArrowLeft");
  assert.equal(
    await page.evaluate(() => document.activeElement.getAttribute("aria-description")),
    "y by x, not run, switched on",
  );
  await page.keyboard.press("Space");
  await page.keyboard.press("Space");
  await page.waitForFunction(() => document.querySelectorAll(".tapedebug input[data-pair]:checked").length === 1);
  // a widget sends what changed while a message was under way only when that one has been answered
  let mask = await json("panel.mask");
  for (const end = Date.now() + 20_000; mask.length !== 1 && Date.now() < end; ) mask = await json("panel.mask");
  assert.deepEqual(mask, [[0, "x", "y"]]);
});

test("cells fill one by one while a run is under way", async () => {
  await pause(0.01); // of some 800 steps of the first pair, and more of the others
  await json("panel.set_trait('mask', [[0, 'x', 'y'], [0, 'k', 'y'], [1, 'y', 'z'], [None, 'x', 'loss']])");
  await panel.locator(".td-run").click();
  await cellOf(0, "x", "y").getByText("WRONG").waitFor();
  assert.equal(await panel.locator(".td-cancel").count(), 1, "the run is still under way");
  assert.match(await cellOf(null, "x", "loss").textContent(), /–/);
  assert.match(await panel.locator(".td-status").textContent(), /^Checking 4 pairs, \d done/);
  await screenshot(page, "jacobian-running");
  await pause(0);
  await panel.getByText(/^4 pairs checked in .* s: /).waitFor();
  assert.match(await cellOf(null, "x", "loss").textContent(), /WRONG/);
  assert.match(await cellOf(0, "k", "y").textContent(), /AGREE/);
});

test("a slow check is cancelled, and what was done stays", async () => {
  await python(page, "held = True");
  await json("panel.set_trait('mask', [[0, 'k', 'y'], [1, 'y', 'z'], [2, 'z', 'loss']])");
  await panel.locator(".td-run").click();
  await page.waitForFunction(() => / [12] done/.test(document.querySelector(".tapedebug .td-status")?.textContent));
  await panel.locator(".td-cancel").click();
  await panel.getByText(/^Cancelled after [12] of 3 pairs: /).waitFor();
  await python(page, "held = False");
  assert.match(await cellOf(0, "k", "y").textContent(), /AGREE/);
  assert.equal(await json("panel.running"), false);
});

test("a cell opens the Jacobian of the wrong adjoint, and the worst entry is named", async () => {
  await cellOf(0, "x", "y").click();
  const tab = panel.locator(".td-jac");
  await tab.locator(".td-jac-worstline").waitFor();
  const worst = await json(
    "[(w.output, w.input, w.ad, w.fd) for w in [wp.autograd.gradcheck_tape(tape, show_summary=False," +
      " raise_exception=False).pairs.where(launch=0, input='x')[0].worst]][0]",
  );
  const line = await tab.locator(".td-jac-worstline").textContent();
  assert.match(
    line,
    new RegExp(`worst: ${worst[0].replace(/[[\].]/g, "\\$&")} by ${worst[1].replace(/[[\].]/g, "\\$&")}`),
  );
  assert.match(worst[0], /^y\[\d\]\.y$/);
  assert.match(await tab.textContent(), /written at In \[1\]:\d+/);
  assert.deepEqual((await json("panel.selection")).pair, [0, "x", "y"]);
  await page.waitForFunction(painted, "error");
  await screenshot(page, "jacobian-light");
});

test("the maps zoom together, name what is pointed at, and go to the worst entry", async () => {
  const tab = panel.locator(".td-jac");
  const maps = tab.locator(".td-jac-maps");
  await maps.focus();
  await page.keyboard.press("Home");
  const readout = tab.locator(".td-jac-readout");
  assert.match(await readout.textContent(), /^y\[\d\]\.y by x\[\d\]\.y: AD .*, FD .* ± .*, error /);
  const before = await page.evaluate(picture);
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await page.waitForFunction((old) => JSON.stringify(globalThis.tdPicture()) !== old, JSON.stringify(before));
  const after = await page.evaluate(() => globalThis.tdPicture());
  for (const map of ["ad", "fd"]) assert.notEqual(after[map], before[map], `${map} was zoomed, too`);
  await page.keyboard.press("ArrowRight");
  assert.match(await readout.textContent(), /by x\[\d\]\.z: /);
  assert.deepEqual((await json("panel.selection")).launch, 0, "the arrows moved the cursor, not the launch");
  await page.keyboard.press("f");
  await tab.locator('[data-map="fd"] canvas').hover({ position: { x: 3, y: 3 } });
  await page.waitForFunction(() =>
    document.querySelector(".tapedebug .td-jac-readout")?.textContent.startsWith("y[0].x by x[0].x: AD"),
  );
});

test("the maps go to the middle column and back, in both themes and when it is narrow", async () => {
  await panel.getByRole("button", { name: "enlarge" }).click();
  const wide = panel.locator(".td-jac-wide");
  await wide.locator("canvas").first().waitFor();
  await page.waitForFunction(painted, "error");
  await screenshot(page, "jacobian-wide-light");
  await setTheme(page, "JupyterLab Dark");
  await page.waitForTimeout(700); // the style sheet of the theme comes after its name
  await screenshot(page, "jacobian-wide-dark");
  await wide.getByRole("button", { name: "back to the lanes" }).click();
  await panel.locator(".td-jac canvas").first().waitFor();
  await page.waitForFunction(painted, "error");
  await screenshot(page, "jacobian-dark");
  await page.setViewportSize({ width: 700, height: 950 });
  await show(panel.locator(".td-jac"));
  await page.waitForFunction(painted, "error");
  await screenshot(page, "jacobian-dark-700");
  await setTheme(page, "JupyterLab Light");
  await page.waitForTimeout(700);
  await show(panel.locator(".td-jac"));
  await screenshot(page, "jacobian-light-700");
  await show(panel.locator(".td-mask"));
  await screenshot(page, "jacobian-mask-700");
  await page.setViewportSize({ width: 1400, height: 950 });
});

test("a pair that nobody has run can be run from its tab, and a pair that Python selects is shown", async () => {
  await json("panel.set_trait('selection', {'launch': 1, 'pair': [2, 'z', 'loss']})");
  const tab = panel.locator(".td-jac");
  await tab.getByText("This pair has not been checked yet.").waitFor();
  const mask = await json("panel.mask");
  await tab.getByRole("button", { name: "Run this pair" }).click();
  await tab.locator(".td-badge").getByText("AGREE").waitFor();
  assert.deepEqual(await json("panel.mask"), mask, "the mask stays");
  await json("panel.set_trait('selection', {'pair': [None, 'x', 'loss']})");
  await tab.getByText(/This is the gradient of loss\./).waitFor();
  await page.waitForFunction(painted, "ad");
  await screenshot(page, "jacobian-whole-tape");
});

test("a script that shows the pair alone can be had", async () => {
  await json("panel.set_trait('selection', {'pair': [0, 'x', 'y']})");
  await panel.getByRole("button", { name: "copy script" }).click();
  const box = panel.locator(".td-jac-copybox");
  await box.getByText(/^copied|^copy it from here/).waitFor();
});

test("the graph comes from the kernel when it is opened, and shows what is chosen elsewhere", async () => {
  await panel.getByRole("tab", { name: "Graph" }).click();
  await panel.locator(".td-g-launch").nth(2).waitFor();
  await json("panel.set_trait('selection', {'launch': 1})");
  await panel.locator('.td-g-chosen[aria-label^="launch 1, smooth"]').waitFor();
  await show(panel);
  await screenshot(page, "widget-graph-light");
  await finish();
});

/** Whether a map shows more than one colour. */
function painted(map) {
  const canvas = document.querySelector(`.jp-Notebook .tapedebug [data-map="${map}"] canvas`);
  if (!canvas?.width) return false;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(`${data[i]} ${data[i + 1]} ${data[i + 2]}`);
  return colours.size > 3;
}

/** What the maps show, as text to compare. */
function picture() {
  globalThis.tdPicture = () =>
    Object.fromEntries(
      [...document.querySelectorAll(".jp-Notebook .tapedebug .td-jac [data-map]")].map((figure) => [
        figure.dataset.map,
        figure.querySelector("canvas").toDataURL(),
      ]),
    );
  return globalThis.tdPicture();
}
