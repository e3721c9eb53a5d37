/**
 * Runs the browser tests, several files side by side. Each side has one JupyterLab and one browser for all its files, which are
 * cleared between them. A file that fails is run once more, alone and with a server and a browser of its own, as waits may be
 * too short beside others. The end says what failed only the first time; what fails again fails.
 *
 *     node tests/browser/run.mjs [NAME ...]
 */
import { spawn } from "node:child_process";
import { readdir } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cpuSeconds } from "./cpu.mjs";
import { launchBrowser, launchLab } from "./harness.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Memory that a JupyterLab, its kernels and a browser may take, in bytes. */
const SIDE_BYTES = 1.5e9;
/** More than a machine has processors: tests wait more than half of the time, for kernels and for pages that settle. */
const SIDES = Math.max(1, Math.min(8, 2 * availableParallelism() + 1, Math.floor(totalmem() / SIDE_BYTES)));
const MOST_MS = 600_000;
/** Time for a file to close what it opened, after it was told to end. */
const CLOSING_MS = 5_000;
/** Those that take longest begin first, so that none of them is alone at the end. */
const LONG = [
  "views-notebook7",
  "notebook7",
  "views-lab",
  "accessible",
  "quickstart",
  "lab-kernels",
  "hostile",
  "widget",
  "inspector",
  "sidebar",
  "lab-marks",
  "report",
  "large",
];

/** Runs one file; prints its output when it has ended, and returns whether it passed. `servers`: processes that work for it. */
async function passes(name, environment, servers = []) {
  const begun = Date.now();
  const before = cpuSeconds(servers);
  const child = spawn(process.execPath, ["--test-reporter=tap", join(HERE, `${name}.test.mjs`)], {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (data) => (output += data));
  child.stderr.on("data", (data) => (output += data));
  let late = "";
  const timer = setTimeout(() => {
    late = `, ended after ${MOST_MS / 1000} s`;
    child.kill("SIGTERM");
    setTimeout(() => child.kill("SIGKILL"), CLOSING_MS).unref();
  }, MOST_MS);
  const status = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  const passed = status === 0 && late === "";
  const seconds = ((Date.now() - begun) / 1000).toFixed(0);
  const own = Number(/^# (\S+) CPU s$/m.exec(output)?.[1]);
  const cpu = own + cpuSeconds(servers) - before;
  const used = Number.isNaN(cpu) ? "" : `, ${cpu.toFixed(1)} CPU s`;
  console.log(`${output}==== ${name}: ${passed ? "passed" : `failed${late}`} (${seconds} s${used})`);
  return passed;
}

/** Runs files from a queue with one JupyterLab and one browser until it is empty; returns those that failed. */
async function runSide(queue) {
  const failed = [];
  const [lab, browser] = await Promise.all([launchLab(), launchBrowser()]);
  try {
    const { home, origin, token, logFile } = lab;
    const environment = {
      TAPEDEBUG_LAB: JSON.stringify({ home, origin, token, logFile }),
      TAPEDEBUG_BROWSER: browser.address,
    };
    for (let name = queue.shift(); name !== undefined; name = queue.shift())
      if (!(await passes(name, environment, [lab.pid, browser.pid]))) failed.push(name);
  } finally {
    await Promise.all([lab.stop(), browser.close()]);
  }
  return failed;
}

async function namesOf(given) {
  const known = (await readdir(HERE)).filter((name) => name.endsWith(".test.mjs")).map((name) => name.split(".")[0]);
  const unknown = given.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`There is no ${unknown.join(", ")}; there are ${known.join(", ")}.`);
  return given.length > 0 ? given : [...new Set([...LONG.filter((name) => known.includes(name)), ...known])];
}

// every server has a home of its own; the kernels compiled for all of them are kept for the next run
process.env.TAPEDEBUG_CACHE_DIR ??= join(ROOT, "build", "browser-kernels");
// images of containers set it; without bytecode a JupyterLab takes twice as long to start
delete process.env.PYTHONDONTWRITEBYTECODE;
process.env.TAPEDEBUG_TELL_CPU = "1";

const queue = await namesOf(process.argv.slice(2));
const sides = Array.from({ length: Math.min(SIDES, queue.length) }, () => runSide(queue));
const first = (await Promise.all(sides)).flat();
const again = [];
for (const name of first) if (!(await passes(name, {}))) again.push(name);
const once = first.filter((name) => !again.includes(name));
if (once.length > 0) console.log(`Failed beside others, passed alone: ${once.join(", ")}`);
if (again.length > 0) console.log(`Failed, and failed again alone: ${again.join(", ")}`);
process.exitCode = again.length > 0 ? 1 : 0;
