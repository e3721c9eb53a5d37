/** Every view of the panel as somebody sees it, in JupyterLab or in Notebook 7, in both themes, wide and narrow. */
import assert from "node:assert/strict";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import {
  command,
  kernelIdle,
  openPage,
  python,
  ROOT,
  runAll,
  SCREENSHOTS,
  setTheme,
  startBrowser,
  startLab,
  startNotebook,
} from "./harness.mjs";
import { untidy } from "./tidy.mjs";

const NAME = "quickstart.ipynb";
/** At 700 pixels the columns are stacked: the page is made long enough to see them all. */
const SIZES = { 1400: { width: 1400, height: 1050 }, 700: { width: 700, height: 3300 } };
const THEMES = { light: "JupyterLab Light", dark: "JupyterLab Dark" };
const COLOURS = ["value", "adjoint", "time", "bytes"];
/** A check waits as long as there is a file of this name beside the notebook, so that one can look at it. */
const HOLD = "hold";
const HELD = `
import os, time
from tapedebug.autograd import pair_check
goes_on = pair_check._Progress.checkpoint
def held(self):
    while os.path.exists("${HOLD}"):
        time.sleep(0.02)
    return goes_on(self)
pair_check._Progress.checkpoint = held
`;

const every = Object.keys(THEMES).flatMap((theme) => Object.keys(SIZES).map((width) => [theme, width]));
/** Each theme and each width once; the other app shows the other two, as it is the same widget in both. */
const half = (other) =>
  process.env.TAPEDEBUG_SWEEPS === "full"
    ? every
    : every.filter(([theme, width]) => ((theme === "dark") === (width === "700")) !== other);
const APPS = { lab: { start: startLab, looks: half(false) }, notebook7: { start: startNotebook, looks: half(true) } };

/** Registers the tests of one app, which are a file of their own: both in one would take longest of all files. */
export function testViews(app) {
  const { start, looks } = APPS[app];
  describe(app, () => {
    let browser;
    let server;
    let page;
    let finish;
    let panel;

    before(async () => {
      [browser, server] = await Promise.all([startBrowser(), start()]);
      await server.add(join(ROOT, "notebooks", NAME), NAME);
      ({ page, finish } = await openPage(browser, server, NAME, SIZES[1400]));
      if (app === "lab") await command(page, "application:toggle-left-area");
      await runAll(page);
      panel = page.locator(".jp-Notebook .tapedebug");
      await panel.waitFor();
      await python(page, HELD);
    });
    after(async () => {
      await browser?.close();
      await server?.stop();
    });

    const tab = (name) => panel.locator(".td-tabs:not(.td-stage-tabs)").getByRole("tab", { name });
    const stage = (name) => panel.locator(".td-stage-tabs").getByRole("tab", { name });
    const card = () => panel.locator(".td-card").first();
    const wholeTape = [null, "throw", "loss"];

    /** What is done to come to each view, in one walk: each starts where the one before ended. */
    const walk = {
      lanes: async () => {
        await stage("Lanes").click();
        await python(page, "panel.selection = {}");
        await panel.locator(".td-card[aria-pressed=true]").waitFor({ state: "detached" });
      },
      ...Object.fromEntries(
        COLOURS.map((by) => [`lanes-${by}`, () => panel.getByLabel("Colour bars by").selectOption(by)]),
      ),
      finding: async () => {
        await panel.getByLabel("Colour bars by").selectOption("findings");
        await card().click();
        await panel.locator(".td-card[aria-pressed=true]").waitFor();
      },
      adjoint: async () => {
        if ((await panel.locator(".td-adjoint").count()) === 0) await panel.locator(".td-line.td-marked").click();
        await panel.locator(".td-adjoint").waitFor();
      },
      graph: async () => {
        await stage("Graph").click();
        await panel.locator(".td-g-svg [data-key], .td-g-svg g").first().waitFor();
      },
      values: async () => {
        await stage("Lanes").click();
        await tab(/^Array/).click();
        await panel.locator(".td-values .td-numbers, .td-values .td-picture").first().waitFor();
      },
      running: async () => {
        await tab(/^Launch/).click();
        await writeFile(join(server.root, HOLD), "");
        await python(page, 'panel.mask = [(None, "throw", "loss")]');
        await panel.locator(".td-run:not(:disabled)").click();
        await panel.locator(".td-run.td-cancel").waitFor();
      },
      checked: async () => {
        await rm(join(server.root, HOLD));
        await panel.getByText(/^1 pair checked in .* s: /).waitFor();
      },
      jacobian: async () => {
        await panel.locator(`td:has(input[data-pair='${JSON.stringify(wholeTape)}'])`).click();
        await panel.locator(".td-right .td-jac-canvas").first().waitFor();
      },
      enlarged: async () => {
        await panel.locator(".td-jac-expand").click();
        await panel.locator(".td-middle .td-jac-canvas").first().waitFor();
      },
      search: async () => {
        await panel.locator(".td-jac-expand").click();
        await tab(/^Launch/).click();
        await panel.locator(".td-search").fill("v");
        await panel.locator(".td-results li").first().waitFor();
      },
      help: async () => {
        await panel.locator(".td-search").fill("");
        await panel.getByRole("button", { name: "keyboard help" }).click();
        await panel.locator(".td-help").waitFor();
      },
      "what-was-checked": async () => {
        await panel.locator(".td-help").getByRole("button", { name: "Close" }).click();
        await panel.locator(".td-checked summary").click();
        await panel.locator(".td-checked-body").waitFor();
      },
    };
    const leave = () => panel.locator(".td-checked summary").click();

    for (const [theme, width] of looks) {
      test(`${theme}, ${width} pixels wide: nothing is cut off, covered or faint`, async () => {
        await page.setViewportSize(SIZES[width]);
        await setTheme(page, THEMES[theme]);
        await mkdir(SCREENSHOTS, { recursive: true });
        const faults = {};
        for (const [name, go] of Object.entries(walk)) {
          await go();
          await panel.evaluate(async (root) => {
            root.scrollIntoView({ block: "end", behavior: "instant" });
            for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame);
          });
          await panel.screenshot({ path: join(SCREENSHOTS, `view-${app}-${name}-${theme}-${width}.png`) });
          const wrong = await untidy(panel);
          if (wrong.length > 0) faults[name] = wrong;
        }
        await leave();
        assert.deepEqual(faults, {});
      });
    }

    test("nothing went wrong in the page meanwhile", async () => {
      await kernelIdle(page);
      await finish();
    });
  });
}
