// @vitest-environment node
/** What the widget's module is made of: what is not in it cannot be missing where it runs. */
import esbuild from "esbuild";
import { describe, expect, it } from "vitest";
import { CHUNKS, widget } from "../bundles.mjs";

const escaped = (name: string): string => name.replace(/[^\w]/g, "\\$&");

describe("the bundle", async () => {
  const built = await esbuild.build({ ...widget, outdir: "static", write: false, metafile: true });
  const text = built.outputFiles[0]?.text ?? "";

  it("is one module that loads nothing but what the kernel hands it", () => {
    expect(text.length).toBeGreaterThan(10_000);
    expect(Object.values(built.metafile.outputs).flatMap(({ imports }) => imports)).toEqual([]);
    expect(text).not.toMatch(/\bimport\s*["'{*]|\bfrom\s*["']/);
  });

  it("imports one thing later, which the kernel sent: never from an address", () => {
    const imported = [...text.matchAll(/\bimport\s*\(([^)]*)\)/g)].map(([, what]) => what ?? "");
    expect(imported).toHaveLength(1);
    expect(text).toMatch(new RegExp(`\\b${escaped(imported[0] ?? "")}=URL\\.createObjectURL\\(new Blob\\(`));
  });

  it("contains no code of the chunks, except for what requests it", () => {
    const inputs = Object.values(built.metafile.outputs).flatMap(({ inputs }) => Object.entries(inputs));
    const ofChunks = inputs.filter(
      ([path, { bytesInOutput }]) =>
        bytesInOutput > 0 &&
        [...CHUNKS, "values"].some((name) => path.includes(`views/${name}/`)) &&
        !/\/(shell|spec)\.ts$/.test(path),
    );
    expect(ofChunks.map(([path]) => path)).toEqual([]);
  });

  it("has nothing of JupyterLab in it", () => {
    const inputs = Object.keys(built.metafile.inputs);
    expect(inputs.filter((path) => /src\/lab\/|@jupyterlab|@lumino|@jupyter-widgets/.test(path))).toEqual([]);
    for (const word of ["@jupyterlab", "@lumino", "@jupyter-widgets", "window.jupyter", "jupyterapp", "IPython"]) {
      expect(text.includes(word), word).toBe(false);
    }
    expect(text).not.toMatch(/\brequire\s*[(.]|requirejs|\bdefine\.amd/);
  });

  it("runs under a strict content-security policy", () => {
    for (const pattern of [
      /\beval\(/,
      /new Function\b/,
      /\.innerHTML\b/,
      /document\.write/,
      /\bfetch\(/,
      /XMLHttpRequest/,
    ]) {
      expect(text).not.toMatch(pattern);
    }
  });
});
