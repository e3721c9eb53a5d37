// Bundles the two entries that run outside JupyterLab's own module loader: the anywidget module and the script of the report.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";
import { nest } from "./nest.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const outdir = fileURLToPath(new URL("../tapedebug/static/", import.meta.url));
const watch = process.argv.includes("--watch");

const CHUNKS = ["details", "graph", "jacobian"];

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: !watch,
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  outdir,
  write: watch,
};
const builds = [
  { ...common, entryPoints: { widget: "src/entry/widget.ts" }, format: "esm" },
  { ...common, entryPoints: chunks(CHUNKS), format: "esm" },
  { ...common, entryPoints: { report: "src/entry/report.ts" }, format: "iife" },
  { ...common, entryPoints: { widget: "style/panel.css", report: "style/report.css" } },
];

// first of all: of a build that fails nothing is left, also of the one before it
await rm(outdir, { recursive: true, force: true });
await mkdir(outdir, { recursive: true });
if (watch) {
  for (const build of builds) await (await esbuild.context(build)).watch();
} else {
  const results = await Promise.all(builds.map((build) => esbuild.build(build)));
  const files = new Map(
    results.flatMap(({ outputFiles }) => outputFiles.map((file) => [basename(file.path), file.text])),
  );
  // a report is mailed and kept: a ninth of its style is one selector, said again and again
  files.set("report.css", nest(files.get("report.css"), ".tapedebug"));
  for (const [name, text] of files) await writeFile(outdir + name, text);
  // a file over its budget (budgets.json) is a failing test, tests/test_bundles.py: whoever builds gets a panel all the same
  for (const [name, text] of files) console.log(`${name.padEnd(12)} ${kilobytes(Buffer.byteLength(text))}`);
}

function chunks(names) {
  return Object.fromEntries(names.map((name) => [name, `src/views/${name}/chunk.ts`]));
}

function kilobytes(size) {
  return `${(size / 1000).toFixed(1).padStart(7)} kB`;
}
