import { describe, expect, it } from "vitest";
import type { Verdict } from "../src/trace/types.js";
import { levelBadge } from "../src/views/level.js";

describe("a badge", () => {
  // the table of tests/trace/test_level.py
  it.each([
    ["AGREE", [0, 0, 0], false, "good", "✓ gradient AGREE"],
    ["AGREE", [0, 0, 3], false, "good", "✓ gradient AGREE"],
    ["AGREE", [0, 1, 0], false, "warning", "! gradient AGREE, 1 warning"],
    ["AGREE", [2, 1, 0], false, "error", "✕ gradient AGREE, 2 errors"],
    ["AGREE", [0, 0, 0], true, "warning", "! gradient AGREE, checked in part"],
    ["WRONG", [1, 1, 0], true, "error", "✕ gradient WRONG"],
    ["KINK", [0, 0, 1], false, "warning", "∧ gradient KINK"],
    ["KINK", [0, 1, 1], false, "warning", "∧ gradient KINK"],
    ["UNDECIDABLE", [1, 0, 0], false, "error", "✕ gradient UNDECIDABLE, 1 error"],
    ["NONDETERMINISTIC", [0, 0, 0], false, "warning", "≈ gradient NONDETERMINISTIC"],
    ["NOT CHECKED", [0, 0, 1], true, "unknown", "– not checked"],
    ["NOT CHECKED", [0, 2, 0], false, "warning", "! not checked, 2 warnings"],
  ] as const)("of %s with %j findings, partial %s, is %s", (verdict, [error, warning, info], partial, level, text) => {
    expect(levelBadge(verdict as Verdict, { error, warning, info }, partial, "not checked")).toEqual({ level, text });
  });
});
