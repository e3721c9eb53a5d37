import { describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import { highlight } from "../src/views/highlightPython.js";
import { lineNotes } from "../src/views/lineNotes.js";
import { type Json, makeNet } from "./make.js";

describe("Python in colours", () => {
  const inks = (line: string): string[] =>
    (highlight([line])[0] ?? []).filter(({ ink }) => ink !== "plain").map(({ ink, text }) => `${ink} ${text}`);

  it.each([
    ["@wp.kernel", ["decorator @wp.kernel"]],
    ["def step(x: wp.array(dtype=float)):  # all", ["keyword def", "name step", "comment # all"]],
    [
      "    x[i] = 0x1F + 2.5e-3 * y1 if not z else 7",
      [...["number 0x1F", "number 2.5e-3", "keyword if", "keyword not", "keyword else", "number 7"]],
    ],
    ['print(\'a # b\', r"c\\"d")', ["text 'a # b'", 'text r"c\\"d"']],
    ["x = 'never closed", ["text 'never closed"]],
    ["defer = iffy + in_x", []],
  ])("%s", (line, wanted) => {
    expect(inks(line)).toEqual(wanted);
  });

  it("goes on over lines in three quotes, and loses nothing", () => {
    const lines = ['    """One', "    if two", '    three""" + x', "", "λ = '''a''' @ b"];
    const pieces = highlight(lines);
    expect(pieces.map((line) => line.map(({ text }) => text).join(""))).toEqual(lines);
    expect(pieces.map((line) => line.map(({ ink }) => ink))).toEqual([
      ["plain", "text"],
      ["text"],
      ["text", "plain"],
      [],
      ["plain", "text", "plain"],
    ]);
  });

  it("is quick on lines that are made to be slow", () => {
    const before = performance.now();
    highlight([`${"'\\".repeat(5000)}`, "@".repeat(10000), `"""${'"'.repeat(9999)}`]);
    expect(performance.now() - before).toBeLessThan(500);
  });
});

describe("notes beside lines", () => {
  const notes = (change: (versions: Json[]) => void, launch = 3) => {
    const trace = makeNet();
    change(trace.versions as Json[]);
    const model = openJson(trace);
    const found = model.launch(launch);
    const kernel = model.kernel(found);
    if (!found || !kernel) throw new Error("no such launch");
    return lineNotes(model, found, kernel).get(kernel.line + 3);
  };
  const version = (versions: Json[], array: number, number: number): Json =>
    versions.find((v) => v.array === array && v.version === number) as Json;
  const nan = { count: 3, nan: 1, inf: 0, min: 0, max: 1, mean: 0, norm: 1, histogram: null };
  const sound = { ...nan, nan: 0 };
  const texts = (note: ReturnType<typeof notes>): string[] => (note?.badges ?? []).map(({ text }) => text);

  it("stand in the function that a kernel calls, where it is the function that reads", () => {
    const trace = makeNet();
    for (const kernel of trace.kernels as Json[]) {
      const [first, second, third] = kernel.accesses as Json[];
      const there = { file: "/home/ada/helpers.py", function: "square", line: kernel.line as number };
      kernel.accesses = [{ ...first, ...there }, second, third];
      kernel.functions = [{ name: "square", file: there.file, line: there.line, lines: ["def square(x, i):"] }];
    }
    const model = openJson(trace);
    expect(model.problems).toEqual([]);
    const launch = model.launch(3);
    const kernel = model.kernel(launch);
    if (!launch || !kernel) throw new Error("no such launch");
    const own = lineNotes(model, launch, kernel);
    expect([...own.keys()]).toEqual([kernel.line + 3]);
    expect(own.get(kernel.line + 3)?.accesses).toBe(2);
    const [square] = kernel.functions;
    const inside = lineNotes(model, launch, kernel, square);
    expect([...inside.keys()]).toEqual([kernel.line]);
    expect(texts(inside.get(kernel.line))).toEqual(["r x ●"]);
  });

  it("say how hot a line is", () => {
    expect(notes(() => {})).toMatchObject({ accesses: 3, heat: 4 });
  });

  // launch 3 reads version 1 of x_next (2) and writes version 2 of force (4)
  it("name the line where values turn non-finite, and only there", () => {
    const make = (input: Json) => (versions: Json[]) => {
      version(versions, 2, 1).value = input;
      version(versions, 4, 2).value = nan;
    };
    expect(texts(notes(make(sound)))).toContain("✕ NaN");
    expect(notes(make(sound))?.wrong).toBe(true);
    expect(texts(notes(make(nan)))).not.toContain("✕ NaN"); // it came in
    expect(texts(notes(() => {}))).not.toContain("✕ NaN");
  });

  it("name the line where an adjoint turns non-finite, where no other reader can have done it", () => {
    const make =
      (reads: number[], output: Json = sound) =>
      (versions: Json[]) => {
        Object.assign(version(versions, 2, 1), { adjoint: { ...nan, nan: 0, inf: 2 }, reads });
        version(versions, 4, 2).adjoint = output;
      };
    expect(texts(notes(make([3])))).toContain("✕ adj Inf");
    expect(texts(notes(make([3, 4])))).not.toContain("✕ adj Inf");
    expect(texts(notes(make([3], nan)))).not.toContain("✕ adj Inf");
  });
});
