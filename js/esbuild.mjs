// Bundles the two entries that run outside JupyterLab's own module loader: the anywidget module and the script of the report.
import { mkdir, stat } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const outdir = fileURLToPath(new URL("../tapedebug/static/", import.meta.url));
const watch = process.argv.includes("--watch");

/** Largest size in bytes, minified. A report carries its script, a notebook its widget: both are opened many times. */
const BUDGET = { "widget.js": 150_000, "report.js": 300_000, "widget.css": 40_000, "report.css": 40_000 };

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: !watch,
  target: ["es2022"],
  charset: "ascii",
  legalComments: "none",
  logLevel: "warning",
  outdir,
};
const builds = [
  { ...common, entryPoints: { widget: "src/entry/widget.ts" }, format: "esm" },
  { ...common, entryPoints: { report: "src/entry/report.ts" }, format: "iife" },
  { ...common, entryPoints: { widget: "style/panel.css", report: "style/report.css" } },
];

await mkdir(outdir, { recursive: true });
if (watch) {
  for (const build of builds) await (await esbuild.context(build)).watch();
} else {
  await Promise.all(builds.map((build) => esbuild.build(build)));
  for (const [name, most] of Object.entries(BUDGET)) {
    const { size } = await stat(outdir + name);
    console.log(`${name.padEnd(12)} ${(size / 1000).toFixed(1).padStart(7)} kB of ${most / 1000}`);
    if (size > most) throw new Error(`${name} is ${size} bytes, over its budget of ${most}`);
  }
}
