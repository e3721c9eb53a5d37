/**
 * Photographs the panel for the documentation: `node scripts/pictures.mjs FOLDER`, which `scripts/pictures.py` calls. Every
 * `FOLDER/NAME.html` becomes `NAME.png`; JupyterLab runs the first bug, which makes `panel.png` and the frames `bug-NN-MS.png`
 * (not after `FOLDER reports`).
 */
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import {
  command,
  kernelIdle,
  notebook,
  openPage,
  runAll,
  startBrowser,
  startLab,
} from "../tests/browser/harness.mjs";

const [folder, only] = process.argv.slice(2);
const KERNELS = `import tapedebug as wp
%load_ext tapedebug

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def negate(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i]

@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])`;
const BUG = `%%tape --loss loss --on-overwrite ignore
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros_like(x)
loss = wp.zeros(1, dtype=float, requires_grad=True)
wp.launch(square, dim=3, inputs=[x], outputs=[y])
wp.launch(negate, dim=3, inputs=[y], outputs=[x])
wp.launch(total, dim=3, inputs=[y], outputs=[loss])`;
const FIXED = BUG.replace("outputs=[x])", "outputs=[wp.zeros_like(y)])");

/** Each report as a reader sees it first. */
async function reports(browser) {
  for (const name of (await readdir(folder)).filter((name) => name.endsWith(".html"))) {
    const { width, height, schemes } = SIZES[name] ?? { width: 1000, height: 720, schemes: ["light"] };
    for (const colorScheme of schemes) {
      const context = await browser.newContext({ viewport: { width, height }, colorScheme, deviceScaleFactor: 1.5 });
      const page = await context.newPage();
      await page.goto(pathToFileURL(join(folder, name)).href);
      await page.waitForTimeout(500);
      const dark = colorScheme === "dark" ? "-dark" : "";
      await page.screenshot({ path: join(folder, name.replace(".html", `${dark}.png`)) });
      await context.close();
    }
  }
}

const SIZES = {
  "net.html": { width: 1400, height: 860, schemes: ["light", "dark"] },
  "check.html": { width: 900, height: 620, schemes: ["light"] },
};

/** A pointer and a line of words over the page; `await say(words)`, `await point(locator)`. */
async function stage(page) {
  await page.evaluate(() => {
    const words = document.createElement("div");
    words.id = "stage-words";
    words.style.cssText =
      "position:fixed;left:0;right:0;bottom:0;z-index:99999;padding:10px 20px;background:#16324f;color:#fff;font:20px sans-serif";
    const pointer = document.createElement("div");
    pointer.id = "stage-pointer";
    pointer.innerHTML =
      '<svg width="26" height="26" viewBox="0 0 24 24"><path d="M4 2 L4 20 L9 15 L12 22 L15 21 L12 14 L19 14 Z" fill="#000" stroke="#fff" stroke-width="1.5"/></svg>';
    pointer.style.cssText = "position:fixed;z-index:99999;left:760px;top:640px;pointer-events:none";
    document.body.append(words, pointer);
  });
}

const say = (page, text) =>
  page.evaluate((words) => {
    document.getElementById("stage-words").textContent = words;
  }, text);

async function film(browser) {
  const lab = await startLab();
  try {
    const width = 1240;
    const name = "first-bug.ipynb";
    await lab.write(name, notebook(KERNELS, BUG));
    const { page, finish } = await openPage(browser, lab, name, { width, height: 860 });
    await command(page, "application:toggle-left-area");
    await page.evaluate(() => globalThis.jupyterapp.shell.collapseRight());
    await kernelIdle(page);
    let frames = 0;
    const shoot = (ms) =>
      page.screenshot({ path: join(folder, `bug-${String(frames++).padStart(2, "0")}-${ms}.png`) });
    const cell = page.locator(".jp-Notebook .jp-CodeCell").nth(1);
    const panel = page.locator(".jp-Notebook .tapedebug");
    const top = async () => {
      await cell.evaluate((element) => element.scrollIntoView({ block: "start", behavior: "instant" }));
      await page.waitForTimeout(400);
    };
    const point = async (locator, steps = 4) => {
      const box = await locator.boundingBox();
      const goal = [box.x + Math.min(box.width / 2, 120), box.y + Math.min(box.height / 2, 40)];
      const from = await page.evaluate(() => {
        const { left, top: y } = document.getElementById("stage-pointer").style;
        return [Number.parseFloat(left), Number.parseFloat(y)];
      });
      for (let step = 1; step <= steps; step += 1) {
        const [x, y] = [0, 1].map((i) => from[i] + ((goal[i] - from[i]) * step) / steps);
        await page.evaluate(([left, up]) => {
          Object.assign(document.getElementById("stage-pointer").style, { left: `${left}px`, top: `${up}px` });
        }, [x, y]);
        await shoot(step === steps ? 500 : 70);
      }
    };
    const run = async () => {
      await runAll(page);
      await panel.waitFor();
      await page.waitForTimeout(1500);
      await top();
    };

    await stage(page);
    await say(page, "A program with a bug. %%tape records the cell and diagnoses its gradient.");
    await top();
    await shoot(2500);
    await run();
    await say(page, "Run it: the gradient is wrong.");
    await shoot(2500);
    await page.evaluate(() => {
      for (const id of ["stage-words", "stage-pointer"]) document.getElementById(id).style.visibility = "hidden";
    });
    await page.screenshot({ path: join(folder, "panel.png") });
    await page.evaluate(() => {
      for (const id of ["stage-words", "stage-pointer"]) document.getElementById(id).style.visibility = "";
    });
    const card = panel.locator(".td-card").first();
    await point(card);
    await card.click({ position: { x: 60, y: 12 } });
    await page.waitForTimeout(800);
    await top();
    await say(page, "Click the finding: the launch, the lost version of x, the line, and the fix.");
    await shoot(4000);
    await page.evaluate(
      ([source]) => {
        globalThis.jupyterapp.shell.currentWidget.content.widgets[1].model.sharedModel.setSource(source);
      },
      [FIXED],
    );
    await top();
    await say(page, "Give negate an output of its own …");
    await point(cell.locator(".cm-line").nth(5));
    await shoot(2000);
    await run();
    await say(page, "… and run it again: the gradient is right.");
    await shoot(3500);
    await finish();
  } finally {
    await lab.stop();
  }
}

for (const name of (await readdir(folder)).filter((name) => name.endsWith(".png"))) await rm(join(folder, name));
const browser = await startBrowser();
try {
  await reports(browser);
  if (only !== "reports") await film(browser);
} finally {
  await browser.close();
}
