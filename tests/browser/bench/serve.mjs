/** Serves the page of the benchmark and the built bundle, to this machine only; opens it and fails on what goes wrong in it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { ROOT } from "../harness.mjs";

const HTML = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>lanes</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="static/widget.css"><style>body { margin: 0 }</style></head>
<body><div id="host"></div><script type="module" src="page.mjs"></script></body></html>`;
const HERE = join(ROOT, "tests", "browser", "bench");
const STATIC = join(ROOT, "tapedebug", "static");
const { chunks } = JSON.parse(readFileSync(join(STATIC, "manifest.json"), "utf8"));
const FILES = {
  "/page.mjs": [join(HERE, "page.mjs"), "text/javascript"],
  "/pack.mjs": [join(ROOT, "js", "tests", "pack.mjs"), "text/javascript"],
  "/trace.mjs": [join(HERE, "trace.mjs"), "text/javascript"],
  "/static/widget.js": [join(STATIC, "widget.js"), "text/javascript"],
  ...Object.fromEntries(chunks.map((name) => [`/static/${name}.js`, chunk(name)])),
  "/static/widget.css": [join(STATIC, "widget.css"), "text/css"],
};

function chunk(name) {
  return [join(STATIC, `${name}.js`), "text/javascript"];
}

export async function servePanel() {
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const file = FILES[pathname];
    if (pathname === "/") response.setHeader("content-type", "text/html").end(HTML);
    else if (file) response.setHeader("content-type", file[1]).end(await readFile(file[0]));
    else response.writeHead(404).end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${server.address().port}`;
  return { origin, stop: () => new Promise((resolve) => server.close(resolve)) };
}

/** A page with `window.bench`; `finish()` fails on errors and on requests to other sites. */
export async function openBench(browser, origin, { width = 1400, height = 900, colorScheme = "light", ...rest } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...rest });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.stack ?? error}`));
  page.on("crash", () => problems.push("the page crashed"));
  page.on("console", (message) => message.type() === "error" && problems.push(`console error: ${message.text()}`));
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(origin) && !url.startsWith(`blob:${origin}`) && !url.startsWith("data:"))
      problems.push(`request to another site: ${url}`);
  });
  await page.goto(origin);
  await page.waitForFunction(() => globalThis.bench !== undefined);
  return {
    page,
    finish: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}
