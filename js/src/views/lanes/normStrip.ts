/** The norms of what each launch wrote and of what its reverse produced, under the lanes and along the same axis. */
import type { TraceModel } from "../../trace/model.js";
import { number, short } from "../format.js";
import { eachVisible, type Visit, x } from "./geometry.js";
import type { Scene } from "./paint.js";

export const STRIP_HEIGHT = 92;
const TOP = 24;
const BOTTOM = STRIP_HEIGHT - 10;

interface Series {
  /** Launches, ascending. */
  readonly launches: Int32Array;
  /** log10 of the norm; -Infinity is a norm of 0, NaN one that is not finite. */
  readonly logs: Float64Array;
  readonly extremes: Extremes;
}

export interface StripSeries {
  /** The array whose norms these are; null: of everything that a launch wrote. */
  readonly array: number | null;
  readonly name: string;
  readonly values: Series;
  readonly adjoints: Series;
  readonly low: number;
  readonly high: number;
}

export function stripSeries(model: TraceModel, array: number | null): StripSeries {
  const { versions } = model.columns;
  const squares = new Squares(model);
  const adjoints = new Squares(model);
  const first = array === null ? 0 : (versions.of[array] ?? 0);
  const end = array === null ? versions.count : (versions.of[array + 1] ?? 0);
  for (let v = first; v < end; v++) {
    squares.add(versions.writtenBy[v] as number, versions.value[v] as number);
    // The adjoint of a version is complete once its first reader has been reversed.
    const read = versions.reads[v] as number;
    if (read < (versions.reads[v + 1] as number)) {
      adjoints.add(versions.readers[read] as number, versions.adjoint[v] as number);
    }
  }
  const one = squares.series();
  const two = adjoints.series();
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const { logs } of [one, two]) {
    for (const log of logs) {
      if (!Number.isFinite(log)) continue;
      if (log < low) low = log;
      if (log > high) high = log;
    }
  }
  const name = model.array(array)?.label ?? "";
  return {
    array,
    name,
    values: one,
    adjoints: two,
    low: low <= high ? low : 0,
    high: low <= high ? high : 0,
  };
}

/** Sums of squares by launch. */
class Squares {
  private readonly sums: Float64Array;
  private readonly seen: Uint8Array;

  constructor(private readonly model: TraceModel) {
    this.sums = new Float64Array(model.launchCount);
    this.seen = new Uint8Array(model.launchCount);
  }

  add(launch: number, summary: number): void {
    if (launch < 0 || summary < 0) return;
    const { nan, inf, norm } = this.model.columns.summaries;
    const bad = (nan[summary] as number) + (inf[summary] as number) > 0;
    this.seen[launch] = 1;
    this.sums[launch] = (this.sums[launch] as number) + (bad ? Number.NaN : (norm[summary] as number) ** 2);
  }

  series(): Series {
    const launches = new Int32Array(this.seen.reduce((count, seen) => count + seen, 0));
    let next = 0;
    this.seen.forEach((seen, launch) => {
      if (seen) launches[next++] = launch;
    });
    const logs = Float64Array.from(launches, (at) => Math.log10(this.sums[at] as number) / 2);
    return { launches, logs, extremes: new Extremes(logs) };
  }
}

interface Range {
  low: number;
  high: number;
  /** Something is not finite. */
  bad: boolean;
}

/** Entries that are read as one block in a crowded cell. */
const BLOCK = 16;

/** Lowest and highest of any stretch, so that a peak shows however far one has zoomed out; a cell of a million costs little. */
export class Extremes {
  private readonly above: Extremes | null;
  private readonly lows: Float64Array;
  private readonly highs: Float64Array;
  private readonly bads: Uint8Array;

  constructor(lows: Float64Array, highs = lows, bads: Uint8Array | null = null) {
    this.bads = bads ?? Uint8Array.from(lows, (log) => Number(Number.isNaN(log) || log === Number.POSITIVE_INFINITY));
    this.lows = bads ? lows : lows.map((log, i) => (this.bads[i] ? Number.POSITIVE_INFINITY : log));
    this.highs = bads ? highs : highs.map((log, i) => (this.bads[i] ? Number.NEGATIVE_INFINITY : log));
    const blocks = Math.floor(lows.length / BLOCK);
    if (blocks === 0) {
      this.above = null;
      return;
    }
    const ranges = Array.from({ length: blocks }, (_, i) => this.scan(i * BLOCK, (i + 1) * BLOCK, nothing()));
    this.above = new Extremes(
      Float64Array.from(ranges, (range) => range.low),
      Float64Array.from(ranges, (range) => range.high),
      Uint8Array.from(ranges, (range) => Number(range.bad)),
    );
  }

  of(first: number, end: number, range: Range = nothing()): Range {
    const from = Math.ceil(first / BLOCK);
    const to = Math.floor(end / BLOCK);
    if (!this.above || from >= to) return this.scan(first, end, range);
    this.scan(first, from * BLOCK, range);
    this.scan(to * BLOCK, end, range);
    return this.above.of(from, to, range);
  }

  private scan(first: number, end: number, range: Range): Range {
    for (let i = first; i < end; i++) {
      const low = this.lows[i] as number;
      const high = this.highs[i] as number;
      if (low < range.low) range.low = low;
      if (high > range.high) range.high = high;
      if (this.bads[i]) range.bad = true;
    }
    return range;
  }
}

function nothing(): Range {
  return { low: Number.POSITIVE_INFINITY, high: Number.NEGATIVE_INFINITY, bad: false };
}

export function paintStrip(canvas: HTMLCanvasElement, scene: Scene, series: StripSeries, ratio: number): void {
  const ctx = canvas.getContext("2d");
  if (!ctx) return;
  const { geometry, palette } = scene;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, geometry.width, STRIP_HEIGHT);
  ctx.fillStyle = palette.border;
  ctx.fillRect(geometry.gutter, BOTTOM + 2, geometry.width, 1);
  ctx.save();
  ctx.beginPath();
  ctx.rect(geometry.gutter - 8, 0, geometry.width, STRIP_HEIGHT);
  ctx.clip();
  paintCursor(ctx, scene);
  paintLine(ctx, scene, series, series.values, false, palette.accent);
  if (geometry.columns.mirrored) paintLine(ctx, scene, series, series.adjoints, true, palette.adj);
  ctx.restore();
  paintStripLabels(ctx, scene, series);
}

function paintCursor(ctx: CanvasRenderingContext2D, { geometry, palette, launch, backward }: Scene): void {
  if (launch === null) return;
  const { columns } = geometry;
  if (backward && !columns.mirrored) return;
  ctx.fillStyle = palette.select;
  const width = Math.max(2, Math.min(geometry.viewport.scale, 40));
  const middle = x(geometry, backward ? columns.backward(launch) : columns.forward(launch));
  ctx.fillRect(middle - width / 2, TOP - 6, width, BOTTOM - TOP + 8);
}

function paintLine(
  ctx: CanvasRenderingContext2D,
  { geometry, palette }: Scene,
  { low, high }: StripSeries,
  { launches, extremes }: Series,
  backward: boolean,
  colour: string,
): void {
  const span = high > low ? Math.max(high - low, 0.5) : 1;
  // where all are alike, they are drawn in the middle
  const base = high > low ? low : low - span / 2;
  const height = (log: number): number => BOTTOM - ((Math.max(log, base) - base) / span) * (BOTTOM - TOP);
  const line = new Path2D();
  const points = new Path2D();
  const bad: number[] = [];
  let open = false;
  const visit: Visit = (first, px, end) => {
    const range = extremes.of(first, end);
    if (range.bad) bad.push(px);
    if (range.low > range.high) {
      open = false; // a gap where nothing is finite
      return;
    }
    const top = height(range.high);
    const bottom = height(range.low);
    if (open) line.lineTo(px, bottom);
    else line.moveTo(px, bottom);
    if (bottom - top > 0.5) line.lineTo(px, top);
    open = true;
    if (geometry.viewport.scale >= 8) points.rect(px - 1.5, top - 1.5, 3, 3);
  };
  eachVisible(geometry, launches, backward, visit, true);
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 1.5;
  ctx.lineJoin = "round";
  ctx.stroke(line);
  ctx.fill(points);
  ctx.fillStyle = palette.red;
  ctx.font = `700 10px ${palette.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "alphabetic";
  for (const px of bad) ctx.fillText("✕", px, TOP - 2);
}

function paintStripLabels(ctx: CanvasRenderingContext2D, { geometry, palette }: Scene, series: StripSeries): void {
  ctx.font = `11px ${palette.font}`;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  ctx.fillStyle = palette["fg-2"];
  const { mirrored } = geometry.columns;
  const of = series.array === null ? "" : ` of ${short(series.name, 32)}`;
  ctx.fillText(`${mirrored ? "‖value‖ and ‖adjoint‖" : "‖value‖"}${of}, log`, 8, 10);
  ctx.textAlign = "right";
  const right = geometry.gutter - 14;
  if (series.high > series.low) {
    ctx.fillText(number(10 ** series.high, 2), right, TOP + 4);
    ctx.fillText(number(10 ** series.low, 2), right, BOTTOM - 2);
  } else if (series.values.logs.length + series.adjoints.logs.length > 0) {
    ctx.fillText(number(10 ** series.high, 2), right, (TOP + BOTTOM) / 2);
  } else ctx.fillText("not recorded", right, (TOP + BOTTOM) / 2);
}
