/**
 * The graph in Chromium: what is chosen in it is chosen everywhere and the other way round, by pointer and by keyboard, on a small
 * tape, on one with a wrong gradient, and on one of 100,000 launches. Any page error, console error or request fails the test.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { openBench, servePanel } from "./bench/serve.mjs";
import { ROOT, screenshot, startBrowser } from "./harness.mjs";

const FIXTURES = join(ROOT, "js", "tests", "fixtures");
const WRITE =
  "import json, sys\nfrom tapedebug.report import report\nreport([json.load(open(sys.argv[2]))], sys.argv[1])";

let browser;
let server;

before(async () => {
  browser = await startBrowser();
  server = await servePanel();
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

async function fixture(name) {
  return JSON.parse(await readFile(join(FIXTURES, `${name}.trace.json`), "utf8"));
}

/** Three launches in a row: y = a(x), z = b(y), loss = c(z, x). */
function small() {
  const names = ["x", "y", "z", "loss"];
  const version = (array, number, by, reads) => ({
    ...{ array, version: number, written_by: by, reads, needed_by: reads, overwritten_by: null },
    ...{ preserved: false, recomputed: false, status: "live", value: null, adjoint: null },
  });
  const arg = (array, written) => ({
    ...{ name: names[array], array, value: null, reads: !written, writes: written, needed: !written },
    ...{ read_version: written ? null : Math.min(1, array), write_version: written ? 1 : null },
  });
  const launch = (index, name, reads, writes) => ({
    ...{ index, kind: "kernel", kernel: null, name, dim: [8], scope: null, seconds: null, backward_seconds: null },
    ...{ call_site: null, args: [...reads.map((array) => arg(array, false)), arg(writes, true)] },
  });
  return {
    ...{ format: "tapedebug-trace", schema: 1, name: "small", environment: {}, kernels: [], scopes: [], sequences: [] },
    ...{ verdict: "NOT CHECKED", findings: [], checks: [] },
    tape: { id: 1, on_overwrite: "preserve", launches: 3, backward_runs: 1, preserved_bytes: 0, livein_bytes: 0 },
    coverage: { summary: "", launches: 3, checked: 0, notes: [] },
    backward: { ran: true, loss: 3, order: [2, 1, 0] },
    arrays: names.map((label, id) => ({
      ...{ id, label, dtype: "float32", shape: [8], requires_grad: true, buffer: id, start: 0, stop: 32, parent: null },
      role: id === 0 ? "input" : id === 3 ? "output" : "intermediate",
    })),
    launches: [launch(0, "first", [0], 1), launch(1, "second", [1], 2), launch(2, "third", [2, 0], 3)],
    versions: [
      version(0, 0, null, [0, 2]),
      ...[1, 2, 3].map((id) => version(id, 0, null, [])),
      ...[1, 2, 3].map((id) => version(id, 1, id - 1, id < 3 ? [id] : [])),
    ].map((v) => (v.version === 0 && v.array > 0 ? { ...v, overwritten_by: v.array - 1, status: "harmless" } : v)),
  };
}

async function open(trace, options) {
  const bench = await openBench(browser, server.origin, options);
  await bench.page.evaluate((data) => globalThis.bench.show(data), trace);
  return bench;
}

async function openGraph(trace, options) {
  const bench = await open(trace, options);
  await bench.page.getByRole("tab", { name: "Graph" }).click();
  await bench.page.waitForSelector(".td-g-node");
  return bench;
}

const selection = (page) => page.evaluate(() => globalThis.bench.trait("selection"));
const node = (page, start) => page.locator(`.td-g-node[aria-label^="${start}"]`).first();
const inspected = (page) => page.textContent(".td-right [role=tab][aria-selected=true]");

/** Elements of the drawing that cannot be seen: outside of their box, or of no size. */
function lost(page) {
  return page.evaluate(() => {
    const stage = document.querySelector(".td-g-stage").getBoundingClientRect();
    return [...document.querySelectorAll(".td-g-node")]
      .filter((element) => {
        const { left, right, top, bottom } = element.getBoundingClientRect();
        const inside = left >= stage.left - 1 && right <= stage.right + 1 && top >= stage.top - 1;
        return !(inside && bottom <= stage.bottom + 1 && right - left > 10);
      })
      .map((element) => element.getAttribute("aria-label"));
  });
}

/** Texts that leave the box or the ellipse that they belong to. */
function spilled(page) {
  return page.evaluate(() => {
    const texts = [...document.querySelectorAll(".td-g-node .td-g-text")];
    return texts
      .filter((text) => {
        const inner = text.getBoundingClientRect();
        const cell = text.closest(".td-g-port")?.querySelector(".td-g-cell");
        const outer = (cell ?? text.closest(".td-g-node").querySelector(".td-g-shape")).getBoundingClientRect();
        return inner.left < outer.left - 0.5 || inner.right > outer.right + 0.5 || inner.bottom > outer.bottom + 1;
      })
      .map((text) => text.textContent);
  });
}

describe("graph", () => {
  test("of three launches is shown as a whole, and links both ways with inspector and lanes", async () => {
    const { page, finish } = await openGraph(small());
    assert.equal(await page.textContent(".td-g-says"), "The whole tape: 3 launches.");
    assert.deepEqual(await lost(page), []);
    assert.deepEqual(await spilled(page), []);
    await node(page, "launch 1, second").locator(".td-g-title").click({ force: true });
    assert.equal((await selection(page)).launch, 1);
    assert.equal(await inspected(page), "Launch 1 · second");
    await page.locator('.td-g-port[aria-label^="third reads x"]').click();
    assert.deepEqual(await selection(page).then(({ launch, array, version }) => [launch, array, version]), [2, "x", 0]);
    await node(page, "array z").click();
    assert.equal(await inspected(page), "Array z v1");
    // an edge, at a place of its own line
    const label = "z v1, read by third as z";
    const at = await page.locator(`.td-g-edge[aria-label="${label}"] .td-g-line`).evaluate((path) => {
      const { x, y } = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
      return { x, y };
    });
    await page.mouse.click(at.x, at.y);
    assert.deepEqual(await selection(page).then(({ launch, array, version }) => [launch, array, version]), [2, "z", 1]);
    assert.match(await page.locator(`.td-g-edge[aria-label="${label}"]`).getAttribute("class"), /td-g-chosen/);
    // from outside: Python, the scrubber, the lanes
    await page.evaluate(() => globalThis.bench.set("selection", { launch: 0 }));
    assert.match(await node(page, "launch 0, first").getAttribute("class"), /td-g-chosen/);
    await page.getByLabel("next launch").click();
    assert.match(await node(page, "launch 1, second").getAttribute("class"), /td-g-chosen/);
    await page.getByRole("tab", { name: "Lanes" }).click();
    await page.locator(".td-canvas").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("g");
    assert.match(await node(page, "launch 2, third").getAttribute("class"), /td-g-chosen/);
    await screenshot(page, "graph-small-1400-light");
    await finish();
  });

  test("is walked through with the keyboard alone", async () => {
    const { page, finish } = await open(small());
    await page.getByRole("tab", { name: "Lanes" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForSelector(".td-g-node");
    const focus = () =>
      page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
    assert.equal(await focus(), "Graph");
    const stops = [];
    for (let i = 0; i < 12 && !/^(launch|array)/.test(stops.at(-1) ?? ""); i++) {
      await page.keyboard.press("Tab");
      stops.push(await focus());
    }
    assert.deepEqual(stops.slice(0, 2), ["Whole tape", "Neighbourhood"]);
    await page.keyboard.press("Home");
    assert.match(await focus(), /^array x/);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    assert.match(await focus(), /^array y v1/);
    assert.equal(await page.textContent(".tapedebug [aria-live=polite]"), "y v1, written by first as y");
    await page.keyboard.press("Enter");
    assert.equal((await selection(page)).array, "y");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    assert.equal((await selection(page)).launch, 1);
    assert.match(await focus(), /^launch 1, second/);
    // one stop for the whole drawing, then on to the buttons
    await page.keyboard.press("Tab");
    assert.equal(await focus(), "zoom out");
    await finish();
  });

  for (const [width, dark] of [
    [1400, false],
    [1400, true],
    [700, false],
    [700, true],
  ]) {
    const theme = dark ? "dark" : "light";
    test(`shows a wrong gradient at ${width} pixels, ${theme}`, async () => {
      const colorScheme = theme;
      const { page, finish } = await openGraph(await fixture("net"), { width, height: 900, colorScheme });
      assert.equal(await page.locator(".td-g-launch").count(), 11);
      assert.deepEqual(await spilled(page), []);
      await page.locator(".td-card").first().click();
      const stage = page.locator(".td-g-stage");
      await stage.scrollIntoViewIfNeeded();
      const chosen = await node(page, "launch 1, spring_forces").boundingBox();
      const box = await stage.boundingBox();
      assert.ok(
        chosen.x >= box.x && chosen.x + chosen.width <= box.x + box.width,
        "the finding's launch is not in view",
      );
      assert.ok(
        chosen.y >= box.y && chosen.y + chosen.height <= box.y + box.height,
        "the finding's launch is not in view",
      );
      assert.match(await node(page, "launch 0, launch_net").getAttribute("class"), /td-g-dim/);
      assert.doesNotMatch(await node(page, "array x v0").getAttribute("class"), /td-g-dim/);
      const red = await page
        .locator('.td-g-edge[aria-label^="x v0, overwritten by integrate (launch 6)"] .td-g-line')
        .evaluate((line) => getComputedStyle(line).stroke);
      assert.equal(red, dark ? "rgb(255, 133, 135)" : "rgb(185, 36, 43)");
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0);
      await screenshot(page, `graph-finding-${width}-${theme}`);
      await page.keyboard.press("Escape");
      await page.locator(".td-g-svg [tabindex='0']").focus();
      await page.keyboard.press("f");
      assert.deepEqual(await lost(page), []);
      await screenshot(page, `graph-net-${width}-${theme}`);
      await finish();
    });
  }

  test("draws a repetition once, collapses scopes, and shows where adjoints flow", async () => {
    const { page, finish } = await openGraph(await fixture("recorded-preserve"));
    assert.match(await page.textContent(".td-g-says"), /123 launches in 6 boxes/);
    assert.deepEqual(await spilled(page), []);
    await screenshot(page, "graph-folded-1400-light");
    await page.evaluate(() => globalThis.bench.set("selection", { launch: 122 }));
    for (let i = 0; i < 2; i++) await page.getByLabel("next launch").click();
    assert.match(await page.textContent(".td-g-says"), /adjoints flow/);
    const tail = page.locator('.td-g-edge[aria-label^="v v1, read by spring_forces"] .td-g-tail');
    assert.equal(await tail.evaluate((arrow) => getComputedStyle(arrow).display), "inline");
    await screenshot(page, "graph-backward-1400-light");
    await page.locator('.td-g-bandhead[aria-label^="repetition"]').click();
    assert.match(await page.textContent(".td-g-says"), /of 123 launches: those at most 2 launches away from/);
    assert.equal(await page.getByLabel("fold repetitions").isChecked(), true); // the others would stay folded
    await page.locator(".td-g-stage").getByRole("button", { name: "fit" }).click();
    await page.locator('.td-g-bandhead[aria-label^="scope step"]').first().click();
    assert.equal(await page.locator(".td-g-launch[aria-label*='collapsed']").count(), 1);
    await screenshot(page, "graph-unfolded-1400-light");
    await finish();
  });

  test("shows the neighbourhood of any launch of 100,000 at once", async () => {
    const { page, finish } = await openBench(browser, server.origin, { colorScheme: "dark" });
    await page.evaluate(() => globalThis.bench.large({ launches: 100_000, arrays: 200 }));
    await page.evaluate(() => globalThis.bench.set("selection", { launch: 50_000 }));
    const spent = await page.evaluate(() => {
      const tab = [...document.querySelectorAll(".td-stagetab")].find((button) => button.textContent === "Graph");
      const began = performance.now();
      tab.click();
      return performance.now() - began;
    });
    assert.ok(spent < 1500, `${spent} ms`); // about 60 ms on a quiet machine
    const says = await page.textContent(".td-g-says");
    assert.match(says, /of 100,000 launches in \d+ boxes.* from launch 50000/);
    const count = await page.locator(".td-g-launch").count();
    assert.ok(count > 1 && count <= 50, `${count} boxes`);
    assert.deepEqual(await spilled(page), []);
    await screenshot(page, "graph-100000-1400-dark");
    await page.getByLabel("fold repetitions").setChecked(false);
    assert.match(
      await page.textContent(".td-g-says"),
      /\d of 100,000 launches: those at most 2 launches away from launch 50000/,
    );
    await page.evaluate(() => globalThis.bench.set("selection", { launch: 99_999 }));
    assert.match(await page.textContent(".td-g-says"), /from launch 99999/);
    await page.getByRole("button", { name: "4 launches away" }).click();
    assert.ok((await page.locator(".td-g-launch").count()) <= 50);
    await finish();
  });

  test("works in a report, with its content-security policy, and gives Graphviz what is shown", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tapedebug-graph-"));
    try {
      const [data, path] = [join(folder, "trace.json"), join(folder, "report.html")];
      await writeFile(data, JSON.stringify(await fixture("net")));
      const env = { ...process.env, PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":") };
      await promisify(execFile)(process.env.PYTHON ?? "python", ["-c", WRITE, path, data], { env });
      const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, permissions: [] });
      const page = await context.newPage();
      const problems = [];
      page.on("pageerror", (error) => problems.push(String(error)));
      page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
      await page.goto(pathToFileURL(path).href);
      await page.getByRole("tab", { name: "Graph" }).click();
      await page.waitForSelector(".td-g-node");
      await page.mouse.move(700, 450);
      await page.evaluate(() => {
        Object.defineProperty(navigator, "clipboard", { value: undefined }); // as in a frame that may not copy
      });
      await page.getByRole("button", { name: "Copy DOT" }).click();
      const dot = await page.inputValue(".td-g-dot");
      assert.match(dot, /^digraph "net"/);
      const drawn = promisify(execFile)("dot", ["-Tplain"], { maxBuffer: 1e7 });
      drawn.child.stdin.end(dot);
      const lines = await drawn.then(
        ({ stdout }) => stdout.split("\n"),
        (error) => (error.code === "ENOENT" ? null : Promise.reject(error)), // Graphviz is optional
      );
      if (lines) {
        const nodes = await page.locator(".td-g-node").count();
        assert.equal(lines.filter((line) => line.startsWith("node ")).length, nodes);
      }
      await screenshot(page, "graph-dot-1400-light");
      await context.close();
      assert.deepEqual(problems, []);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
