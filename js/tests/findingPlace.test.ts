import { describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import { findingPlace } from "../src/views/findingPlace.js";
import { buildFindingMarks, findingLines, findingSigns, hitFindings } from "../src/views/lanes/findings.js";
import type { Geometry } from "../src/views/lanes/geometry.js";
import { LaunchAxis } from "../src/views/lanes/launchAxis.js";
import { buildTracks } from "../src/views/lanes/tracks.js";
import { type Json, makeNet } from "./make.js";

/** The net with these findings, each changed from the one that it has: launch 4 overwrites what launch 1 needs. */
function model(...changes: Json[]): TraceModel {
  const trace = makeNet();
  const [first] = trace.findings as Json[];
  trace.findings = changes.map((change, id) => ({ ...first, ...change, id }));
  return openJson(trace);
}

function placeOf(change: Json): { launch: number | null; array: string | undefined } {
  const net = model(change);
  const { launch, array } = findingPlace(net, net.findings[0] as never);
  return { launch, array: net.array(array)?.label };
}

describe("the place of a finding", () => {
  const nowhere = { location: null, call_site: null, evidence: {}, launches: [] };

  it("is the launch whose kernel has the line, and of several the one that was launched where the finding says", () => {
    expect(placeOf({})).toEqual({ launch: 1, array: "x" });
    const net = model({});
    const site = net.launch(3)?.callSite;
    expect(placeOf({ launches: [1, 3, 5], evidence: {}, call_site: site })).toEqual({ launch: 1, array: "x" });
  });

  it("is who overwrote, where both have the line or neither has", () => {
    const evidence = { reader: { launch: 1 }, clobberer: { launch: 4 } };
    expect(placeOf({ evidence, location: null, call_site: null }).launch).toBe(4);
  });

  it("is the first launch that has the line, or the array, where none is named", () => {
    const line = model({}).findings[0]?.location;
    expect(placeOf({ ...nowhere, location: line, arrays: [] })).toEqual({ launch: 1, array: undefined });
    expect(placeOf({ ...nowhere, arrays: ["loss"] })).toEqual({ launch: 7, array: "loss" });
    expect(placeOf({ ...nowhere, arrays: [] })).toEqual({ launch: null, array: undefined });
  });

  it("shows the first of the arrays that the launch has to do with", () => {
    expect(placeOf({ ...nowhere, launches: [7], arrays: ["throw", "loss"] }).array).toBe("loss");
  });
});

describe("findings in the lanes", () => {
  const geometry = (net: TraceModel, scale = 40): Geometry => ({
    ...{ width: 1000, height: 600, gutter: 100, head: 60, lane: 40 },
    columns: new LaunchAxis(net.launchCount),
    viewport: { left: 0, scale, top: 0 },
  });

  it("are all drawn, whatever rule they are of; those of one place together, worst first", () => {
    const net = model(
      { rule: "unused", severity: "info", launches: [2], arrays: ["v"], location: null, call_site: null, evidence: {} },
      { rule: "disconnected", severity: "warning" },
      {},
      { rule: "seed", launches: [], arrays: [], location: null, call_site: null, evidence: {} },
    );
    const signs = findingSigns(geometry(net), buildTracks(net), buildFindingMarks(net));
    expect(signs.map(({ px, findings }) => [px, findings.map(({ rule }) => rule)])).toEqual([
      [160, ["overwrite", "disconnected"]],
      [105.5, ["seed"]],
      [200, ["unused"]],
    ]);
    const [first] = signs;
    const hit = hitFindings(geometry(net), buildTracks(net), buildFindingMarks(net), 163, (first?.py ?? 0) - 3);
    expect(hit.map(({ rule }) => rule)).toEqual(["overwrite", "disconnected"]);
    expect(findingLines(hit).at(-1)).toBe("a click opens it");
  });

  it("have an arc where what was overwritten hides behind another finding, and no second one where it does not", () => {
    const evidence = { reader: { launch: 1 }, clobberer: { launch: 4 } };
    const arcs = (change: Json): unknown[] => buildFindingMarks(model({ evidence, ...change })).map(({ arc }) => arc);
    expect(arcs({})).toEqual([null]); // the version of x says that it is lost
    expect(arcs({ arrays: ["v"] })).toEqual([[1, 4]]); // of v, no version does
  });
});
