/** A tape of another engine, the NumPy engine of the tests, in a notebook: the cell shows its panel, and checks run from it. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { notebook, openPage, python, ROOT, runAll, startBrowser, startLab } from "./harness.mjs";

const ENGINE = `import sys
sys.path.insert(0, ${JSON.stringify(ROOT)})
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import axpy, relu, scale, square, total`;
const RECORD = `x, h, s, loss = array([0.5, -1.0, 2.0]), zeros(3), zeros(3), zeros(1)
with Tape() as tape:
    relu(x, h)
    square(h, s)
    axpy(0.5, x, s)
    scale(h, 3.0)
    total(s, loss)
tape.backward(loss)
tape`;
let lab;
let browser;
let page;
let finish;
let panel;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("engine.ipynb", notebook(ENGINE, RECORD));
  ({ page, finish } = await openPage(browser, lab, "engine.ipynb"));
  await runAll(page);
  panel = page.locator(".jp-Notebook .tapedebug");
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

test("the last line of a cell shows the tape in the panel, with its launches and arrays", async () => {
  await panel.waitFor();
  assert.equal(await panel.count(), 1);
  const text = await panel.textContent();
  for (const name of ["relu", "square", "axpy", "scale", "total"]) assert.ok(text.includes(name), name);
  assert.equal(await panel.locator(`input[data-pair$='"x","loss"]']`).count(), 1);
});

test("the mask of the panel runs checks on the tape, and finds the overwritten value", async () => {
  await panel.locator(".td-run").click();
  const cell = panel.locator(`td:has(input[data-pair$='"x","loss"]'])`);
  await page.waitForFunction(() =>
    document.querySelector(`.tapedebug td:has(input[data-pair$='"x","loss"]'])`)?.textContent.includes("WRONG"),
  );
  assert.match(await cell.textContent(), /WRONG/);
  assert.equal((await python(page, "print(tape.operations[3].name)")).trim(), "scale");
});

test("nothing went wrong meanwhile", async () => finish());
