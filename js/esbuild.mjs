// Bundles what runs outside JupyterLab's own module loader (see `bundles.mjs`) into `tapedebug/static`.
import { mkdir, rm, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import esbuild from "esbuild";
import { BUNDLES, CHUNKS } from "./bundles.mjs";
import { nest } from "./nest.mjs";

const outdir = fileURLToPath(new URL("../tapedebug/static/", import.meta.url));
const watch = process.argv.includes("--watch");
const into = ({ outfile, ...bundle }) => (outfile ? { ...bundle, outfile: outdir + outfile } : { ...bundle, outdir });

// first, so that a failing build leaves nothing behind, not even the result of the one before it
await rm(outdir, { recursive: true, force: true });
await mkdir(outdir, { recursive: true });
if (watch) {
  for (const bundle of BUNDLES) await (await esbuild.context({ ...into(bundle), minify: false })).watch();
  await writeManifest([]);
} else {
  const results = await Promise.all(BUNDLES.map((bundle) => esbuild.build({ ...into(bundle), write: false })));
  const files = new Map(
    results.flatMap(({ outputFiles }) => outputFiles.map((file) => [basename(file.path), file.text])),
  );
  // reports are mailed and archived, and one selector, repeated, is a ninth of their style sheet
  files.set("report.css", nest(files.get("report.css"), ".tapedebug"));
  for (const [name, text] of files) await writeFile(outdir + name, text);
  await writeManifest([...files.keys()]);
  // a file over its budget (budgets.json) fails tests/test_bundles.py, not the build
  for (const [name, text] of files) console.log(`${name.padEnd(12)} ${kilobytes(Buffer.byteLength(text))}`);
}

/** Lists the chunks and all files. Written last: where it exists, the build was complete. */
async function writeManifest(files) {
  await writeFile(`${outdir}manifest.json`, `${JSON.stringify({ chunks: CHUNKS, files: files.sort() })}\n`);
}

function kilobytes(size) {
  return `${(size / 1000).toFixed(1).padStart(7)} kB`;
}
