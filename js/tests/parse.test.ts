import { describe, expect, it } from "vitest";
import { parseTrace } from "../src/trace/json.js";
import { MAX_TEXT, TraceError } from "../src/trace/reader.js";
import wrong from "./fixtures/net.trace.json";
import kept from "./fixtures/net-40-preserve.trace.json";
import recordedWrong from "./fixtures/recorded-ignore.trace.json";
import recordedKept from "./fixtures/recorded-preserve.trace.json";
import { type Json, makeNet } from "./make.js";

function list(data: Json, key: string): Json[] {
  return data[key] as Json[];
}

describe("parseTrace", () => {
  it.each([
    ["net", wrong],
    ["net-40-preserve", kept],
    ["recorded-ignore", recordedWrong],
    ["recorded-preserve", recordedKept],
  ])("reads %s, as Python writes it, without complaint", (_, data) => {
    const { trace, problems } = parseTrace(data);
    expect(problems).toEqual([]);
    expect(trace.launches).toHaveLength(data.launches.length);
    expect(trace.versions).toHaveLength(data.versions.length);
    expect(trace.findings[0]?.message).toBe(data.findings[0]?.message);
  });

  it("reads non-finite numbers from their names", () => {
    const data = makeNet();
    const value = list(data, "versions")[0]?.value as Json;
    Object.assign(value, { min: "-inf", max: "inf", mean: "nan" });
    const { trace, problems } = parseTrace(data);
    const read = trace.versions[0]?.value;
    expect([read?.min, read?.max, read?.mean]).toEqual([
      Number.NEGATIVE_INFINITY,
      Number.POSITIVE_INFINITY,
      Number.NaN,
    ]);
    expect(problems).toEqual([]);
  });

  it("reads what happened around the tape", () => {
    const data = makeNet();
    const site = { file: "fit.py", line: 40, column: 4, function: "fit" };
    const read = { kind: "read", clock: 9, at: 4, of: "gradient", array: 0, how: "optimiser", call_site: site };
    data.events = [
      { ...read, numbers: { norm: "inf" } },
      { kind: "sing", clock: 10, array: 999, numbers: { norm: "x" } },
    ];
    data.events_dropped = 3;
    const { trace, problems } = parseTrace(data);
    expect(trace.events[0]).toEqual({
      kind: "read",
      clock: 9,
      at: 4,
      of: "gradient",
      array: 0,
      how: "optimiser",
      callSite: site,
      tape: 0,
      again: false,
      settled: false,
      numbers: { norm: Number.POSITIVE_INFINITY },
    });
    expect(trace.eventsDropped).toBe(3);
    expect(trace.events[1]?.array).toBeNull();
    expect(problems.map((problem) => problem.split(",")[0])).toEqual([
      'trace.events[1].kind is "sing"',
      "trace.events[1].array is 999",
      'trace.events[1].numbers.norm is "x"',
    ]);
  });

  it.each([
    [null, "This is not a tapedebug trace: it is null, not an object."],
    [[1, 2], "This is not a tapedebug trace: it is a list of 2, not an object."],
    ["hello", 'This is not a tapedebug trace: it is "hello", not an object.'],
    [{}, 'This is not a tapedebug trace: its format is undefined, not "tapedebug-trace".'],
    [
      { format: "tapedebug-trace", schema: 99 },
      "This trace has schema 99; this panel reads schema 1. Use the tapedebug that wrote it.",
    ],
    [
      { format: "tapedebug-trace", schema: 1, launches: "many" },
      'This trace cannot be shown: launches is "many", expected a list.',
    ],
  ])("refuses %j", (data, message) => {
    expect(() => parseTrace(data)).toThrow(new TraceError(message));
  });

  it("says which fields made no sense, and shows the rest", () => {
    const data = makeNet();
    Object.assign(list(data, "launches")[1] as Json, { dim: ["wide", Number.NaN, -3, 256], scope: 77, seconds: {} });
    Object.assign(list(data, "arrays")[2] as Json, { label: 5, shape: { 0: 3 }, parent: 2 });
    list(data, "versions").push({ array: 1000, version: 0 });
    (data.findings as unknown[]).push("not a finding");
    const { trace, problems } = parseTrace(data);
    expect(problems).toEqual([
      "trace.arrays[2].parent is 2, expected another array",
      "trace.arrays[2].label is 5, expected text",
      "trace.arrays[2].shape is an object, expected a list",
      'trace.findings[1] is "not a finding", expected an object',
      'trace.launches[1].dim is "wide", expected whole numbers from 0',
      "trace.launches[1].dim is NaN, expected whole numbers from 0",
      "trace.launches[1].dim is -3, expected whole numbers from 0",
      "trace.launches[1].scope is 77, expected null or an index from 0 to 2",
      "trace.launches[1].seconds is an object, expected a number",
      "trace.versions[14].array is 1000, expected null or an index from 0 to 5",
    ]);
    expect(trace.launches[1]?.dim).toEqual([256]);
    expect(trace.launches[1]?.scope).toBeNull();
    expect(trace.arrays[2]?.label).toBe("array 2");
    expect(trace.findings).toHaveLength(1);
  });

  it("cuts scopes that contain themselves", () => {
    const data = makeNet();
    const scopes = list(data, "scopes");
    Object.assign(scopes[0] as Json, { parent: 1 });
    Object.assign(scopes[1] as Json, { parent: 0 });
    Object.assign(scopes[2] as Json, { parent: 2 });
    const { trace, problems } = parseTrace(data);
    for (const scope of trace.scopes) {
      let steps = 0;
      for (let at = scope.parent; at !== null && steps < 10; at = trace.scopes[at]?.parent ?? null) steps++;
      expect(steps).toBeLessThan(10);
    }
    expect(problems).toContain("trace.scopes[2].parent is 2, expected a scope that is not inside this one");
  });

  it("cuts huge strings", () => {
    const data = makeNet();
    Object.assign(list(data, "arrays")[0] as Json, { label: "x".repeat(10_000_000) });
    const { trace } = parseTrace(data);
    expect(trace.arrays[0]?.label).toBe(`${"x".repeat(MAX_TEXT)}… (9990000 more characters not shown)`);
  });

  it("keeps a bounded list of problems", () => {
    const data = makeNet({ steps: 100 });
    for (const launch of list(data, "launches")) launch.seconds = "soon";
    const { problems } = parseTrace(data);
    expect(problems).toHaveLength(51);
    expect(problems.at(-1)).toBe("… and 152 more");
  });

  it("refuses repetitions that reach beyond the tape", () => {
    const data = makeNet();
    data.sequences = [{ first: 1, length: 3, count: 9 }];
    const { trace, problems } = parseTrace(data);
    expect(trace.sequences).toEqual([]);
    expect(problems).toEqual(['trace.sequences[0] is "1 + 3 × 9", expected a repetition within 8 launches']);
  });
});
