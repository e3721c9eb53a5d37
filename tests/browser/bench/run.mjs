/**
 * `make bench-ui`: how long the panel takes to open a long tape, and how smoothly its lanes move. Chromium without a screen
 * and without a GPU: every pixel is drawn by the processor. Prints a table with the machine's load; `--json` prints data.
 */
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { startBrowser } from "../harness.mjs";
import { openBench, servePanel } from "./serve.mjs";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    frames: { type: "string", default: "120" },
    launches: { type: "string", multiple: true, default: ["100000", "1000000"] },
    arrays: { type: "string", default: "200" },
  },
});
const FRAMES = Number(options.frames);
const ROUNDED = 10;

function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

const rounded = (value) => Math.round(value * ROUNDED) / ROUNDED;

async function setFold(page, on) {
  await page.getByLabel("fold repetitions").setChecked(on);
}

/** Each view: what is folded, how far it is zoomed in, which pass, and what the bars are coloured by. */
const VIEWS = [
  { name: "folded, fit", fold: true, zoom: 0 },
  { name: "folded, zoomed", fold: true, zoom: 2 },
  { name: "unfolded, fit", fold: false, zoom: 0 },
  { name: "unfolded, culled", fold: false, zoom: 8 },
  { name: "unfolded, backward", fold: false, zoom: 8, backward: true },
  { name: "unfolded, ‖value‖", fold: false, zoom: 8, colour: "value" },
  { name: "unfolded, ‖adjoint‖", fold: false, zoom: 8, backward: true, colour: "adjoint" },
];

async function measure(page, launches) {
  const arrays = Number(options.arrays);
  const { making, usable } = await page.evaluate((o) => window.bench.large(o), { launches, arrays });
  const rows = [];
  for (const { name, fold, zoom, backward = false, colour = "findings" } of VIEWS) {
    await setFold(page, fold);
    await page.getByLabel("Colour bars by").selectOption(colour);
    for (const gesture of ["pan", "zoom", "scroll"]) {
      await page.evaluate(([z, b]) => window.bench.view(z, b), [zoom, backward]);
      const { between, painting } = await page.evaluate(([g, n]) => window.bench.drive(g, n), [gesture, FRAMES]);
      rows.push({
        view: name,
        gesture,
        fps: Math.round(1000 / quantile(between, 0.5)),
        frame: rounded(quantile(between, 0.5)),
        frame95: rounded(quantile(between, 0.95)),
        paint: rounded(quantile(painting, 0.5)),
        paint95: rounded(quantile(painting, 0.95)),
      });
    }
  }
  const memory = await page.evaluate(() => window.bench.memory());
  return { launches, arrays, making: Math.round(making), usable: Math.round(usable), memory, rows };
}

function table({ launches, arrays, usable, memory, rows }) {
  console.log(
    `\n${launches} launches × ${arrays} arrays: usable after ${usable} ms, ${Math.round(memory / 1e6)} MB of script data`,
  );
  console.log("view                  gesture   frames/s   frame ms (95 %)   in our code ms (95 %)");
  for (const row of rows) {
    const cells = [
      row.view.padEnd(21),
      row.gesture.padEnd(9),
      String(row.fps).padStart(8),
      `${row.frame} (${row.frame95})`.padStart(17),
      `${row.paint} (${row.paint95})`.padStart(23),
    ];
    console.log(cells.join(" "));
  }
}

const server = await servePanel();
const load = loadavg().map((value) => rounded(value));
const results = [];
try {
  for (const launches of options.launches.map(Number)) {
    const browser = await startBrowser(["--enable-precise-memory-info"]);
    const { page, finish } = await openBench(browser, server.origin);
    page.setDefaultTimeout(300_000);
    results.push(await measure(page, launches));
    await finish();
    await browser.close();
  }
} finally {
  await server.stop();
}
const data = { load: { before: load, after: loadavg().map((value) => rounded(value)) }, results };
if (options.json) console.log(JSON.stringify(data, null, 2));
else {
  console.log(`load of the machine: ${data.load.before.join(" ")} before, ${data.load.after.join(" ")} after`);
  for (const result of results) table(result);
}
