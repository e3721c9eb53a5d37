/**
 * The report of a tape of 100,000 launches on 200 arrays: under 10 MB, and open within 3 s. What is measured is the time that
 * the page's thread works, which is what a user waits for on a machine that has nothing else to do.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { ROOT, screenshot, startBrowser } from "./harness.mjs";

const WRITE = `
import sys
from tapedebug.report import report
from tests.large_tapes import make_large
report(make_large(100_000, 200), sys.argv[1])
`;

let browser;
let folder;

before(async () => {
  [browser, folder] = await Promise.all([startBrowser(), mkdtemp(join(tmpdir(), "tapedebug-large-"))]);
});
after(async () => {
  await browser?.close();
  await rm(folder, { recursive: true, force: true });
});

test("the report of 100,000 launches is small and opens at once", { timeout: 300_000 }, async (context) => {
  const path = join(folder, "report.html");
  const env = { ...process.env, PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":") };
  await promisify(execFile)(process.env.PYTHON ?? "python", ["-c", WRITE, path], { env, cwd: ROOT });
  const { size } = await stat(path);
  assert.ok(size < 10_000_000, `the report has ${size} bytes`);

  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  await page.goto(pathToFileURL(path).href);
  await page.locator(".td-badge").waitFor();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const { metrics } = await devtools.send("Performance.getMetrics");
  const worked = metrics.find(({ name }) => name === "TaskDuration").value;
  context.diagnostic(`${(size / 1e6).toFixed(1)} MB, ${worked.toFixed(2)} s of work until it can be used`);
  assert.ok(worked < 3, `the page worked ${worked} s`);

  await page.locator(".td-search").fill("step");
  await page.locator(".td-search").fill("advance");
  await page.getByText("100,000 launches").first().waitFor();
  await page.keyboard.press("Enter");
  await page.getByText("Launch 1 · advance").first().waitFor();
  // nothing is waited for in a file that has no kernel: it says so
  await page.locator(".td-why").waitFor();
  assert.equal(await page.locator(".td-awaited").count(), 0);
  await screenshot(page, "large-report");
  assert.deepEqual(problems, []);
});
