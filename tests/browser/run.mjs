/**
 * Runs the browser tests, three files at a time. A file that fails is run once more, alone: three JupyterLabs and three browsers
 * on two cores may be too slow for what a test waits for. What failed then passes alone is said at the end; what fails alone fails.
 *
 *     node tests/browser/run.mjs [NAME ...]
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { run } from "node:test";
import { tap } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const AT_ONCE = 3;
const MOST_MS = 600_000;
/** Those that take longest begin first, so that none of them is alone at the end. */
const LONG = ["views", "hostile", "inspector", "notebook7", "lab-kernels", "sidebar", "saved", "widget", "kernels"];

/** Runs files, and returns those of them in which something failed. */
function failing(files, concurrency) {
  return new Promise((resolve) => {
    const failed = new Set();
    const stream = run({ files, concurrency, timeout: MOST_MS });
    stream.on("test:fail", ({ file }) => failed.add(file));
    const text = stream.compose(tap);
    text.on("end", () => resolve(files.filter((file) => failed.has(file))));
    text.pipe(process.stdout, { end: false });
  });
}

async function filesOf(names) {
  const known = (await readdir(HERE)).filter((name) => name.endsWith(".test.mjs")).map((name) => name.split(".")[0]);
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`There is no ${unknown.join(", ")}; there are ${known.join(", ")}.`);
  const wanted = names.length > 0 ? names : [...new Set([...LONG.filter((name) => known.includes(name)), ...known])];
  return wanted.map((name) => join(HERE, `${name}.test.mjs`));
}

// every server has a home of its own; the kernels compiled for all of them are kept for the next run
process.env.TAPEDEBUG_CACHE_DIR ??= join(ROOT, "build", "browser-kernels");
// images of containers set it; without bytecode a JupyterLab takes twice as long to start
delete process.env.PYTHONDONTWRITEBYTECODE;

const first = await failing(await filesOf(process.argv.slice(2)), AT_ONCE);
const again = first.length > 0 ? await failing(first, 1) : [];
const nameOf = (file) => file.slice(HERE.length).split(".")[0];
const once = first.filter((file) => !again.includes(file));
if (once.length > 0) console.log(`Failed beside others, passed alone: ${once.map(nameOf).join(", ")}`);
if (again.length > 0) console.log(`Failed, and failed again alone: ${again.map(nameOf).join(", ")}`);
process.exitCode = again.length > 0 ? 1 : 0;
