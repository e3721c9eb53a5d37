/** What a frame of the lanes reads and draws, counted: it must go with the pixels, not with the length of the tape. */
import { describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import { buildBands, shownRows } from "../src/views/lanes/bands.js";
import { colourScale } from "../src/views/lanes/colourScale.js";
import { buildEvents } from "../src/views/lanes/events.js";
import { buildLaunchAxis } from "../src/views/lanes/folds.js";
import { fitScale, type Geometry, visibleFolds } from "../src/views/lanes/geometry.js";
import { paintBands, paintHead } from "../src/views/lanes/laneHeader.js";
import { LaunchAxis } from "../src/views/lanes/launchAxis.js";
import { Extremes, paintStrip, stripSeries } from "../src/views/lanes/normStrip.js";
import { paintTracks, type Scene } from "../src/views/lanes/paint.js";
import { buildTracks } from "../src/views/lanes/tracks.js";
import { INITIAL_VIEW } from "../src/views/state.js";
import { makeNet } from "./make.js";

const WIDTH = 700;
let calls = 0;
let reads = 0;

/** Counts every call of a canvas; does nothing. */
function ctx(): CanvasRenderingContext2D {
  const nothing = (): unknown => {
    calls++;
    return { width: 20 };
  };
  return new Proxy({} as CanvasRenderingContext2D, { get: () => nothing, set: () => true });
}

class CountedPath {
  constructor() {
    // biome-ignore lint/correctness/noConstructorReturn: a class is what the lanes make paths with
    return ctx() as unknown as CountedPath;
  }
}

/** A typed array that counts what is read of it, one by one. */
function counted<A extends Int32Array | Float64Array | Uint8Array>(array: A): A {
  return new Proxy(array, {
    get(target, key) {
      if (typeof key === "string" && key.charCodeAt(0) < 58) reads++;
      const value = Reflect.get(target, key, target) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** Puts counters into everything below an object; what is made later from it is not counted. */
function countIn(holder: object, seen = new Set<unknown>()): void {
  if (seen.has(holder)) return;
  seen.add(holder);
  for (const [key, value] of Object.entries(holder)) {
    if (value instanceof Int32Array || value instanceof Float64Array || value instanceof Uint8Array)
      (holder as Record<string, unknown>)[key] = counted(value);
    else if (typeof value === "object" && value !== null && !(value instanceof Map)) countIn(value, seen);
  }
}

type PaintScheme = { fold: boolean; scale: number; left: number; colour?: "value" | "adjoint" };

/** Calls and reads of one frame. */
function frame(steps: number, { fold, scale, left, colour }: PaintScheme): { calls: number; reads: number } {
  const model = openJson(makeNet({ steps, mode: "preserve" }));
  const columns = fold ? buildLaunchAxis(model, INITIAL_VIEW) : new LaunchAxis(model.launchCount);
  const least = fitScale(WIDTH, columns);
  const viewport = { left: left * columns.total, scale: Math.max(least, scale), top: 0 };
  const geometry: Geometry = { width: WIDTH + 108, height: 400, gutter: 100, head: 60, lane: 40, columns, viewport };
  const tracks = buildTracks(model);
  for (const track of tracks) void track.life; // made once
  const bands = buildBands(model);
  const series = stripSeries(model, null);
  const scene = {
    geometry,
    palette: new Proxy({ ramp: ["#000"], font: "x" }, { get: (o, key) => Reflect.get(o, key) ?? "#000" }),
    tracks,
    scale: colour ? colourScale(model, colour) : null,
    summarised: true,
    lostHatch: "",
    keptHatch: "",
    focus: null,
    focusLaunches: [],
    focusTone: "red",
    events: buildEvents(model),
    folds: visibleFolds(geometry),
    launch: null,
    backward: false,
    array: null,
    version: null,
  } as unknown as Scene;
  for (const part of [...tracks, ...bands.scopes, columns, series]) countIn(part, new Set([model, model.trace]));
  calls = reads = 0;
  const rows = shownRows(geometry, bands);
  paintBands(ctx(), scene, rows);
  paintHead(ctx(), scene, model, rows, INITIAL_VIEW);
  paintTracks(ctx(), scene);
  const canvas = { getContext: ctx } as unknown as HTMLCanvasElement;
  paintStrip(canvas, scene, series, 1);
  return { calls, reads };
}

globalThis.Path2D = CountedPath as unknown as typeof Path2D;

describe("a frame of the lanes", () => {
  const LOOKS: [string, PaintScheme][] = [
    ["all of it, unfolded", { fold: false, scale: 0, left: 0 }],
    ["all of it, coloured", { fold: false, scale: 0, left: 0, colour: "value" }],
    ["zoomed to launches, forward", { fold: false, scale: 20, left: 0.25 }],
    ["zoomed to launches, backward", { fold: false, scale: 20, left: 0.75, colour: "adjoint" }],
    ["just wide enough for single launches", { fold: false, scale: 1.01, left: 0.3 }],
    ["folded", { fold: true, scale: 0, left: 0 }],
  ];

  for (const [name, look] of LOOKS) {
    it(`costs pixels: ${name}`, () => {
      const small = frame(500, look);
      const large = frame(2_000, look);
      expect(small.reads).toBeGreaterThan(20); // it counts
      expect(small.calls).toBeGreaterThan(20);
      // bisection makes a few steps more on a longer tape; four times the launches must not be four times the work
      expect(large.reads).toBeLessThan(1.9 * small.reads + 500);
      expect(large.calls).toBeLessThan(1.3 * small.calls + 100);
    }, 60_000);
  }

  it("finds extremes of a million numbers without looking at them", () => {
    const logs = Float64Array.from({ length: 1_000_000 }, (_, i) => ((i * 7919) % 100_003) / 1000);
    logs[777_777] = Number.NaN;
    logs[555_555] = 999;
    const extremes = new Extremes(logs);
    expect(extremes.of(10, 999_990)).toEqual({ low: 0, high: 999, bad: true });
    expect(extremes.of(600_000, 700_000)).toMatchObject({ bad: false });
    for (const [first, end] of [
      [0, 10],
      [63, 65],
      [100, 5000],
      [4095, 262_145],
    ] as const) {
      const plain = logs.slice(first, end);
      const low = plain.reduce((a, b) => Math.min(a, b));
      expect(extremes.of(first, end)).toEqual({ low, high: plain.reduce((a, b) => Math.max(a, b)), bad: false });
    }
    countIn(extremes);
    reads = 0;
    extremes.of(10, 999_990);
    expect(reads).toBeLessThan(2000);
  }, 60_000);
});
