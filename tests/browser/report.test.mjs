/**
 * Reports in Chromium, opened from a file as somebody would who got one by mail. Any page error, console message of the
 * error kind (a breach of the content-security policy is one) or request fails the test.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { ROOT, SCREENSHOTS, startBrowser } from "./harness.mjs";

const EVIL = "</script><img src=x onerror=alert(1)>";
const FIXTURES = join(ROOT, "js", "tests", "fixtures");
const WRITE = `
import json, os, sys
from tapedebug.report import _page, report
_page.MOST_PLAIN = int(os.environ.get("MOST_PLAIN", _page.MOST_PLAIN))
report([json.load(open(name, encoding="utf-8")) for name in sys.argv[2:]], sys.argv[1])
`;

let browser;
let folder;

before(async () => {
  browser = await startBrowser();
  folder = await mkdtemp(join(tmpdir(), "tapedebug-report-"));
  await mkdir(SCREENSHOTS, { recursive: true });
});

after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Writes a report of traces (JSON data) as Python does, and returns its address. */
async function write(...traces) {
  return writeWith({}, ...traces);
}

async function writeWith(variables, ...traces) {
  const names = [];
  for (const [i, trace] of traces.entries()) {
    names.push(join(folder, `trace-${i}.json`));
    await writeFile(names[i], JSON.stringify(trace));
  }
  const path = join(folder, "report.html");
  const env = { ...process.env, ...variables, PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":") };
  await promisify(execFile)(process.env.PYTHON ?? "python", ["-c", WRITE, path, ...names], { env });
  return pathToFileURL(path).href;
}

async function fixture(name) {
  return JSON.parse(await readFile(join(FIXTURES, `${name}.trace.json`), "utf8"));
}

async function open(url, { width = 1400, height = 860, colorScheme = "light", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.stack ?? error}`));
  page.on("console", (message) => message.type() === "error" && problems.push(`console error: ${message.text()}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("request", (request) => request.url() !== url && problems.push(`request: ${request.url()}`));
  await page.goto(url);
  if (options.javaScriptEnabled !== false) {
    // a canvas is 300 × 150 until it has been laid out and painted
    await page.waitForFunction(() => ![300, undefined].includes(document.querySelector(".td-canvas")?.width));
  }
  const finish = async () => {
    await context.close();
    assert.deepEqual(problems, []);
  };
  return { page, finish };
}

/** How many pixels of the lanes have each colour; a canvas that was never painted has one, transparent. */
function colours(page, selector = ".td-canvas") {
  return page.evaluate((name) => {
    const canvas = document.querySelector(name);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const counts = {};
    for (let i = 0; i < data.length; i += 4) {
      const key = `${data[i]},${data[i + 1]},${data[i + 2]},${data[i + 3]}`;
      counts[key] = (counts[key] ?? 0) + 1;
    }
    return counts;
  }, selector);
}

/** Pixels that changed colour. The rasteriser smooths a few differently from one time to the next. */
function changed(before, after) {
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  let sum = 0;
  for (const key of keys) sum += Math.abs((before[key] ?? 0) - (after[key] ?? 0));
  return sum / 2;
}

const SMOOTHING = 500;

async function overflow(page) {
  return page.evaluate(() => ({
    page: document.documentElement.scrollWidth - window.innerWidth,
    cut: [...document.querySelectorAll(".td-header, .td-columns, .td-left, .td-right, .td-middle, .td-scrubber")]
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1)
      .map((element) => element.className),
  }));
}

const RED = "198,40,47,255";
const KEEP = "27,127,134,255";

describe("report", () => {
  test("opens on what is wrong: finding, lanes, source", async () => {
    const { page, finish } = await open(await write(await fixture("net")));
    assert.equal(await page.textContent(".td-badge"), "✕ gradient WRONG");
    assert.match(await page.textContent(".td-card[aria-pressed=true]"), /overwrite · x, x_next/);
    assert.equal(await page.textContent(".td-choice[aria-selected=true]"), "Launch 1 · spring_forces");
    assert.match(await page.textContent(".td-code"), /p = x\[i\]/);
    assert.equal(await page.textContent(".td-line.td-marked .td-number"), "29");
    const painted = await colours(page);
    assert.ok(Object.keys(painted).length > 50, `only ${Object.keys(painted).length} colours in the lanes`);
    assert.ok(painted[RED] > 100, `${painted[RED] ?? 0} red pixels in the lanes`);
    assert.equal(painted[KEEP], undefined);
    await finish();
  });

  test("shows preserved values calmly: nothing in the lanes is red", async () => {
    const { page, finish } = await open(await write(await fixture("net-40-preserve")));
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    const painted = await colours(page);
    assert.ok(painted[KEEP] > 100, `${painted[KEEP] ?? 0} pixels of kept values`);
    assert.equal(painted[RED], undefined);
    await finish();
  });

  test("names that are markup stay text", async () => {
    const trace = await fixture("net");
    trace.name = EVIL;
    for (const item of [...trace.arrays, ...trace.launches, ...trace.kernels, ...trace.scopes]) {
      for (const key of ["name", "label", "adjoint", "file"]) if (key in item) item[key] = EVIL;
    }
    for (const finding of trace.findings) Object.assign(finding, { message: EVIL, rule: EVIL, arrays: [EVIL] });
    const { page, finish } = await open(await write(trace));
    assert.equal(await page.locator("img").count(), 0);
    assert.equal(await page.textContent(".td-name"), `${EVIL} · tape 3`);
    assert.equal(await page.textContent(".td-card-title"), `✕${EVIL} · ${EVIL}`);
    await page.locator(".td-canvas").hover({ position: { x: 300, y: 140 } });
    assert.match(await page.textContent(".td-tip"), /<img src=x/);
    await finish();
  });

  test("a click in the lanes chooses, the wheel zooms, f shows all again", async () => {
    const { page, finish } = await open(await write(await fixture("net")));
    const canvas = page.locator(".td-canvas");
    const before = await colours(page);
    await canvas.hover({ position: { x: 240, y: 205 } });
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -600);
    await page.keyboard.up("Control");
    await page.waitForTimeout(100);
    assert.ok(changed(before, await colours(page)) > 4 * SMOOTHING);
    await canvas.focus();
    await page.keyboard.press("f");
    await page.waitForTimeout(100);
    assert.ok(changed(before, await colours(page)) < SMOOTHING);
    await canvas.click({ position: { x: 300, y: 20 } });
    const { width } = await canvas.boundingBox();
    await canvas.click({ position: { x: width - 20, y: 28 } });
    assert.equal(await page.textContent(".td-scrub-text"), "launch 0 backward");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await page.textContent(".td-scrub-text"), "launch 1 backward");
    await finish();
  });

  test("a band folds when it is clicked", async () => {
    const { page, finish } = await open(await write(await fixture("net-40-preserve")));
    const box = page.getByLabel("fold repeated sequences ×N");
    const folded = await colours(page);
    await box.uncheck();
    await page.waitForTimeout(100);
    assert.ok(changed(folded, await colours(page)) > 4 * SMOOTHING);
    await box.check();
    await page.waitForTimeout(100);
    assert.ok(changed(folded, await colours(page)) < SMOOTHING);
    await finish();
  });

  test("packed data is unpacked by the browser", async () => {
    const { page, finish } = await open(await writeWith({ MOST_PLAIN: "1000" }, await fixture("net-40-preserve")));
    await page.waitForSelector(".td-badge");
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    assert.match(await page.textContent(".td-coverage"), /^122 of 122 launches checked/);
    await finish();
  });

  test("what needs a kernel is off and says so", async () => {
    const { page, finish } = await open(await write(await fixture("net")));
    for (const name of ["Run checks", "Export report"]) {
      const button = page.getByRole("button", { name });
      assert.equal(await button.isDisabled(), true);
      assert.equal(await button.getAttribute("title"), "needs the kernel that recorded this tape");
    }
    await finish();
  });

  test("several tapes are shown one at a time, the one with the worst finding first", async () => {
    const { page, finish } = await open(await write(await fixture("net-40-preserve"), await fixture("net")));
    assert.equal(await page.textContent(".td-badge"), "✕ gradient WRONG");
    const choice = page.getByLabel("Tape", { exact: true });
    assert.equal(await choice.inputValue(), "1");
    assert.match(await choice.locator("option").last().textContent(), / · WRONG · error$/);
    const width = (selector) => page.locator(selector).evaluate((element) => element.clientWidth);
    assert.ok((await width(".td-code")) > 0.9 * (await width(".td-source")), "nothing stands beside the source");
    await choice.selectOption({ index: 0 });
    assert.equal(await page.textContent(".td-badge"), "✓ gradient AGREE");
    assert.equal(await page.locator(".td-canvas").count(), 1);
    await finish();
  });

  test("it is readable without JavaScript", async () => {
    const url = await write(await fixture("net"));
    const { page, finish } = await open(url, { javaScriptEnabled: false });
    const text = await page.innerText("body");
    assert.match(text, /Gradient: WRONG\. 11 of 11 launches checked/);
    assert.match(text, /overwrite · x, x_next/);
    await finish();
  });

  for (const name of ["net", "net-40-preserve"]) {
    for (const colorScheme of ["light", "dark"]) {
      for (const [width, height] of [
        [1400, 860],
        [700, 1000],
      ]) {
        test(`${name}, ${colorScheme}, ${width} pixels: nothing is cut off`, async () => {
          const { page, finish } = await open(await write(await fixture(name)), { width, height, colorScheme });
          await page.waitForTimeout(100);
          assert.deepEqual(await overflow(page), { page: 0, cut: [] });
          const { background } = await page.evaluate(() => ({
            background: getComputedStyle(document.querySelector(".tapedebug")).backgroundColor,
          }));
          assert.equal(background, colorScheme === "dark" ? "rgb(21, 24, 30)" : "rgb(255, 255, 255)");
          await page.screenshot({ path: join(SCREENSHOTS, `report-${name}-${colorScheme}-${width}.png`) });
          await finish();
        });
      }
    }
  }
});
