import { describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import * as format from "../src/views/format.js";
import { sequenceTexts } from "../src/views/lanes/laneHeader.js";
import { adjointOf, lineNotes } from "../src/views/lineNotes.js";
import { allChecks, gridOf, readChecks, toggled } from "../src/views/pairs.js";
import { fate, messageParts, versionLines } from "../src/views/phrases.js";
import { type Json, makeNet } from "./make.js";

function model(data: Json = makeNet()): TraceModel {
  return openJson(data);
}

describe("format", () => {
  it.each([
    [0, "0"],
    [1, "1"],
    [-0.5, "−0.5"],
    [123456, "1.23e5"],
    [0.000012345, "1.23e−5"],
    [412.84, "413"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "Inf"],
    [Number.NEGATIVE_INFINITY, "−Inf"],
    [null, "–"],
  ])("number %s is %s", (value, text) => {
    expect(format.number(value)).toBe(text);
  });

  it("sizes, times, shapes and places", () => {
    expect([12, 3072, 119808, 5e9].map(format.bytes)).toEqual(["12 B", "3.1 kB", "120 kB", "5.0 GB"]);
    // the middle of a logarithmic scale is no whole number
    expect([Math.sqrt(4 * 3072), 999.7].map(format.bytes)).toEqual(["111 B", "1.0 kB"]);
    expect([1.45e-5, 0.0123, 2, null].map(format.seconds)).toEqual(["14.5 µs", "12.3 ms", "2 s", "–"]);
    expect(format.shape({ dtype: "vec3", shape: [16, 16] })).toBe("vec3[16×16]");
    expect(format.dim([])).toBe("–");
    expect(format.place({ file: "C:\\net\\net.py", line: 3, column: 0, function: "f" })).toBe("net.py:3");
    expect(format.listed([1, 2, 3], 2)).toBe("1, 2 and 1 more");
    expect(format.short("a\n  b", 10)).toBe("a b");
    expect(format.short("abcdefghij", 5)).toBe("abcd…");
  });
});

describe("words", () => {
  it("says of a version what happened to it", () => {
    const lost = model();
    expect(fate(lost, lost.version(1, 0) as never)).toBe(
      "the adjoint of launch 1 needs these values; launch 4 (integrate) overwrote them",
    );
    const twice = { ...lost.version(1, 0), neededBy: [1, 2] };
    expect(fate(lost, twice as never)).toContain("the adjoints of launches 1, 2 need these values");
    const kept = model(makeNet({ mode: "preserve" }));
    expect(fate(kept, kept.version(1, 0) as never)).toBe(
      "launch 4 (integrate) overwrote these values; the adjoint of launch 1 needs them and the tape kept a copy",
    );
    expect(versionLines(lost, lost.version(4, 1) as never)).toEqual([
      "force v1",
      "written by launch 1 (spring)",
      "launch 3 (spring) overwrote these values; no adjoint needs them: harmless",
      "‖value‖ 2",
      "‖adjoint‖ 1.1",
    ]);
  });
});

describe("the words over a repeated sequence", () => {
  it("are as many as there is room for, and never cut", () => {
    const texts = sequenceTexts({ count: 40, length: 3 } as never, true);
    expect(texts).toEqual(["▸ ×40 · 3 launches each", "▸ ×40 · 3 each", "▸ ×40", "▸"]);
    expect(sequenceTexts({ count: 2, length: 1 } as never, false)[0]).toBe("▾ ×2 · 1 launch each");
  });
});

describe("line notes", () => {
  const notes = (mode: "ignore" | "preserve", launch: number): [string, string][] => {
    const net = model(makeNet({ mode }));
    const found = net.launch(launch) as never;
    const kernel = net.kernel(found) as never;
    return [...lineNotes(net, found, kernel).values()].flatMap((note) =>
      note.badges.map((b): [string, string] => [b.text, b.weight]),
    );
  };

  it("counts reads of a line and says which are needed", () => {
    expect(notes("ignore", 1)).toEqual([
      ["r x ● ×2", "needed"],
      ["w force", "write"],
    ]);
  });

  it("marks the line that overwrites needed values, calmly where they were kept", () => {
    const rename = (mode: "ignore" | "preserve"): [string, string][] => {
      const data = makeNet({ mode });
      const kernel = (data.kernels as Json[])[2] as Json;
      kernel.params = [
        { name: "x_next", type: "", array: true },
        { name: "x", type: "", array: true },
      ];
      const net = model(data);
      const launch = net.launch(4) as never;
      const all = lineNotes(net, launch, net.kernel(launch) as never);
      expect([...all.values()].some((note) => note.wrong)).toBe(mode === "ignore");
      return [...all.values()].flatMap((note) => note.badges.map((b): [string, string] => [b.text, b.weight]));
    };
    expect(rename("ignore").at(-1)).toEqual(["w ✕ overwrites", "lost"]);
    expect(rename("preserve").at(-1)).toEqual(["w kept", "kept"]);
  });
});

describe("generated adjoint", () => {
  it("reads the line that a generated line names", () => {
    const origins = adjointOf(
      [
        "# adjoint of spring_forces (/home/ada/net.py:47)",
        "        xi_x_1 = x_v[v_2]            # 62: xi = x[i]  # 3: a comment of the user's",
        "    d_x_1 = v_12 - xi_x_1  # 35:",
        "    adj_x = x[29]",
      ].join("\n"),
      null,
    ).lines.map(({ origin }) => origin);
    expect(origins).toEqual([null, 62, 35, null]);
  });

  it("shows the lines of one source line without indent and origin, else everything", () => {
    const text = "def f():\n    a = 1    # 3: x\n      b = 2  # 3: x\n    c = 3    # 4: y";
    const line = (code: string, origin: number | null = null) => ({ text: code, origin });
    expect(adjointOf(text, 3)).toEqual({ lines: [line("a = 1"), line("  b = 2")], whole: false });
    const all = [line("def f():"), line("    a = 1", 3), line("      b = 2", 3), line("    c = 3", 4)];
    expect(adjointOf(text, 9)).toEqual({ lines: all, whole: true });
  });

  it("tells lines of two files apart that have the same number", () => {
    const text = "    a = 1    # 3: x = y\n    b = 2  # 3: return z";
    expect(adjointOf(text, 3, "    return z").lines.map((line) => line.text)).toEqual(["b = 2"]);
    expect(adjointOf(text, 3, "x = y").lines.map((line) => line.text)).toEqual(["a = 1"]);
  });
});

describe("the message of a finding", () => {
  it.each([
    [
      "launch 4 (smooth) overwrites values of buf (at make.py:22): 900 changed, by up to 0.0153. That puts the gradient of u0 off by 47 %. 48 more like it (×49).",
      "launch 4 (smooth) overwrites values of buf (at make.py:22): 900 changed, by up to 0.0153.",
      "That puts the gradient of u0 off by 47 %. 48 more like it (×49).",
    ],
    [
      "The adjoint of launch 1 (root) writes inf to a[2]. Incoming adjoints are finite; in thread 2, wp.sqrt(x[i]) has operand 0. 1 of 4 values of the gradient of x is not finite.",
      "The adjoint of launch 1 (root) writes inf to a[2]. Incoming adjoints are finite; in thread 2, wp.sqrt(x[i]) has operand 0.",
      "1 of 4 values of the gradient of x is not finite.",
    ],
    [
      "Threads 0 and 1 race on x[1]. Another order gives 2.5.",
      "Threads 0 and 1 race on x[1].",
      "Another order gives 2.5.",
    ],
    ["one sentence", "one sentence", ""],
  ])("is cut where it comes to what that does", (message, cause, effect) => {
    expect(messageParts(message)).toEqual({ cause, effect });
  });
});

describe("pairs", () => {
  it("makes a grid of what is known, else of what could be checked", () => {
    const net = model();
    const checks = allChecks(net, []);
    expect(gridOf(net, [null], checks)).toMatchObject({ inputs: ["throw", "x"], outputs: ["loss"] });
    expect(gridOf(net, [3], checks)).toMatchObject({ launches: [3], inputs: ["x_next"], outputs: ["force"] });
    expect(gridOf(net, [999], checks)).toBeNull();
  });

  it("switches pairs without touching others", () => {
    const mask = [[null, "x", "loss"] as const, [4, "x", "force"] as const];
    const off = toggled(mask, [[null, "x", "loss"]], false);
    expect(off).toEqual([[4, "x", "force"]]);
    expect(toggled(off, [[null, "x", "loss"]], true)).toEqual([
      [4, "x", "force"],
      [null, "x", "loss"],
    ]);
  });

  it("leaves out results that make no sense", () => {
    const good = { launch: null, input: "x", output: "loss", verdict: "AGREE", max_rel_error: "inf" };
    const read = readChecks(
      [good, null, 5, "x", { launch: 99, input: "x", output: "y" }, { ...good, verdict: "FINE" }],
      8,
    );
    expect(read.map((c) => [c.verdict, c.maxRelError])).toEqual([
      ["AGREE", Number.POSITIVE_INFINITY],
      ["NOT CHECKED", Number.POSITIVE_INFINITY],
    ]);
  });
});
