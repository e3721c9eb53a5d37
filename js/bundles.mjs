// What esbuild makes: the anywidget module, the script of the report, their style sheets, and one module for each chunk.
import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const views = join(here, "src", "views");

/** The folders of `src/views` that have a file of this name. */
export function foldersWith(file) {
  return readdirSync(views)
    .filter((name) => existsSync(join(views, name, file)))
    .sort();
}

/** Code that a widget requests from its kernel when it is needed: `chunk.ts` in a folder of `src/views`. */
export const CHUNKS = foldersWith("chunk.ts");

/** Modules that fetch chunks do not contain them: for these, `import("./chunk.js")` imports an empty module. */
const withoutChunks = {
  name: "without-chunks",
  setup(build) {
    build.onResolve({ filter: /\/chunk\.js$/ }, ({ kind, path }) =>
      kind === "dynamic-import" ? { path, namespace: "fetched" } : null,
    );
    build.onLoad({ filter: /.*/, namespace: "fetched" }, () => ({ contents: "export default null" }));
  },
};

const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  target: ["es2022"],
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};

export const widget = {
  ...common,
  entryPoints: { widget: "src/entry/widget.ts" },
  format: "esm",
  plugins: [withoutChunks],
};
const chunks = {
  ...common,
  entryPoints: Object.fromEntries(CHUNKS.map((name) => [name, `src/views/${name}/chunk.ts`])),
  format: "esm",
  plugins: [withoutChunks],
};
const report = { ...common, entryPoints: { report: "src/entry/report.ts" }, format: "iife" };

/** A style sheet with those of the views, which are in their folders. */
function style(name, sheets) {
  const all = [...sheets, ...foldersWith("style.css").map((view) => `src/views/${view}/style.css`)];
  const contents = all.map((path) => `@import "./${path}";`).join("\n");
  return { ...common, stdin: { contents, resolveDir: here, loader: "css" }, outfile: `${name}.css` };
}

export const BUNDLES = [
  widget,
  chunks,
  report,
  style("widget", ["style/panel.css"]),
  style("report", ["style/panel.css", "style/report.css"]),
];
