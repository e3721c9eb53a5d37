/**
 * The lanes in Chromium, in the widget of the built bundle on a page of its own: what is painted, what hands and keys do, that
 * selections go both ways, and that a frame of a long tape costs no more than one of a short tape.
 */
import assert from "node:assert/strict";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openBench, servePanel } from "./bench/serve.mjs";
import { colours, recoloured } from "./colours.mjs";
import { ROOT, SCREENSHOTS, startBrowser } from "./harness.mjs";

const RED = "185,36,43,255";
const VIOLET = "135,87,184,255";
/** Pixels whose edges the rasteriser may smooth differently from one time to the next. */
const SMOOTHING = 500;
const SITE = { file: "/home/ada/net.py", line: 33, column: 4, function: "train" };

let browser;
let server;

before(async () => {
  [browser, server] = await Promise.all([startBrowser(), servePanel()]);
  await mkdir(SCREENSHOTS, { recursive: true });
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fixture(name) {
  return JSON.parse(await readFile(join(ROOT, "js", "tests", "fixtures", `${name}.trace.json`), "utf8"));
}

async function open(trace, options) {
  const { page, finish } = await openBench(browser, server.origin, options);
  await page.evaluate((data) => window.bench.show(data), trace);
  return { page, finish, canvas: page.locator(".td-canvas") };
}

/** After what was asked for has been painted. */
async function settled(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return colours(page);
}

async function selection(page) {
  return page.evaluate(() => window.bench.trait("selection"));
}

function event(patch) {
  return {
    kind: "write",
    clock: 1,
    at: 0,
    of: "values",
    array: 0,
    how: "numpy",
    call_site: SITE,
    tape: 3,
    again: false,
    settled: false,
    numbers: {},
    ...patch,
  };
}

describe("lanes", () => {
  test("what is lost is red, what is not finite says so, a dead adjoint is hollow", async () => {
    const trace = await fixture("net");
    const { page, finish } = await open(trace);
    const before = await settled(page);
    assert.ok(before[RED] > 100, `${before[RED] ?? 0} red pixels`);
    for (const finding of trace.findings) finding.severity = "info";
    for (const version of trace.versions) if (version.status === "lost") version.status = "harmless";
    await page.evaluate((data) => window.bench.show(data), trace);
    const calm = await settled(page);
    assert.equal(calm[RED] ?? 0, 0, "red, and nothing is wrong");
    const written = trace.versions.find((version) => version.written_by !== null);
    written.value.nan = 3;
    await page.evaluate((data) => window.bench.show(data), trace);
    assert.ok((await settled(page))[RED] > 10, "values that are not finite are marked");
    assert.match(await page.textContent(".td-legend"), /NaN or Inf among the values · 1/);
    written.value.nan = 0;
    const violet = (await settled(page))[VIOLET];
    const carried = trace.versions.filter((version) => version.adjoint !== null && version.reads.length > 0);
    for (const version of carried) Object.assign(version.adjoint, { norm: 0, min: 0, max: 0, mean: 0 });
    await page.evaluate((data) => window.bench.show(data), trace);
    assert.ok((await settled(page))[VIOLET] > violet, "adjoints of zero are outlined");
    assert.match(await page.textContent(".td-legend"), /adjoint exactly zero · \d+/);
    await finish();
  });

  test("hands: the wheel zooms and pans, a drag pans, a double click zooms, f shows all", async () => {
    const { page, finish, canvas } = await open(await fixture("recorded-preserve"));
    await page.getByLabel("fold repetitions").uncheck();
    const whole = await settled(page);
    const changes = async (what, act) => {
      const before = await settled(page);
      await act();
      const moved = recoloured(before, await settled(page));
      assert.ok(moved > SMOOTHING, `${what} moved ${moved} pixels`);
    };
    const box = await canvas.boundingBox();
    const [x, y] = [box.x + 0.4 * box.width, box.y + 0.6 * box.height];
    await page.mouse.move(x, y);
    await page.keyboard.down("Control");
    await changes("Ctrl + wheel", () => page.mouse.wheel(0, -500));
    await page.keyboard.up("Control");
    await page.keyboard.down("Shift");
    await changes("Shift + wheel", () => page.mouse.wheel(0, 300));
    await page.keyboard.up("Shift");
    await changes("a drag", async () => {
      await page.mouse.down();
      await page.mouse.move(x - 60, y, { steps: 3 });
      await page.mouse.up();
    });
    const { launch = null } = await selection(page);
    assert.equal(launch, null, "a drag is no click");
    await changes("a double click", () => page.mouse.dblclick(x, y));
    await canvas.focus();
    await changes("−", () => page.keyboard.press("-"));
    await page.evaluate(() => window.bench.set("selection", {}));
    await page.keyboard.press("f");
    await page.mouse.move(0, 0);
    assert.ok(recoloured(whole, await settled(page)) < SMOOTHING, "f shows all again");
    await finish();
  });

  test("two fingers zoom", async () => {
    const { page, finish, canvas } = await open(await fixture("recorded-preserve"), { hasTouch: true });
    const before = await settled(page);
    const box = await canvas.boundingBox();
    const client = await page.context().newCDPSession(page);
    const touch = (type, ...xs) =>
      client.send("Input.dispatchTouchEvent", {
        type,
        touchPoints: xs.map((at, id) => ({ x: box.x + at, y: box.y + 200, id })),
      });
    await touch("touchStart", 250, 320);
    for (let apart = 0; apart <= 120; apart += 30) await touch("touchMove", 250 - apart / 2, 320 + apart / 2);
    await touch("touchEnd");
    assert.ok(recoloured(before, await settled(page)) > SMOOTHING);
    await finish();
  });

  test("keys: ends of time, lanes, and a fold", async () => {
    const { page, finish, canvas } = await open(await fixture("recorded-preserve"));
    const folded = await settled(page);
    await canvas.focus();
    const said = () => page.textContent(".td-scrub-text");
    await page.keyboard.press("End");
    assert.equal(await said(), "launch 0 backward");
    await page.keyboard.press("Home");
    assert.equal(await said(), "launch 0");
    await page.keyboard.press("ArrowDown");
    const first = await selection(page);
    await page.keyboard.press("ArrowDown");
    assert.notDeepEqual((await selection(page)).array, first.array);
    await page.evaluate(() => window.bench.set("selection", { launch: 60 }));
    await page.keyboard.press("Enter");
    const opened = await settled(page);
    assert.ok(recoloured(folded, opened) > SMOOTHING, "Enter unfolds");
    await page.keyboard.press("Enter");
    assert.ok(recoloured(opened, await settled(page)) > SMOOTHING, "Enter folds again");
    await finish();
  });

  test("selections go both ways, and what is selected elsewhere is brought into view", async () => {
    const { page, finish, canvas } = await open(await fixture("net"));
    await canvas.click({ position: { x: 160, y: 28 } });
    assert.equal((await selection(page)).launch, 1);
    await page.evaluate(() => window.bench.set("selection", { launch: 6, array: "x_next", version: 1 }));
    assert.match(await page.textContent(".td-around"), /Launches around 6.*Versions of x_next/);
    // an array that is not shown, as it carries no gradient, has a lane as long as it is selected
    const lanes = () => canvas.getAttribute("aria-label");
    const before = await settled(page);
    await page.evaluate(() => window.bench.set("selection", { array: "a", version: 0 }));
    assert.ok(recoloured(before, await settled(page)) > SMOOTHING, await lanes());
    await finish();
  });

  test("what happened around the tape has a mark, a tooltip with its line, and a place to go to", async () => {
    const trace = await fixture("net");
    trace.events = [
      event({ kind: "zero", of: "gradient", how: "zero_" }),
      event({ kind: "backward", of: "tape", array: null, at: 11, clock: 2, numbers: { pass: 1 } }),
      event({ kind: "read", of: "gradient", at: 11, clock: 3, numbers: { norm: 2.5 } }),
    ];
    const plain = await open(await fixture("net"));
    const without = await settled(plain.page);
    await plain.finish();
    const { page, finish, canvas } = await open(trace);
    assert.ok((await settled(page))[VIOLET] > without[VIOLET], "gradients have violet marks");
    // the mark at the very beginning, below the first lane: at the left edge of the plot
    const { left, middle } = await page.evaluate(() => {
      const canvas = document.querySelector(".td-canvas");
      const pen = canvas.getContext("2d");
      const { data, width } = pen.getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) {
        if (data[i] === 135 && data[i + 1] === 87 && data[i + 2] === 184 && (i / 4) % width < width / 3)
          return { left: (i / 4) % width, middle: Math.floor(i / 4 / width) };
      }
      return null;
    });
    await canvas.hover({ position: { x: left + 3, y: middle + 4 } });
    const tip = page.locator(".td-lanes .td-tip");
    await tip.waitFor();
    assert.match(
      await tip.textContent(),
      /gradient of \w+ set to one value \(zero_\)before launch 0 · net\.py:33 train/,
    );
    await canvas.click({ position: { x: left + 3, y: middle + 4 } });
    const { array } = await selection(page);
    assert.equal(array, trace.arrays[0].label);
    await page.waitForFunction(() =>
      /read .*2\.5; after the last launch/.test(document.querySelector(".td-around").textContent),
    );
    await finish();
  });

  test("a frame of a long tape costs what is on the screen", async () => {
    const { page, finish } = await openBench(browser, server.origin);
    const work = {};
    for (const launches of [20_000, 80_000]) {
      await page.evaluate((n) => window.bench.large({ launches: n, arrays: 200 }), launches);
      work[launches] = [];
      for (const [fold, zoom] of [
        [true, 0],
        [false, 0],
        [false, 6],
      ]) {
        await page.getByLabel("fold repetitions").setChecked(fold);
        await page.evaluate((steps) => window.bench.view(steps), zoom);
        for (const gesture of ["pan", "zoom"]) {
          work[launches].push(await page.evaluate((name) => window.bench.work(name, 4), gesture));
        }
      }
    }
    for (const [i, calls] of work[80_000].entries()) {
      const few = work[20_000][i];
      assert.ok(few > 100 && calls > 100, `counted ${few} and ${calls} calls`);
      const said = `${calls} calls of the canvas a frame, and ${few} with a fourth of the launches`;
      // a frame may be painted twice where the machine is busy; four times the launches must not be four times the work
      assert.ok(few < 25_000 && calls < 2.5 * few + 500, said);
    }
    await finish();
  });

  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1400, 700]) {
      test(`${colorScheme}, ${width} pixels: pictures to look at`, async () => {
        const { page, finish } = await openBench(browser, server.origin, { width, height: 1000, colorScheme });
        await page.evaluate(() => window.bench.large({ launches: 20_000, arrays: 200 }));
        for (const [name, fold] of [
          ["folded", true],
          ["unfolded", false],
        ]) {
          await page.getByLabel("fold repetitions").setChecked(fold);
          await settled(page);
          await page.screenshot({ path: join(SCREENSHOTS, `lanes-${name}-${colorScheme}-${width}.png`) });
        }
        await finish();
      });
    }
  }
});
