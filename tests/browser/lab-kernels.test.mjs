/** What becomes of kernels and notebooks while their tapes are open in tabs: the tab says so, and goes on. */
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
  startBrowser,
  startLab,
} from "./harness.mjs";

const CELL = `%load_ext tapedebug
import time
import tapedebug as wp

@wp.kernel
def square(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])

x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as NAME:
    wp.launch(square, dim=3, inputs=[x], outputs=[loss])
NAME.backward(loss)
NAME`;
/** Checks that go on until they are cancelled. */
const ENDLESS = `def endless(tape, mask, *, cancelled, progress, **options):
    while not cancelled():
        progress(0.25)
        time.sleep(0.05)
    return []
from tapedebug.panel import check_runner
check_runner.check_pairs = endless`;
const SEEN = "This is the last known state, read-only.";
const RAN = "Checks were running; the results up to then are shown, read-only.";
const HELD = "This is the state saved in the notebook.";
const AGAIN = "Record the tape again to continue.";
let lab;
let browser;
let page;
let bar;
let finish;

before(async () => {
  [lab, browser] = await Promise.all([startLab(), startBrowser()]);
  await lab.write("one.ipynb", notebook(CELL.replaceAll("NAME", "first")));
  await lab.write("two.ipynb", notebook(CELL.replaceAll("NAME", "second")));
  ({ page, finish } = await openPage(browser, lab, "one.ipynb"));
  bar = page.locator("#tapedebug-sidebar");
  await runAll(page);
  await command(page, "tapedebug:show-tapes");
  await bar.locator("[data-tape]").waitFor();
});
after(async () => {
  await browser?.close();
  await lab?.stop();
});

const front = async (path) => {
  await command(page, "docmanager:open", { path });
  await page.waitForFunction((name) => globalThis.jupyterapp.shell.currentWidget?.context?.path === name, path);
};
const tab = (name) => page.locator(".td-tab", { has: page.locator("h1", { hasText: name }) });
const first = () => tab(/^first · tape/);
const second = () => tab(/^second · tape/);
const notice = (text) => page.locator(".td-notice", { hasText: text });
const closeTabs = () =>
  page.evaluate(() => {
    for (const one of [...globalThis.jupyterapp.shell.widgets("main")]) {
      if (one.content?.hasClass?.("td-tab")) one.dispose();
    }
  });

test("two notebooks have their own tapes, each in its own tab", async () => {
  await bar.locator("[data-tape]").click();
  await first().waitFor();
  await front("two.ipynb");
  await runAll(page);
  await bar.locator("[data-tape]").click();
  await second().waitFor();
  assert.equal(await page.locator(".td-tab").count(), 2);
  assert.equal(await bar.locator("[data-tape]").count(), 1);
});

test("a notebook that is closed says so in its tab, which can be read, and comes back with it", async () => {
  await page.evaluate(() => {
    for (const one of [...globalThis.jupyterapp.shell.widgets("main")]) {
      if (one.context?.path === "two.ipynb") one.context.save().then(() => one.dispose());
    }
  });
  const closed = notice("two.ipynb was closed. This is the last known state, read-only.");
  await closed.waitFor();
  assert.ok(await second().locator(".td-run").isDisabled());
  await closed.getByRole("button", { name: "Open it" }).click();
  await second().locator(".td-notice").waitFor({ state: "hidden" });
  await second().locator(".td-run:enabled").waitFor({ state: "attached" });
});

/** JupyterLab may bring a notebook to the front a moment after it was opened, or its dialog about the kernel closed. */
const showTab = async (title, inside) => {
  for (const until = Date.now() + 60_000; ; ) {
    await page.locator(".lm-TabBar-tab", { hasText: title }).click();
    const seen = await inside.waitFor({ timeout: 2_000 }).then(
      () => true,
      () => false,
    );
    if (seen) return;
    assert.ok(Date.now() < until, `the tab ${title} does not stay in front`);
  }
};

const openFirst = async () => {
  await command(page, "tapedebug:open");
  await showTab("first · tape", first().locator(".td-run"));
};

/** JupyterLab writes down what is open a while after it was opened. */
async function workspaceSaved() {
  const has = async () => {
    const { data } = await globalThis.jupyterapp.serviceManager.workspaces.fetch("default");
    const tabs = Object.keys(data).filter((key) => key.startsWith("tapedebug-tapes:"));
    const shown = JSON.stringify(data["layout-restorer:data"]?.main ?? {});
    return (
      tabs.length === 2 && [...tabs, "notebook:one.ipynb", "notebook:two.ipynb"].every((one) => shown.includes(one))
    );
  };
  for (const until = Date.now() + 60_000; !(await page.evaluate(has)); await page.waitForTimeout(200)) {
    assert.ok(Date.now() < until, "the workspace is saved with both tabs");
  }
}

test("after a reload of the page a tab has its tape again, or says why not", async () => {
  await front("two.ipynb");
  await kernelIdle(page);
  await page.evaluate(() => globalThis.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart());
  await notice(`The kernel of this tape was restarted. ${SEEN} ${AGAIN}`).waitFor({ state: "attached" });
  await kernelIdle(page);
  for (const path of ["two.ipynb", "one.ipynb"]) {
    await front(path);
    await command(page, "docmanager:save");
  }
  await workspaceSaved();
  await page.goto(page.url().replace(/[?&]reset\b/, ""));
  await page.waitForFunction(() => globalThis.jupyterapp !== undefined);
  await first().locator(".td-run:enabled").waitFor({ state: "attached" });
  const lost = "The kernel of two.ipynb was restarted, and this tape is gone. Record it again.";
  await notice(`${lost} Close this tab.`).waitFor({ state: "attached" });
  assert.equal(await page.locator(".td-tab").count(), 2);
});

test("a tab that is closed ends its checks", async () => {
  await closeTabs();
  await front("one.ipynb");
  await kernelIdle(page);
  assert.equal(await python(page, ENDLESS), "");
  await openFirst();
  await first().locator(".td-run").click();
  await first().locator(".td-run.td-cancel").waitFor();
  await closeTabs();
  await front("one.ipynb");
  // the check may have had no turn yet when this cell takes its own
  const waits = `from tapedebug.panel.check_runner import checked_tapes
until = time.monotonic() + 60
while checked_tapes() and time.monotonic() < until: time.sleep(0.05)
print(checked_tapes())`;
  assert.equal(await python(page, waits), "set()\n");
});

test("when the kernel dies while checks run, tab and side bar say so, and keep what was seen", async () => {
  const pid = Number(await python(page, "import os; print(os.getpid())"));
  await openFirst();
  await first().locator(".td-run").click();
  await bar.getByText("… running checks, 25 %").waitFor();
  process.kill(pid, "SIGKILL");
  // the server looks after its kernels every three seconds, and JupyterLab tells whoever is there
  const dialog = page.locator(".jp-Dialog", { hasText: "The kernel for one.ipynb appears to have died." });
  await dialog.getByRole("button").click();
  await dialog.waitFor({ state: "detached" });
  await notice(`The kernel of this tape died. ${RAN} ${AGAIN}`).waitFor({ state: "attached" });
  await bar.getByText("The kernel died, and its tapes are lost. Run the notebook again to record new tapes.").waitFor();
  assert.equal(await bar.locator("[data-tape], [role=alert]").count(), 0);
  const run = first().locator(".td-run");
  assert.ok(await run.isDisabled());
  assert.equal(await run.getAttribute("title"), "needs the kernel that recorded this tape");
  await showTab("first · tape", first().locator(".td-canvas"));
  await first().getByText("The checks were stopped; the results up to then are shown.").waitFor();
  const cell = page.locator(".jp-Notebook .tapedebug .td-status", { hasText: "The kernel of this tape died." });
  await cell.waitFor({ state: "attached" });
  assert.equal(await cell.textContent(), `The kernel of this tape died. ${HELD} ${AGAIN}`);
  await screenshot(page, "lab-kernel-died");
});

test("the notebook goes on with the kernel that comes after: new tapes, in tabs of their own", async () => {
  await front("one.ipynb");
  await runAll(page);
  const row = bar.locator("[data-tape]");
  await row.waitFor();
  assert.equal(await bar.getByText("running checks").count(), 0);
  await row.click();
  const old = page.locator(".td-tab", { has: notice("The kernel of this tape died.") });
  const fresh = page.locator(".td-tab", { hasNot: notice("The kernel of this tape died.") });
  await fresh.locator(".td-run").click();
  await fresh.getByText(/^1 pair checked in .* s: 1 AGREE\.$/).waitFor();
  assert.equal(await page.locator(".td-tab").count(), 2);
  assert.ok(await old.locator(".td-run").isDisabled());
  await finish();
});
