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
  const squares = new Map<number, number>();
  const adjoints = new Map<number, number>();
  const add = (map: Map<number, number>, at: number, norm: number, bad: number): void => {
    map.set(at, (map.get(at) ?? 0) + (bad > 0 ? Number.NaN : norm * norm));
  };
  for (const version of array === null ? model.trace.versions : model.versions(array)) {
    const { value, adjoint, writtenBy, reads } = version;
    if (value && writtenBy !== null) add(squares, writtenBy, value.norm, value.nan + value.inf);
    // The adjoint of a version is complete once its first reader has been reversed.
    if (adjoint && reads.length > 0)
      add(
        adjoints,
        reads.reduce((a, b) => Math.min(a, b)),
        adjoint.norm,
        adjoint.nan + adjoint.inf,
      );
  }
  const one = toSeries(squares);
  const two = toSeries(adjoints);
  const finite = [...one.logs, ...two.logs].filter((value) => Number.isFinite(value));
  const low = finite.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const high = finite.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const name = model.array(array)?.label ?? "";
  return {
    array,
    name,
    values: one,
    adjoints: two,
    low: finite.length > 0 ? low : 0,
    high: finite.length > 0 ? high : 0,
  };
}

function toSeries(squares: ReadonlyMap<number, number>): Series {
  const launches = Int32Array.from([...squares.keys()].sort((a, b) => a - b));
  return { launches, logs: Float64Array.from(launches, (at) => Math.log10(squares.get(at) ?? 0) / 2) };
}

/** Lowest and highest of a cell, so that a peak shows however far one has zoomed out. */
function rangeOf(logs: Float64Array, first: number, end: number): { low: number; high: number; bad: boolean } {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  let bad = false;
  for (let i = first; i < end; i++) {
    const log = logs[i] as number;
    if (Number.isNaN(log) || log === Number.POSITIVE_INFINITY) bad = true;
    else {
      if (log < low) low = log;
      if (log >= high) high = log;
    }
  }
  return { low, high, bad };
}

export function paintStrip(canvas: HTMLCanvasElement, scene: Scene, series: StripSeries, ratio: number): void {
  const pen = canvas.getContext("2d");
  if (!pen) return;
  const { geometry, palette } = scene;
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = palette.bg;
  pen.fillRect(0, 0, geometry.width, STRIP_HEIGHT);
  pen.fillStyle = palette.border;
  pen.fillRect(geometry.gutter, BOTTOM + 2, geometry.width, 1);
  pen.save();
  pen.beginPath();
  pen.rect(geometry.gutter - 8, 0, geometry.width, STRIP_HEIGHT);
  pen.clip();
  paintCursor(pen, scene);
  paintLine(pen, scene, series, series.values, false, palette.accent);
  if (geometry.columns.mirrored) paintLine(pen, scene, series, series.adjoints, true, palette.adj);
  pen.restore();
  paintStripLabels(pen, scene, series);
}

function paintCursor(pen: CanvasRenderingContext2D, { geometry, palette, launch, backward }: Scene): void {
  if (launch === null) return;
  const { columns } = geometry;
  if (backward && !columns.mirrored) return;
  pen.fillStyle = palette.select;
  const width = Math.max(2, Math.min(geometry.viewport.scale, 40));
  const middle = x(geometry, backward ? columns.backward(launch) : columns.forward(launch));
  pen.fillRect(middle - width / 2, TOP - 6, width, BOTTOM - TOP + 8);
}

function paintLine(
  pen: CanvasRenderingContext2D,
  { geometry, palette }: Scene,
  { low, high }: StripSeries,
  { launches, logs }: Series,
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
    const range = rangeOf(logs, first, end);
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
  eachVisible(geometry, launches, backward, visit, 1);
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 1.5;
  pen.lineJoin = "round";
  pen.stroke(line);
  pen.fill(points);
  pen.fillStyle = palette.red;
  pen.font = `700 10px ${palette.font}`;
  pen.textAlign = "center";
  pen.textBaseline = "alphabetic";
  for (const px of bad) pen.fillText("✕", px, TOP - 2);
}

function paintStripLabels(pen: CanvasRenderingContext2D, { geometry, palette }: Scene, series: StripSeries): void {
  pen.font = `11px ${palette.font}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = palette["fg-2"];
  const { mirrored } = geometry.columns;
  const of = series.array === null ? "" : ` of ${short(series.name, 32)}`;
  pen.fillText(`${mirrored ? "‖value‖ and ‖adjoint‖" : "‖value‖"}${of}, log`, 8, 10);
  pen.textAlign = "right";
  const right = geometry.gutter - 14;
  if (series.high > series.low) {
    pen.fillText(number(10 ** series.high, 2), right, TOP + 4);
    pen.fillText(number(10 ** series.low, 2), right, BOTTOM - 2);
  } else if (series.values.logs.length + series.adjoints.logs.length > 0) {
    pen.fillText(number(10 ** series.high, 2), right, (TOP + BOTTOM) / 2);
  } else pen.fillText("not recorded", right, (TOP + BOTTOM) / 2);
}
