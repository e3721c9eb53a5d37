/**
 * Runs the browser tests, three files at a time. A file that fails is run once more, alone: three JupyterLabs and three browsers
 * on two cores may be too slow for what a test waits for. What failed then passes alone is said at the end; what fails alone fails.
 *
 *     node tests/browser/run.mjs [NAME ...]
 */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "node:test";
import { tap } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const AT_ONCE = 3;
const MOST_MS = 400_000;
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

// every server has a home of its own; what its kernels compile is the same for all, and takes as long as what is tested
const compiled = await mkdtemp(join(tmpdir(), "tapedebug-browser-"));
process.env.TAPEDEBUG_CACHE_DIR ??= compiled;

const first = await failing(await filesOf(process.argv.slice(2)), AT_ONCE);
const again = first.length > 0 ? await failing(first, 1) : [];
await rm(compiled, { recursive: true, force: true });
const nameOf = (file) => file.slice(HERE.length).split(".")[0];
const once = first.filter((file) => !again.includes(file));
if (once.length > 0) console.log(`Failed beside others, passed alone: ${once.map(nameOf).join(", ")}`);
if (again.length > 0) console.log(`Failed, and failed again alone: ${again.map(nameOf).join(", ")}`);
process.exitCode = again.length > 0 ? 1 : 0;
