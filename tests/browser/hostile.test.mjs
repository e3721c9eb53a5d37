/**
 * Traces that somebody made to do harm, in a report and in the widget: text stays text, what cannot be shown is said, and
 * the page answers afterwards. They are put into the page behind Python's back, which would refuse most of them.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { packTrace } from "../../js/tests/pack.mjs";
import { ROOT } from "./harness.mjs";
import { fixture, startReports, watchedPage } from "./reports.mjs";

const WIDGET = join(ROOT, "tapedebug", "static", "widget.js");

const FULL = process.env.TAPEDEBUG_SWEEPS === "full";
/** Sizes that do harm, and take the time of the tests: ordinary runs have a part of them. */
const MEGABYTES = FULL ? 10 : 3;
const FINDINGS = FULL ? 1_000_000 : 200_000;

const EVIL = "</script><img src=x onerror=alert(1)><iframe src=javascript:alert(2)>\u202Egnp.exe";

let reports;
let parts;
let net;
let widget;

before(async () => {
  net = await fixture("net");
  widget = await readFile(WIDGET, "utf8");
  reports = await startReports({ sound: { traces: ["net"] } });
  const page = await reports.text("sound");
  const start = page.indexOf(">", page.indexOf('id="tapedebug-trace"')) + 1;
  parts = [page.slice(0, start), page.slice(page.indexOf("</script>", start))];
});

after(() => reports?.stop());

/** A sound trace with a few things changed, packed; its head as text. */
function changed(change) {
  const trace = structuredClone(net);
  change(trace);
  const { head, columns } = packTrace(trace);
  return { head: JSON.stringify(head), columns };
}

const bytesOf = (view) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);

/** As reports and notebooks have it: all columns as one text, in the order of their names. */
function sealed({ head, columns }) {
  const whole = Buffer.concat(
    Object.keys(columns)
      .sort()
      .map((name) => bytesOf(columns[name])),
  );
  return `{"head":${head},"columns":"${gzipSync(whole).toString("base64")}"}`;
}

const safe = (text) => text.replaceAll("<", "\\u003c");

async function watched(work) {
  const { page, finish } = await watchedPage(reports.browser, { width: 1200, height: 800 });
  await work(page);
  assert.equal(await page.evaluate(() => 6 * 7), 42, "the page still answers");
  assert.equal(await page.locator("main img, main iframe, #widget img, #widget iframe").count(), 0);
  await finish();
}

const SHOWN = ".td-badge, .td-failure, main:not(:has(*))";

async function inReport(text, check) {
  await watched(async (page) => {
    const path = join(reports.folder, "hostile.html");
    await writeFile(path, `${parts[0]}{"traces":[${safe(text)}],"notes":[]}${parts[1]}`);
    await page.goto(pathToFileURL(path).href);
    await page.locator(SHOWN).first().waitFor();
    await check(page);
  });
}

/** The module that notebooks load, on a model that is a plain object. */
async function inWidget({ head, columns }, check) {
  const packed = Object.fromEntries(
    Object.entries(columns).map(([name, view]) => [name, bytesOf(view).toString("base64")]),
  );
  await watched(async (page) => {
    await page.setContent('<div id="widget" style="height: 700px"></div>');
    await page.evaluate(
      async ([source, text, data]) => {
        const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
        const { default: module } = await import(url);
        const bytes = (base64) => new DataView(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer);
        const columns = Object.fromEntries(Object.entries(data).map(([name, base64]) => [name, bytes(base64)]));
        const traits = { head: JSON.parse(text), columns, mask: [], checks: [], selection: {}, status: "" };
        const model = { get: (key) => traits[key], set() {}, save_changes() {}, on() {}, off() {}, send() {} };
        await module.render({ model, el: document.getElementById("widget") });
      },
      [widget, head, packed],
    );
    await page.locator(SHOWN).first().waitFor();
    await check(page);
  });
}

const text = (selector) => async (page) => page.locator(selector).first().textContent();
const BADGE = async (page) => assert.equal(await text(".td-badge")(page), "✕ gradient WRONG");

const TRACES = {
  "names with markup, marks that turn text around, and names of prototypes": [
    () =>
      changed((trace) => {
        trace.name = EVIL;
        const names = [EVIL, "__proto__", "constructor", "toString", "hasOwnProperty", "\u202Egnp"];
        for (const [i, array] of trace.arrays.entries()) array.label = names[i % names.length];
        const called = { name: EVIL, file: EVIL, line: 1, lines: [EVIL] };
        const code = { name: EVIL, lines: [EVIL], adjoint: EVIL, functions: [called] };
        for (const kernel of trace.kernels) Object.assign(kernel, code);
        for (const launch of trace.launches) launch.name = EVIL;
        for (const scope of trace.scopes) scope.name = EVIL;
        for (const finding of trace.findings) Object.assign(finding, { message: EVIL, rule: EVIL, arrays: names });
        trace.environment = JSON.parse('{"__proto__": "x", "constructor": "y"}');
      }),
    async (page) => {
      await BADGE(page);
      const name = await text(".td-name")(page);
      assert.ok(name.startsWith("</script><img src=x"), name);
      assert.ok(!(await page.content()).includes("\u202E"), "nothing turns the text around");
    },
  ],
  [`texts of ${MEGABYTES} MB`]: [
    () =>
      changed((trace) => {
        const long = "x".repeat(MEGABYTES * 1_000_000);
        trace.name = long;
        trace.arrays[0].label = long;
        trace.findings[0].message = `${long}\n`;
        trace.kernels[1].lines[2] = long;
      }),
    async (page) => {
      await BADGE(page);
      assert.ok((await text(".td-name")(page)).length < 500);
    },
  ],
  "shapes and numbers that are none": [
    () =>
      changed((trace) => {
        trace.arrays[0].shape = [-1, 1e308, null, "NaN"];
        trace.arrays[1].shape = new Array(5_000).fill(1e15);
        Object.assign(trace.arrays[2], { start: 1e300, stop: -5, buffer: -1 });
        trace.launches[0].dim = [null, -3, Number.MAX_VALUE];
        trace.launches[1].args[0].array = 1e9;
        trace.launches[2].args[0].read_version = -7;
        for (const version of trace.versions.slice(0, 5)) Object.assign(version, { written_by: 99, reads: [-1, 1e9] });
        trace.versions[6].value = { count: "nan", min: "nan", max: "inf", histogram: { low: "nan", counts: [-1] } };
        trace.findings[0].launches = [-1, 4, 1e9, "x"];
        trace.findings[0].evidence = { reader: 1e9, clobberer: -1 };
        trace.backward.order = [1e9, -1, "x"];
      }),
    async (page) => {
      await BADGE(page);
      assert.match(await text(".td-problems summary")(page), /fields that are invalid/);
    },
  ],
  "scopes and views in a circle": [
    () =>
      changed((trace) => {
        trace.scopes = trace.scopes.map((scope, i) => ({ ...scope, parent: (i + 1) % trace.scopes.length }));
        trace.arrays = trace.arrays.map((array, i) => ({ ...array, parent: (i + 1) % trace.arrays.length }));
      }),
    BADGE,
  ],
  [`${FINDINGS.toLocaleString("en")} findings`]: [
    () => {
      const trace = changed((it) => {
        it.findings = ["HERE"];
      });
      const many = '{"rule":"r","severity":"info","launches":[1]},'.repeat(FINDINGS - 1);
      return { ...trace, head: trace.head.replace('"HERE"', `${many}{"rule":"last","severity":"error"}`) };
    },
    async (page) => {
      await BADGE(page);
      assert.ok((await page.locator(".td-card").count()) <= 300);
      assert.match(await text(".td-card")(page), /last/);
    },
  ],
  "evidence that is nested without end": [
    () => {
      const trace = changed((it) => {
        it.findings[0].evidence = { deep: "HERE" };
      });
      return { ...trace, head: trace.head.replace('"HERE"', `${"[".repeat(4_000)}${"]".repeat(4_000)}`) };
    },
    BADGE,
  ],
  "a trace of another kind": [
    () => ({ head: JSON.stringify({ format: EVIL, schema: EVIL, launches: 3 }), columns: {} }),
    async (page) => assert.match(await text(".td-failure")(page), /not a tapedebug trace/),
  ],
  "columns that end early": [
    () => {
      const { head, columns } = changed(() => {});
      return { head, columns: { ...columns, "args.array": new DataView(new ArrayBuffer(8)) } };
    },
    async (page) => assert.match(await text(".td-failure")(page), /This trace is damaged: /),
  ],
  "lists that are none": [
    () => ({ head: JSON.stringify({ format: "tapedebug-columns", schema: 1, columns: 3, arrays: null }), columns: {} }),
    async (page) =>
      assert.match(await text(".td-failure")(page), /cannot be shown: column launches\.kind is undefined/),
  ],
};

describe("hostile traces", () => {
  for (const [name, [make, check]] of Object.entries(TRACES)) {
    test(`${name}, in a report`, () => inReport(sealed(make()), check));
    test(`${name}, in the widget`, () => inWidget(make(), check));
  }

  test("nested so deep that it is no JSON, in a report", () =>
    inReport("[".repeat(3_000_000), async (page) => {
      assert.match(await page.textContent("main"), /The data of this report is damaged/);
    }));
});
