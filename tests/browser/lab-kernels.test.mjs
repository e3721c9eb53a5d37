/** What becomes of kernels and notebooks while their tapes are open in tabs: the tab says so, and goes on. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { command, notebook, openPage, python, runAll, startBrowser, startLab } from "./harness.mjs";

const CELL = `%load_ext tapedebug
import time
import tapedebug as wp
import tapedebug.autograd as autograd

@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])

x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as NAME:
    wp.launch(square, dim=3, inputs=[x], outputs=[loss])
NAME.backward(loss)`;
/** Checks that go on until they are cancelled. */
const ENDLESS = `def endless(tape, mask, *, cancelled, **options):
    while not cancelled():
        time.sleep(0.05)
    open("cancelled", "w").close()
    return []
autograd.check_pairs = endless`;
let lab;
let browser;
let page;
let bar;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("one.ipynb", notebook(CELL.replaceAll("NAME", "first")));
  await lab.write("two.ipynb", notebook(CELL.replaceAll("NAME", "second")));
  ({ page } = await openPage(browser, lab, "one.ipynb"));
  bar = page.locator("#tapedebug-sidebar");
  await runAll(page);
  await command(page, "tapedebug:show-tapes");
  await bar.locator("[data-tape]").waitFor();
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const front = (path) => command(page, "docmanager:open", { path });
const tab = (name) => page.locator(".td-tab .tapedebug", { has: page.getByRole("heading", { name }) });
const notice = (text) => page.locator(".td-notice", { hasText: text });
const closeTabs = () =>
  page.evaluate(() => {
    for (const one of [...globalThis.jupyterapp.shell.widgets("main")]) {
      if (one.content?.hasClass?.("td-tab")) one.dispose();
    }
  });

test("two notebooks have their own tapes, each in its own tab", async () => {
  await bar.locator("[data-tape]").click();
  await tab(/^first · tape/).waitFor();
  await front("two.ipynb");
  await page.waitForFunction(() => globalThis.jupyterapp.shell.currentWidget?.context?.path === "two.ipynb");
  await runAll(page);
  await bar.locator("[data-tape]").click();
  await tab(/^second · tape/).waitFor();
  assert.equal(await page.locator(".td-tab").count(), 2);
  assert.equal(await bar.locator("[data-tape]").count(), 1);
});

test("a notebook that is closed says so in its tab, which can still be read", async () => {
  await page.evaluate(() => {
    for (const one of [...globalThis.jupyterapp.shell.widgets("main")]) {
      if (one.context?.path === "two.ipynb") one.context.save().then(() => one.dispose());
    }
  });
  const closed = notice("two.ipynb was closed. This is what was last seen; it can be read, and nothing more.");
  await closed.waitFor();
  assert.ok(
    await tab(/^second · tape/)
      .locator(".td-run")
      .isDisabled(),
  );
});

test("after a reload of the page a tab finds its tape again", async () => {
  await front("one.ipynb");
  await command(page, "docmanager:save");
  await closeTabs();
  await bar.locator(".td-side-notebook", { hasText: "one.ipynb" }).waitFor();
  await bar.locator("[data-tape]").click();
  await tab(/^first · tape/).waitFor();
  await page.waitForTimeout(2_000); // JupyterLab saves its layout a little later
  await page.goto(page.url().replace(/[?&]reset\b/, ""));
  await page.waitForFunction(() => globalThis.jupyterapp !== undefined);
  await tab(/^first · tape/).waitFor({ state: "attached" });
  assert.equal(await page.locator(".td-tab").count(), 1);
});

test("a tab that is closed ends its checks", async () => {
  await front("one.ipynb");
  assert.equal(await python(page, ENDLESS), "");
  await command(page, "tapedebug:open");
  await tab(/^first · tape/)
    .locator(".td-run")
    .click();
  await tab(/^first · tape/)
    .locator(".td-run", { hasText: "Cancel" })
    .or(tab(/^first · tape/).locator(".td-cancel"))
    .first()
    .waitFor();
  await closeTabs();
  await front("one.ipynb");
  const waits = `import os
until = time.monotonic() + 20
while not os.path.exists("cancelled") and time.monotonic() < until: time.sleep(0.05)
print(os.path.exists("cancelled"))`;
  assert.equal(await python(page, waits), "True\n");
});
