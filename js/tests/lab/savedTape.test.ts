import { describe, expect, it } from "vitest";
import { savedPairs } from "../../src/lab/savedPairs.js";
import { bytes, counts, title } from "../../src/lab/sidebarRows.js";

const ROW = {
  tape: 4,
  name: "",
  madeAt: "",
  launches: 1,
  arrays: 1,
  onOverwrite: "preserve",
  backwardRuns: 0,
  preservedBytes: 0,
  recording: false,
  verdict: "NOT CHECKED",
  findings: null,
};

describe("the mask of a saved tape", () => {
  it("is taken from the output's metadata", () => {
    expect(
      savedPairs({
        mask: [
          [null, "throw", "loss"],
          [1, "x", "force"],
        ],
      }),
    ).toEqual([
      [null, "throw", "loss"],
      [1, "x", "force"],
    ]);
  });

  it.each([undefined, null, "mask", {}, { mask: 3 }, { mask: ["abc", [1, 2, 3], [null, "x"], [{}, "x", "y"]] }])(
    "is empty where the file holds %j",
    (metadata) => {
      expect(savedPairs(metadata)).toEqual([]);
    },
  );
});

describe("a row of the side bar", () => {
  it("counts findings by severity, worst first, with a sign and not only a colour", () => {
    expect(counts({ error: 1, warning: 0, info: 2 })).toEqual([
      { kind: "error", text: "✕ 1", title: "1 error" },
      { kind: "info", text: "i 2", title: "2 infos" },
    ]);
    expect(counts({ error: 0, warning: 0, info: 0 })).toEqual([
      { kind: "none", text: "✓ no findings", title: "The tape was diagnosed, and nothing was found" },
    ]);
    expect(counts(null)).toEqual([]);
  });

  it.each([
    ["net", "net · tape 4"],
    ["", "Tape 4"],
    ["tape", "Tape 4"],
    ["tape 4", "Tape 4"],
    ["tapestry", "tapestry · tape 4"],
  ])("a tape in the variable %j is called %s", (name, text) => {
    expect(title({ ...ROW, name })).toBe(text);
  });

  it.each([
    ["", "In [12]", "In [12] · tape 4"],
    ["tape", "In [12]:3", "In [12] · tape 4"],
    ["net", "In [12]:3", "net · tape 4"],
    ["", "net.py:12", "Tape 4"],
  ])("a tape called %j that was made at %s is called %s", (name, madeAt, text) => {
    expect(title({ ...ROW, name, madeAt })).toBe(text);
  });

  it.each([
    [0, "0 B"],
    [999, "999 B"],
    [122_880, "123 kB"],
    [1_500_000, "1.5 MB"],
    [999_600_000_000_000, "1000 TB"],
  ])("shows %d bytes as %s", (count, text) => {
    expect(bytes(count)).toBe(text);
  });
});
