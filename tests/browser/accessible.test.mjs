/** No rule of axe-core is broken: in a report, in the panel of a cell, in the tab and in the side bar of JupyterLab. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { COLOURS, violations } from "./axe.mjs";
import { command, kernelIdle, notebook, openPage, runAll, setTheme, startBrowser, startLab } from "./harness.mjs";
import { KERNELS, WRONG } from "./programs.mjs";
import { startReports } from "./reports.mjs";

describe("a report", () => {
  let reports;
  before(async () => {
    reports = await startReports({
      net: { traces: ["recorded-ignore"] },
      diff: { traces: ["recorded-ignore", "recorded-preserve"], diff: true },
    });
  });
  after(() => reports?.stop());

  for (const [colorScheme, rules] of [
    ["light", null],
    ["dark", COLOURS],
  ]) {
    test(`has no violation in any view (${colorScheme})`, async () => {
      const { page, finish } = await reports.open("net", { colorScheme });
      const found = {};
      const look = async (name) => {
        const wrong = await violations(page, "body", rules);
        if (wrong.length > 0) found[name] = wrong;
      };
      await look("lanes");
      await page.locator(".td-line.td-marked").click();
      await look("source");
      await page.getByRole("tab", { name: "Graph" }).click();
      await page.locator(".td-g-launch").first().waitFor();
      await look("graph");
      await page.getByRole("tab", { name: "Memory" }).click();
      await page.locator(".td-mem-name").first().waitFor();
      await look("memory");
      await page.getByRole("tab", { name: "Lanes" }).click();
      await page
        .locator(".td-tabs")
        .getByRole("tab", { name: /^Array/ })
        .click();
      await look("array");
      await page.locator("td[role=gridcell]:not(.td-nopair)").last().click();
      await look("Jacobian");
      await page.getByRole("button", { name: "keyboard help" }).click();
      await look("help");
      await page.locator(".td-help").getByRole("button", { name: "Close" }).click();
      await page.locator(".td-checked summary").click();
      await look("what was checked");
      await page.getByRole("tab", { name: "What was checked" }).click();
      await look("the page in words");
      assert.deepEqual(found, {});
      await finish();
    });

    test(`has no violation where two tapes are compared (${colorScheme})`, async () => {
      const { page, finish } = await reports.open("diff", { colorScheme });
      assert.deepEqual(await violations(page, "body", rules), []);
      await finish();
    });
  }
});

describe("JupyterLab", () => {
  let browser;
  let lab;
  before(async () => {
    [browser, lab] = await Promise.all([startBrowser(), startLab()]);
  });
  after(async () => {
    await lab?.stop();
    await browser?.close();
  });

  test("has no violation in the panel of a cell, in the side bar and in a tab", async () => {
    await lab.write("wrong.ipynb", notebook(KERNELS, WRONG));
    const { page, finish } = await openPage(browser, lab, "wrong.ipynb");
    await runAll(page);
    await page.locator(".jp-Notebook .tapedebug .td-card").first().waitFor();
    const found = {};
    const look = async (name, within, rules = null) => {
      const wrong = await violations(page, within, rules);
      if (wrong.length > 0) found[name] = wrong;
    };
    await setTheme(page, "JupyterLab Light");
    await look("panel, light", ".jp-Notebook .tapedebug");
    await setTheme(page, "JupyterLab Dark");
    await look("panel, dark", ".jp-Notebook .tapedebug", COLOURS);
    await kernelIdle(page);
    await command(page, "tapedebug:show-tapes");
    await page.locator("#tapedebug-sidebar [data-tape]").first().waitFor();
    await look("side bar", "#tapedebug-sidebar");
    await page.locator("#tapedebug-sidebar [data-tape]").first().click();
    await page.locator(".td-tab .tapedebug .td-card").first().waitFor();
    await look("tab", ".td-tab");
    assert.deepEqual(found, {});
    await finish();
  });
});
