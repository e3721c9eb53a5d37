import { describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import { colourScale } from "../src/views/lanes/colourScale.js";
import {
  buildLaunchAxis,
  canFold,
  foldsByDefault,
  sequenceKey,
  toggledScope,
  toggledSequence,
  unfolding,
} from "../src/views/lanes/folds.js";
import {
  clampViewport,
  eachVisible,
  fitScale,
  type Geometry,
  laneAt,
  u,
  versionIndexAt,
  x,
  y,
  zoomAbout,
} from "../src/views/lanes/geometry.js";
import { labelStride } from "../src/views/lanes/laneHeader.js";
import { LaunchAxis } from "../src/views/lanes/launchAxis.js";
import { stripSeries } from "../src/views/lanes/normStrip.js";
import {
  ADJOINT_BAD,
  ADJOINT_DEAD,
  ADJOINT_UNKNOWN,
  buildTracks,
  foldedNames,
  gallop,
  lowerBound,
  type Spans,
  type Track,
  visibleTracks,
} from "../src/views/lanes/tracks.js";
import { INITIAL_VIEW } from "../src/views/state.js";
import { type Json, makeNet } from "./make.js";

function model(data: Json = makeNet()): TraceModel {
  return openJson(data);
}

function track(label: string, net = model()): Track {
  const found = buildTracks(net).find((t) => t.array.label === label);
  if (!found) throw new Error(`no lane ${label}`);
  return found;
}

function geometry(columns: LaunchAxis, scale: number, left = 0, width = 600): Geometry {
  return {
    width: width + 108,
    height: 400,
    gutter: 100,
    head: 40,
    lane: 40,
    columns,
    viewport: { left, scale, top: 0 },
  };
}

describe("Columns", () => {
  it("gives each launch a column and mirrors the backward pass behind a gap", () => {
    const columns = new LaunchAxis(4);
    expect(columns.count).toBe(4);
    expect(columns.total).toBe(9);
    expect([0, 1, 2, 3].map((l) => columns.forward(l))).toEqual([0.5, 1.5, 2.5, 3.5]);
    expect([0, 1, 2, 3].map((l) => columns.backward(l))).toEqual([8.5, 7.5, 6.5, 5.5]);
    expect(columns.forward(-1)).toBe(0);
    expect(columns.backward(-1)).toBe(9);
  });

  it("finds the launch of every place, in both passes", () => {
    const columns = new LaunchAxis(4);
    for (const backward of [false, true]) {
      for (let launch = 0; launch < 4; launch++) {
        const at = columns.at(backward ? columns.backward(launch) : columns.forward(launch));
        expect(at).toEqual({ launch, column: launch, backward });
      }
    }
    expect(columns.at(4.5)).toBeNull();
    expect(columns.at(-0.1)).toBeNull();
    expect(columns.at(9.1)).toBeNull();
  });

  it("folds launches into one column and keeps the order", () => {
    const columns = new LaunchAxis(10, [{ key: "a", first: 3, last: 7, label: "" }]);
    expect(columns.count).toBe(6);
    expect([2, 3, 7, 8, 9].map((l) => columns.of(l))).toEqual([2, 3, 3, 4, 5]);
    expect([2, 3, 4, 5, 6].map((c) => columns.firstLaunch(c))).toEqual([2, 3, 8, 9, 10]);
    expect(columns.foldHiding(5)?.key).toBe("a");
    expect(columns.foldHiding(8)).toBeNull();
  });

  it("keeps the outer of two folds, and none that is not on the tape", () => {
    const folds = [
      { key: "inner", first: 2, last: 3, label: "" },
      { key: "outer", first: 1, last: 5, label: "" },
      { key: "beyond", first: 8, last: 99, label: "" },
      { key: "backwards", first: 7, last: 6, label: "" },
    ];
    expect(new LaunchAxis(10, folds).folds.map((f) => f.key)).toEqual(["outer"]);
  });

  it("has no mirror where the backward pass has not run", () => {
    const columns = new LaunchAxis(4, [], false);
    expect(columns.total).toBe(4);
    expect(columns.at(4.5)).toBeNull();
  });

  it("is empty for an empty tape", () => {
    const columns = new LaunchAxis(0);
    expect([columns.count, columns.total, columns.firstLaunch(3)]).toEqual([0, 1, 0]);
    expect(columns.at(0.5)).toBeNull();
  });
});

describe("folds", () => {
  const net = model(makeNet({ steps: 40 }));

  it("folds long tapes that repeat, and no short ones", () => {
    expect(foldsByDefault(net)).toBe(true);
    expect(foldsByDefault(model())).toBe(false);
  });

  it("shows two repetitions and one column for the others", () => {
    const columns = buildLaunchAxis(net, INITIAL_VIEW);
    expect(columns.count).toBe(1 + 4 + 4 + 1 + 1);
    expect(columns.fold(9)).toMatchObject({ first: 9, last: 80, label: "+18×" });
  });

  it("shows as many rounds as it takes to see what one leaves to the next", () => {
    const shown = (length: number): number => {
      const data = makeNet({ steps: 40 });
      data.sequences = [{ first: 1, length, count: Math.floor(80 / length) }];
      return buildLaunchAxis(model(data), INITIAL_VIEW).folds[0]?.first ?? 0;
    };
    expect([1, 3, 6, 8].map(shown)).toEqual([1 + 6, 1 + 6, 1 + 6, 1 + 8]);
  });

  it("toggles a scope or a sequence, also where folding is off as a whole", () => {
    const [scope] = net.trace.scopes;
    const [sequence] = net.trace.sequences;
    if (!scope || !sequence) throw new Error("the net has scopes and a sequence");
    const once = toggledScope(scope, INITIAL_VIEW);
    expect(once).toEqual({ collapsed: new Set([0]) });
    expect(toggledScope(scope, { ...INITIAL_VIEW, ...once })).toEqual({ collapsed: new Set() });
    expect(toggledSequence(net, sequence, INITIAL_VIEW)).toEqual({ unfolded: new Set([sequenceKey(sequence)]) });
    expect(toggledSequence(net, sequence, { ...INITIAL_VIEW, fold: false })).toEqual({
      unfolded: new Set(),
      fold: true,
    });
  });

  it("unfolds what hides a launch: a sequence or a scope", () => {
    const columns = buildLaunchAxis(net, INITIAL_VIEW);
    const [sequence] = net.trace.sequences;
    expect(unfolding(columns, 3, INITIAL_VIEW)).toBeNull();
    expect(unfolding(columns, 40, INITIAL_VIEW)).toEqual({ unfolded: new Set([sequence && sequenceKey(sequence)]) });
    const view = { ...INITIAL_VIEW, fold: false, collapsed: new Set([2]) };
    expect(unfolding(buildLaunchAxis(net, view), 6, view)).toEqual({ collapsed: new Set() });
  });
});

describe("tracks", () => {
  it("joins the last needed read of a lost version to what overwrote it", () => {
    const pairs = ({ first, last }: Spans): number[][] => [...first].map((reader, i) => [reader, last[i] as number]);
    expect(pairs(track("x").life.lost)).toEqual([[1, 4]]);
    expect(pairs(track("x").life.preserved)).toEqual([]);
    expect(pairs(track("x", model(makeNet({ mode: "preserve" }))).life.preserved)).toEqual([[1, 4]]);
    expect(pairs(track("force").life.lost)).toEqual([]);
  });

  it("gives versions their lives and events in the order of the tape", () => {
    const force = track("force");
    expect([...force.start]).toEqual([-1, 1, 3, 5]);
    expect([...force.life.end]).toEqual([1, 3, 5, 8]);
    expect([...force.life.reads]).toEqual([2, 4, 6]);
    expect([...force.life.neededBefore]).toEqual([0, 0, 0, 0]);
    expect([...track("x").life.neededBefore]).toEqual([0, 1, 1, 2, 2]);
    expect([...force.life.writes]).toEqual([1, 3, 5]);
  });

  it("has adjoints only where one flows, and tells those that are exactly zero or not finite", () => {
    const versionsOf = (label: string, net = model()): number[] => [...track(label, net).life.adjoints.version];
    expect(versionsOf("force")).toEqual([1, 2, 3]);
    expect(versionsOf("loss")).toEqual([1]);
    const data = makeNet();
    const of = (number: number): Json =>
      (data.versions as Json[]).find((v) => v.array === 4 && v.version === number) as Json;
    Object.assign(of(1).adjoint as Json, { norm: 0 });
    Object.assign(of(2).adjoint as Json, { nan: 3 });
    Object.assign(of(2).value as Json, { inf: 1 });
    of(3).adjoint = null;
    const { adjointState, bad } = track("force", model(data)).life;
    expect([...adjointState]).toEqual([ADJOINT_DEAD, ADJOINT_BAD, ADJOINT_UNKNOWN]);
    expect([...bad]).toEqual([3]);
  });

  it("sorts what a hostile trace mixes up", () => {
    const data = makeNet();
    for (const version of data.versions as Json[]) version.reads = [6, 2, 4];
    const { reads, adjoints } = track("force", model(data)).life;
    expect([...reads]).toEqual([2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6]);
    expect([...adjoints.reach]).toEqual([6, 6, 6, 6]);
  });

  it("nests views under their parent, also where hostile data makes a circle of them", () => {
    const data = makeNet();
    const arrays = data.arrays as Json[];
    Object.assign(arrays[4] as Json, { parent: 1 });
    expect(buildTracks(model(data)).map((t) => [t.array.label, t.depth])).toEqual([
      ["throw", 0],
      ["x", 0],
      ["force", 1],
      ["x_next", 0],
      ["v", 0],
      ["loss", 0],
    ]);
    Object.assign(arrays[1] as Json, { parent: 4 });
    expect(buildTracks(model(data))).toHaveLength(6);
  });

  it("never hides an array that a finding names", () => {
    const data = makeNet();
    for (const array of data.arrays as Json[]) array.requires_grad = false;
    const net = model(data);
    const shown = (gradientOnly: boolean, readOnly: boolean): string[] =>
      visibleTracks(buildTracks(net), net, { gradientOnly, readOnly }).map((t) => t.array.label);
    expect(shown(true, false)).toEqual(["x"]);
    expect(shown(true, true)).toEqual(["throw", "x"]);
    expect(shown(false, false)).toEqual(["x", "x_next", "v", "force", "loss"]);
  });

  it("finds the version alive at a launch", () => {
    const force = track("force");
    expect([0, 1, 2, 3, 7].map((l) => versionIndexAt(force, l))).toEqual([0, 1, 1, 2, 3]);
  });
});

describe("lowerBound", () => {
  it("finds the first value that is not below", () => {
    const sorted = [1, 3, 3, 7];
    expect([0, 1, 2, 3, 4, 7, 8].map((v) => lowerBound(sorted, v))).toEqual([0, 0, 1, 1, 3, 3, 4]);
    expect(lowerBound(sorted, 3, 2)).toBe(2);
    expect(lowerBound([], 3)).toBe(0);
  });

  it("gallops to the same place", () => {
    const sorted = Array.from({ length: 100 }, (_, i) => 2 * i);
    for (const from of [0, 1, 7, 50, 99]) {
      for (const value of [0, 1, 30, 101, 197, 198, 199]) {
        if (value >= (sorted[from] as number))
          expect(gallop(sorted, value, from)).toBe(lowerBound(sorted, value, from));
      }
    }
    expect(gallop([], 3, 0)).toBe(0);
  });
});

describe("geometry", () => {
  it("maps there and back", () => {
    const view = geometry(new LaunchAxis(100), 20, 7.5);
    expect(u(view, x(view, 12.25))).toBeCloseTo(12.25, 12);
    expect(laneAt(view, y(view, 3))).toBe(3);
    expect(laneAt(view, 10)).toBe(-1);
  });

  it("zooms about a place that stays where it is", () => {
    const view = geometry(new LaunchAxis(1000), 4, 100);
    const before = x(view, 150);
    zoomAbout(view.viewport, 150, 2, 0.3);
    expect(view.viewport.scale).toBe(8);
    expect(x(view, 150)).toBeCloseTo(before, 9);
  });

  it("stays on the tape", () => {
    const columns = new LaunchAxis(100);
    const viewport = { left: -50, scale: 0.001, top: 9999 };
    clampViewport(viewport, 600, 360, 4, 40, columns);
    expect(viewport).toEqual({ left: 0, scale: fitScale(600, columns), top: 0 });
    Object.assign(viewport, { left: 1e9, scale: 30, top: -5 });
    clampViewport(viewport, 600, 360, 20, 40, columns);
    expect(viewport).toEqual({ left: 201 - 20, scale: 30, top: 0 });
  });

  it("visits what can be seen, in both passes", () => {
    const columns = new LaunchAxis(1000);
    const all = Int32Array.from({ length: 1000 }, (_, i) => i);
    const seen = (left: number, backward: boolean): [number, number] => {
      const hits: number[] = [];
      eachVisible(geometry(columns, 20, left), all, backward, (first) => hits.push(first));
      return [hits[0] as number, hits.at(-1) as number];
    };
    expect(seen(100, false)).toEqual([99, 131]);
    expect(seen(1501, true)).toEqual([469, 501]);
  });

  it("visits every launch of a fold or a pixel in one cell, so that none is lost", () => {
    const folded = new LaunchAxis(1000, [{ key: "f", first: 10, last: 899, label: "" }]);
    const all = Int32Array.from({ length: 1000 }, (_, i) => i);
    const cells: [number, number][] = [];
    eachVisible(geometry(folded, 20), all, false, (first, _, end) => cells.push([first, end]));
    expect(cells[10]).toEqual([10, 900]);
    for (let i = 1; i < cells.length; i++) expect(cells[i]?.[0]).toBe(cells[i - 1]?.[1]);
  });

  it("costs pixels, not launches", () => {
    const n = 1_000_000;
    const columns = new LaunchAxis(n);
    const all = Int32Array.from({ length: n }, (_, i) => i);
    const scale = fitScale(600, columns);
    let count = 0;
    let covered = 0;
    eachVisible(geometry(columns, scale), all, false, (first, _, end) => {
      count++;
      covered += end - first;
    });
    expect(count).toBeLessThan(1300);
    expect(covered).toBe(n);
  });

  it("numbers columns in round steps that do not touch", () => {
    expect([labelStride(40, 2), labelStride(10, 3), labelStride(0.5, 5), labelStride(0.003, 6)]).toEqual([
      1, 5, 100, 20000,
    ]);
  });
});

describe("colour scale", () => {
  it("spreads numbers logarithmically and marks what is not finite", () => {
    const data = makeNet();
    const versions = data.versions as Json[];
    const norms = [1, 10, 100];
    for (const [i, version] of versions.entries())
      version.value = i < 3 ? { ...(version.value as Json), norm: norms[i] } : null;
    (versions[3] as Json).value = { ...((makeNet().versions as Json[])[0]?.value as Json), nan: 2 };
    const net = model(data);
    const scale = colourScale(net, "value");
    expect([scale?.low, scale?.high]).toEqual([1, 100]);
    expect([0, 1, 2, 3, 4].map((i) => scale?.level(net.versionIndex(i, 0)))).toEqual([0, 4, 7, "bad", null]);
    expect([scale?.bad, scale?.zeros]).toEqual([1, 0]);
    expect(colourScale(net, "findings")).toBeNull();
  });
});

describe("strip of norms", () => {
  it("adds what a launch wrote, and keeps what is not finite apart", () => {
    const data = makeNet();
    const versions = (data.versions as Json[]).filter((v) => v.written_by === 2);
    for (const version of versions) version.value = { ...(version.value as Json), norm: 100 };
    const other = (data.versions as Json[]).find((v) => v.written_by === 4);
    if (other) other.value = { ...(other.value as Json), inf: 1 };
    const net = model(data);
    const { values, high } = stripSeries(net, null);
    expect(values.logs[values.launches.indexOf(2)]).toBeCloseTo(2, 12);
    expect(values.logs[values.launches.indexOf(4)]).toBeNaN();
    expect(high).toBeCloseTo(2, 12);
    const force = stripSeries(net, net.arrayId("force"));
    expect([force.name, [...force.values.launches], [...force.adjoints.launches]]).toEqual([
      "force",
      [1, 3, 5],
      [2, 4, 6],
    ]);
  });
});

describe("arrays that a loop makes anew", () => {
  it("are folded to the first two and the last, and the selected one", () => {
    const trace = makeNet({ extra: 100 });
    (trace.arrays as Json[]).slice(6).forEach((array, i) => {
      array.label = i === 0 ? "k" : `k#${i + 1}`;
      array.requires_grad = true;
    });
    const net = model(trace);
    expect([...foldedNames(net.trace.arrays)].map(([name, list]) => [name, list.length])).toEqual([["k", 97]]);
    const labels = (fold: boolean, selected: number | null = null): string[] =>
      visibleTracks(buildTracks(net), net, { gradientOnly: true, readOnly: true, fold }, selected)
        .map(({ array }) => array.label)
        .filter((label) => label.startsWith("k"));
    expect(labels(false)).toHaveLength(100);
    expect(labels(true)).toEqual(["k", "k#2", "k#100"]);
    expect(labels(true, net.arrayId("k#50"))).toEqual(["k", "k#2", "k#50", "k#100"]);
    expect([canFold(net), canFold(model())]).toEqual([true, false]);
  });
});
