/** The notebook about diffusion in a real JupyterLab: from *Run All Cells* to the lines to change, without a click. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { command, openPage, ROOT, runAll, screenshot, setTheme, show, startBrowser, startLab } from "./harness.mjs";

const NAME = "diffusion.ipynb";
let lab;
let browser;
let page;
let finish;
let broken;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.add(join(ROOT, "notebooks", NAME), NAME);
  ({ page, finish } = await openPage(browser, lab, NAME, { width: 1600, height: 1000 }));
  await command(page, "application:toggle-left-area");
  broken = page.locator(".jp-Notebook .tapedebug").first();
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

/** Whether an element can be read from top to bottom without a click or the wheel: nothing covers it or cuts it off. */
const inSight = (locator) =>
  locator.evaluate((element) => {
    const { left, right, top, bottom } = element.getBoundingClientRect();
    return [top + 4, bottom - 4].every((y) => element.contains(document.elementFromPoint((left + right) / 2, y)));
  });

test("one look after running all cells: what is wrong, the fix, and the line to change", async () => {
  await runAll(page);
  const failed = await page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]').count();
  assert.equal(failed, 0);
  await broken.waitFor();
  await show(broken);
  const badge = broken.locator(".td-badge");
  assert.equal(await badge.textContent(), "✕ gradient WRONG");
  const worst = broken.locator(".td-card").first();
  const text = await worst.innerText();
  assert.match(text, /disconnected · source, power/);
  assert.match(text, /Fix: create source with requires_grad=True/);
  assert.match(text, /In \[3\]:14 in simulate/);
  // the three bugs are the first three cards
  for (const part of [badge, ...(await broken.locator(".td-card").all()).slice(0, 3)]) assert.ok(await inSight(part));
  await screenshot(page, "diffusion-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "diffusion-dark");
  await setTheme(page, "JupyterLab Light");
});

test("every bug has a card with its fix and its line, and nothing else is there", async () => {
  const cards = await broken.locator(".td-card").allInnerTexts();
  const wanted = [
    [/disconnected · source, power/, /create source with requires_grad=True/, /In \[3\]:14/],
    [/overwrite · k\b/, /give conduct an array of its own for k in each round/, /In \[3\]:16/],
    [/overwrite · start, u_next/, /give diffuse an array of its own for u_next in each round/, /In \[3\]:17/],
    [/overwrite · start, u_next/, /give diffuse an array of its own for u_next in each round/, /In \[3\]:17/],
  ];
  assert.equal(cards.length, wanted.length);
  for (const [i, patterns] of wanted.entries()) for (const pattern of patterns) assert.match(cards[i], pattern);
});

test("the mended cell is green", async () => {
  const mended = page.locator(".jp-Notebook .tapedebug").nth(1);
  await show(mended);
  assert.equal(await mended.locator(".td-badge").textContent(), "✓ gradient AGREE");
  assert.equal(await mended.locator(".td-card").count(), 0);
});

test("the cell run five times more names the same bugs, in one panel", async () => {
  await show(broken);
  const before = await broken.locator(".td-card").allInnerTexts();
  await page.evaluate(async () => {
    const { content, context } = globalThis.jupyterapp.shell.currentWidget;
    content.activeCellIndex = content.widgets.findIndex((cell) =>
      cell.model.sharedModel.getSource().startsWith("%%tape --loss loss --on-overwrite ignore --name broken"),
    );
    await context.sessionContext.ready;
  });
  for (let i = 0; i < 5; i++) {
    await command(page, "notebook:run-cell");
    await page.waitForFunction(
      () => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status === "idle",
    );
  }
  await broken.waitFor();
  await show(broken);
  assert.equal(await page.locator(".jp-Notebook .tapedebug").count(), 2);
  assert.equal(await broken.locator(".td-badge").textContent(), "✕ gradient WRONG");
  assert.deepEqual(await broken.locator(".td-card").allInnerTexts(), before);
  await screenshot(page, "diffusion-again-light");
  await setTheme(page, "JupyterLab Dark");
  await screenshot(page, "diffusion-again-dark");
  await finish();
});
