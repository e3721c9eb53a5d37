/**
 * The panel as anywidget mounts it, in a plain page, before a real Python that answers its questions: inspector, values,
 * source, findings, search, help, and the links between them. No JupyterLab: what it adds has tests of its own.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { ROOT, SCREENSHOTS, startBrowser } from "./harness.mjs";

const WAIT = 60_000;

const PAGE = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>panel</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/widget.css">
<style>html, body { height: 100%; margin: 0; background: Canvas; color-scheme: light dark } </style></head>
<body><p><input id="outside" aria-label="outside"></p><div id="host"></div><script type="module" src="/main.js"></script></body></html>`;

/** An anywidget model without Jupyter: its messages go to the Python beside the test. */
const MAIN = `
import widget from "/widget.js";
const listeners = {};
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const { head, mask, packed } = await (await fetch("/trace.json")).json();
const columns = Object.fromEntries(Object.entries(packed).map(([name, text]) => [name, bytes(text)]));
const traits = { head, columns, mask, checks: head.checks, selection: {}, running: false, progress: 0, status: "", can_run: true };
const hear = (message, buffers) => { for (const each of listeners["msg:custom"] ?? []) each(message, buffers); };
const model = {
  get: (key) => traits[key],
  set: (key, value) => { traits[key] = value; },
  save_changes() {},
  on: (name, each) => { (listeners[name] ??= []).push(each); },
  off: (name, each) => { listeners[name] = (listeners[name] ?? []).filter((other) => other !== each); },
  async send(message) {
    if (message.type !== "ask") return;
    if (message.question.type !== "chunk") globalThis.asked.push(message.question);
    const { data, buffers, refused } = JSON.parse(await globalThis.kernel(JSON.stringify(message.question)));
    if (refused !== undefined) hear({ type: "refused", request: message.request, message: refused }, []);
    else hear({ type: "answer", request: message.request, data }, buffers.map(bytes));
  },
};
globalThis.asked = [];
globalThis.traits = traits;
globalThis.hear = hear;
globalThis.setTrait = (key, value) => { traits[key] = value; for (const each of listeners["change:" + key] ?? []) each(); };
globalThis.unmount = widget.render({ model, el: document.getElementById("host") });
`;

let browser;
let server;
let origin;
let kernel;

/** A Python process with a tape, asked one question after the other. */
async function startKernel() {
  const env = { ...process.env, PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":") };
  const child = spawn(process.env.PYTHON ?? "python", [join(ROOT, "tests", "browser", "panel_kernel.py")], { env });
  let log = "";
  child.stderr.on("data", (data) => (log += data));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the kernel ended:\n${log}`);
    return value;
  };
  const trace = await next();
  let turn = Promise.resolve();
  const ask = (question) => {
    const answer = turn.then(() => {
      child.stdin.write(`${question}\n`);
      return next();
    });
    turn = answer.catch(() => {});
    return answer;
  };
  return { trace, ask, stop: () => child.kill() };
}

before(async () => {
  [browser, kernel] = await Promise.all([startBrowser(), startKernel()]);
  const folder = join(ROOT, "tapedebug", "static");
  const files = {
    "/": ["text/html", async () => PAGE],
    "/main.js": ["text/javascript", async () => MAIN],
    "/widget.js": ["text/javascript", () => readFile(join(folder, "widget.js"))],
    "/widget.css": ["text/css", () => readFile(join(folder, "widget.css"))],
    "/trace.json": ["application/json", async () => kernel.trace],
  };
  server = createServer(async (request, response) => {
    const [type, read] = files[request.url] ?? [];
    response.writeHead(type ? 200 : 404, { "content-type": `${type ?? "text/plain"}; charset=utf-8` });
    response.end(type ? await read() : "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${server.address().port}`;
  await mkdir(SCREENSHOTS, { recursive: true });
});

after(async () => {
  await browser?.close();
  kernel?.stop();
  server?.close();
});

async function open({ width = 1400, height = 900, dark = false, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    ...options,
  });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.stack ?? error}`));
  page.on("console", (message) => message.type() === "error" && problems.push(`console error: ${message.text()}`));
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && !request.url().startsWith(origin)) problems.push(request.url());
  });
  await page.exposeFunction("kernel", (question) => kernel.ask(question));
  await page.goto(origin);
  await page.waitForSelector(".td-canvas");
  return {
    page,
    finish: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

/** Scrolls the column, or the page where the columns are stacked; never the panel in its frame. */
function scrollTo(page, selector) {
  return page.locator(selector).evaluate((element) => {
    const column = element.closest(".td-right");
    const top = element.getBoundingClientRect().top;
    if (column.scrollHeight > column.clientHeight) column.scrollTop += top - column.getBoundingClientRect().top;
    else window.scrollBy(0, top);
  });
}

const select = (page, selection) => page.evaluate((value) => globalThis.setTrait("selection", value), selection);
const selection = (page) => page.evaluate(() => globalThis.traits.selection);

const chosenTab = (page) => text(page, ".td-choice[aria-selected=true]");
const text = (page, selector) => page.locator(selector).first().textContent();

/** Waits until an element says something: what is asked of the kernel comes when it comes. */
function says(page, selector, words) {
  return page.waitForFunction(
    ([where, pattern]) =>
      [...document.querySelectorAll(where)].some((element) => new RegExp(pattern).test(element.textContent ?? "")),
    [selector, words],
  );
}

/** What sticks out of the window. */
function cut(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll(".td-header *, .td-left *, .td-scrubber *, .td-values, .td-source, .td-args")]
      .filter((element) => element.getClientRects().length > 0 && !element.closest(".td-sr"))
      .filter((element) => element.getBoundingClientRect().right > window.innerWidth + 1)
      .map((element) => element.className || element.tagName),
  );
}

describe("inspector", () => {
  test("values are the kernel's, follow the slider, and come beside their adjoint", async () => {
    const { page, finish } = await open();
    await select(page, { launch: 0, array: "state.q", version: 0 });
    await says(page, ".td-values h2", "^state\\.q v0");
    await says(page, ".td-numbers tbody tr", "^\\[0\\]");
    const first = await text(page, ".td-numbers tbody tr");
    await page.locator(".td-slider").evaluate((slider) => {
      for (let at = 1; at <= 9; at++) {
        slider.value = String(at);
        slider.dispatchEvent(new Event("input", { bubbles: true }));
      }
    });
    await says(page, ".td-values h2", "^state\\.q v5");
    await says(page, ".td-change", "^launch 9 \\(integrate\\) changed 24 of 24 elements, most at \\[");
    assert.notEqual(await text(page, ".td-numbers tbody tr"), first);
    assert.equal(await chosenTab(page), "Launch 9 · integrate");
    const asked = await page.evaluate(() => globalThis.asked.map(({ version }) => version));
    assert.ok(
      asked.every((version) => version === 0 || version === 5),
      `nobody waits for the others: ${asked}`,
    );
    await page.locator(".td-picture").nth(1).waitFor();
    const painted = await page.evaluate(() =>
      [...document.querySelectorAll(".td-picture")].map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return data.some((value, i) => i % 4 === 3 && value > 0);
      }),
    );
    assert.deepEqual(painted, [true, true]);
    // and back again, with the keys
    await page.locator(".td-slider").focus();
    for (let i = 0; i < 6; i++) await page.keyboard.press("ArrowLeft");
    await says(page, ".td-values h2", "^state\\.q v2");
    await says(page, ".td-change", "^launch 3 \\(integrate\\) changed 24 of 24 elements");
    await page.keyboard.press("End");
    assert.equal(await text(page, ".td-scrub-text"), "launch 0 backward");
    await says(page, ".td-values h2", "^state\\.q v0");
    await says(page, ".td-numbers tbody tr", first.replace(/[[\]().+]/g, "\\$&"));
    await finish();
  });

  test("a NaN is found, in the numbers and in the source, and large arrays are paged", async () => {
    const { page, finish } = await open();
    await select(page, { launch: 14, array: "root", version: 1 });
    await page.getByRole("button", { name: "first NaN at [5]" }).click();
    assert.equal(await text(page, ".td-numbers tr.td-chosen th"), "[5]");
    assert.match(await text(page, ".td-numbers tr.td-chosen"), /NaN✕/);
    assert.match(await text(page, ".td-line.td-wrong"), /✕ NaN/);
    await page.getByLabel("Go to an index").fill("8998");
    await page.getByLabel("Go to an index").press("Enter");
    await says(page, ".td-numbers tr.td-chosen", "^\\[8998\\]94\\.8578");
    const starts = await page.evaluate(() => globalThis.asked.map(({ start }) => start ?? 0));
    assert.ok(starts.includes(8192), String(starts));
    await finish();
  });

  test("every link leads there: findings, launches, arrays, lines, lanes", async () => {
    const { page, finish } = await open();
    await page.locator(".td-card", { hasText: "overwrite · state.q" }).click();
    assert.equal(await chosenTab(page), "Launch 1 · integrate");
    assert.equal(await text(page, ".td-scrub-text"), "launch 1");
    await says(page, ".td-values h2", "^state\\.q v1");
    assert.match(await text(page, ".td-line.td-marked .td-badges"), /w ✕ overwrites/);
    await page.locator(".td-line.td-marked").click();
    assert.match(await text(page, ".td-adjoint pre"), /_adj/);
    await page.locator(".td-open summary").click();
    assert.match(await text(page, ".td-evidence"), /elements changed24/);
    await page
      .locator(".td-open .td-named", { hasText: "launches" })
      .getByRole("button", { name: "3", exact: true })
      .click();
    assert.equal((await selection(page)).launch, 3);
    await page.locator(".td-args").getByRole("button", { name: "force", exact: true }).click();
    await says(page, ".td-values h2", "^force v2");
    assert.deepEqual(
      { ...(await selection(page)), pair: null },
      { launch: 3, array: "force", version: 2, finding: 1, pair: null },
    );
    await page.locator(".td-args tr", { hasText: "force" }).getByRole("button", { name: "go to writer" }).click();
    assert.equal(await chosenTab(page), "Launch 2 · spring");
    assert.deepEqual(await page.locator(".td-provenance li").allTextContents(), ["launch 3", "force v2 by launch 2"]);
    // from a line to its adjoint, and from the launch to its finding
    await page.locator(".td-line", { hasText: "force[i] = pull" }).click();
    await says(page, ".td-adjoint-title", "^generated adjoint of line 30");
    await page.locator(".td-right").getByRole("button", { name: "overwrite · force", exact: true }).click();
    assert.equal(await text(page, ".td-card[aria-pressed=true] .td-card-title"), "✕overwrite · force");
    // to the lanes: what is chosen stands out in them
    const drawn = () => page.locator(".td-canvas").evaluate((canvas) => canvas.toDataURL());
    const before = await drawn();
    await select(page, { launch: 3, array: "state.mass", version: 0 });
    await page.waitForFunction((old) => document.querySelector(".td-canvas").toDataURL() !== old, before);
    // from the lanes: a click on a bar opens the array there
    const box = await page.locator(".td-canvas").boundingBox();
    for (let y = 60; y < box.height && (await chosenTab(page)).startsWith("Launch"); y += 9) {
      await page.locator(".td-canvas").click({ position: { x: box.width * 0.42, y } });
    }
    assert.match(await chosenTab(page), /^Array /);
    await says(page, ".td-numbers tbody tr", "^\\[0");
    await page.locator(".td-history").getByRole("button").first().click();
    assert.equal((await selection(page)).version, 0);
    // from the numbers: to the element that a launch changed most
    await select(page, { launch: 3, array: "state.q", version: 2 });
    await page.locator(".td-change button").click();
    assert.equal(await page.locator(".td-numbers tr.td-chosen").count(), 1);
    // what is brought into view by a browser must not take the header away
    await page.locator(".td-values").evaluate((element) => element.scrollIntoView({ block: "start" }));
    assert.equal(await page.locator(".tapedebug").evaluate((root) => root.scrollTop), 0);
    await finish();
  });

  test("findings are filtered by severity, also for the keys", async () => {
    const { page, finish } = await open();
    assert.equal(await page.locator(".td-card").count(), 4);
    await page.getByRole("checkbox", { name: /3 errors/ }).uncheck();
    assert.deepEqual(await page.locator(".td-card-title").allTextContents(), ["ioverwrite · heat"]);
    await page.locator(".td-canvas").focus();
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    assert.equal((await selection(page)).array, "heat");
    await page.getByRole("checkbox", { name: /3 errors/ }).check();
    assert.equal(await page.locator(".td-card").count(), 4);
    await finish();
  });

  test("another reverse pass brings other adjoints, and no word of those before", async () => {
    const { page, finish } = await open();
    await select(page, { launch: 12, array: "out", version: 1 });
    await says(page, ".td-of-adjoint .td-figures", "max1(?!\\d)");
    await page.evaluate(async () => {
      await globalThis.kernel(JSON.stringify({ type: "backward", seed: 2 }));
      globalThis.hear({ type: "passes", passes: 2 }, []);
    });
    await says(page, ".td-of-adjoint .td-figures", "max2(?!\\d)");
    await page.evaluate(() => globalThis.kernel(JSON.stringify({ type: "backward", seed: 1 })));
    await finish();
  });

  test("a walk with the keyboard alone", async () => {
    const { page, finish } = await open();
    await page.locator("#outside").focus();
    await page.keyboard.press("j"); // the panel does not listen while others have the focus
    assert.deepEqual(await selection(page), {});
    await page.locator(".td-canvas").focus();
    await page.keyboard.press("j");
    assert.equal((await selection(page)).launch, 14);
    await page.keyboard.press("j");
    assert.equal((await selection(page)).launch, 1);
    await page.keyboard.press("w");
    assert.equal(await chosenTab(page), "Array state.q v0");
    await page.keyboard.press("Shift+W");
    assert.equal(await chosenTab(page), "Launch 1 · integrate");
    await page.keyboard.press("[");
    assert.equal(await chosenTab(page), "Array state.q v0");
    await page.keyboard.press("/");
    await page.keyboard.type("diffuse");
    assert.equal(await page.locator(".td-results mark").first().textContent(), "diffuse");
    await page.keyboard.press("Enter");
    assert.equal(await chosenTab(page), "Launch 12 · diffuse");
    await page.keyboard.press("Escape");
    await page.keyboard.press("ArrowRight");
    assert.equal((await selection(page)).launch, 13);
    await page.keyboard.press("?");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Close");
    for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Close");
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.className), "td-canvas");
    await page.locator(".td-arg").first().focus();
    await page.keyboard.press("Enter");
    const focused = await page.evaluate(() => document.activeElement.dataset.key);
    assert.match(focused, /^arg /, "the focus stays where it was when the inspector is drawn anew");
    await page.locator(".td-checked summary").focus();
    await page.keyboard.press("Enter");
    await says(page, ".td-checked-body", "16 of 16 launches checked end to end");
    await page.keyboard.press("Escape");
    assert.equal(await page.locator(".td-checked-body").isVisible(), false);
    await finish();
  });

  test("playing goes on by itself and stops at a click", async () => {
    const { page, finish } = await open({ reducedMotion: "no-preference" });
    await page.getByLabel("Speed").selectOption("4");
    await page.getByRole("button", { name: "Play" }).click();
    await says(page, ".td-scrub-text", "launch 1$");
    await page.locator(".td-card").first().click();
    await page.waitForSelector(".td-play[aria-pressed=false]");
    assert.equal((await selection(page)).launch, 14);
    await finish();
  });

  for (const dark of [false, true]) {
    for (const width of [1400, 700]) {
      test(`${dark ? "dark" : "light"}, ${width} pixels: nothing is cut off`, async () => {
        const { page, finish } = await open({ dark, width });
        const shots = {
          finding: { finding: 1 },
          values: { launch: 3, array: "state.q", version: 2 },
          grid: { launch: 12, array: "out", version: 1 },
          nan: { launch: 14, array: "root", version: 1 },
        };
        for (const [name, chosen] of Object.entries(shots)) {
          await select(page, chosen);
          if (chosen.array) await says(page, ".td-values h2", `^${chosen.array.replace(".", "\\.")} v`);
          await page.waitForFunction(
            () => document.querySelector(".td-numbers") && !document.querySelector(".td-awaited, .td-why"),
          );
          if (name === "finding") await page.locator(".td-open summary").click();
          else await scrollTo(page, ".td-values");
          assert.deepEqual(await cut(page), []);
          const file = `inspector-${name}-${dark ? "dark" : "light"}-${width}.png`;
          await page.screenshot({ path: join(SCREENSHOTS, file) });
        }
        await page.locator(".td-checked summary").click();
        await page.screenshot({ path: join(SCREENSHOTS, `inspector-checked-${dark ? "dark" : "light"}-${width}.png`) });
        await finish();
      });
    }
  }
});
