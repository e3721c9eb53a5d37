/** Reports for tests: one Python process writes all files of a test file, and one browser opens them as their readers would. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { ROOT, SCREENSHOTS, startBrowser } from "./harness.mjs";

const WRITE = `
import importlib, json, sys
from tapedebug.report import _page, diff, report
folder, jobs = sys.argv[1], json.load(open(sys.argv[1] + "/jobs.json", encoding="utf-8"))
sys.path.insert(0, folder)
plain = _page.MOST_PLAIN
for name, job in jobs.items():
    _page.MOST_PLAIN = job.get("plain", plain)
    path = f"{folder}/{name}.html"
    if "program" in job:
        report(importlib.import_module(job["program"]).found, path)
        continue
    traces = [json.load(open(source, encoding="utf-8")) for source in job["traces"]]
    if job.get("diff"):
        diff(*traces, path)
    else:
        report(traces, path)
`;

export function fixturePath(name) {
  return join(ROOT, "js", "tests", "fixtures", `${name}.trace.json`);
}

export async function fixture(name) {
  return JSON.parse(await readFile(fixturePath(name), "utf8"));
}

/**
 * A browser, and the addresses of the files that `jobs` name. A job has `traces` (names of fixtures, or data), and may have
 * `diff` and `plain`, the characters beyond which data is packed; or `program`, Python whose `found` is reported.
 */
export async function startReports(jobs) {
  const folder = await mkdtemp(join(tmpdir(), "tapedebug-report-"));
  await mkdir(SCREENSHOTS, { recursive: true });
  const [browser] = await Promise.all([startBrowser(), writeAll(folder, jobs)]);
  return {
    browser,
    folder,
    url: (name) => pathToFileURL(join(folder, `${name}.html`)).href,
    text: (name) => readFile(join(folder, `${name}.html`), "utf8"),
    open: (name, options) => openReport(browser, pathToFileURL(join(folder, `${name}.html`)).href, options),
    stop: async () => {
      await browser.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function writeAll(folder, jobs) {
  const written = {};
  for (const [name, job] of Object.entries(jobs)) {
    const traces = [];
    for (const [i, trace] of (job.traces ?? []).entries()) {
      traces.push(typeof trace === "string" ? fixturePath(trace) : join(folder, `${name}-${i}.json`));
      if (typeof trace !== "string") await writeFile(traces[i], JSON.stringify(trace));
    }
    if (job.program) await writeFile(join(folder, `${name}.py`), job.program);
    written[name] = { ...job, traces, ...(job.program ? { program: name } : {}) };
  }
  await writeFile(join(folder, "jobs.json"), JSON.stringify(written));
  const env = { ...process.env, PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":") };
  await promisify(execFile)(process.env.PYTHON ?? "python", ["-c", WRITE, folder], { env });
}

/** A page that notes every error, dialog and request; `finish()` fails on them. */
export async function watchedPage(browser, { width = 1400, height = 860, colorScheme = "light", ...options } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.stack ?? error}`));
  page.on("console", (message) => message.type() === "error" && problems.push(`console error: ${message.text()}`));
  page.on("dialog", (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("request", (request) => /^(https?|wss?):/.test(request.url()) && problems.push(`request: ${request.url()}`));
  const finish = async () => {
    await context.close();
    assert.deepEqual(problems, []);
  };
  return { page, problems, finish };
}

async function openReport(browser, url, options = {}) {
  const { page, problems, finish } = await watchedPage(browser, options);
  page.on("request", (request) => request.url() !== url && problems.push(`request: ${request.url()}`));
  await page.goto(url);
  if (options.javaScriptEnabled !== false) {
    // a canvas is 300 × 150 until it has been laid out and painted
    await page.waitForFunction(() => ![300, undefined].includes(document.querySelector(".td-canvas")?.width));
  }
  return { page, finish };
}
