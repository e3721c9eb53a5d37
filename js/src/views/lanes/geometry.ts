/** The geometry of the canvas, in CSS pixels. The lanes and the strip of norms below them share the horizontal part. */
import type { Fold, LaunchAxis } from "./launchAxis.js";
import { gallop, lowerBound, type Spans, type Track } from "./tracks.js";

const MIN_LANE = 30;
const MAX_LANE = 56;
export const BAR = 14;
const EDGE = 8;
const MAX_SCALE = 160;

/** The window on the x axis: `left` is the column at the left edge, `scale` the width of a column. */
export interface Viewport {
  left: number;
  scale: number;
  /** Pixels that the lanes are scrolled down. */
  top: number;
}

export interface Geometry {
  readonly width: number;
  readonly height: number;
  /** Width of the labels at the left. */
  readonly gutter: number;
  /** Height of the axis and of the scopes above the lanes. */
  readonly head: number;
  readonly lane: number;
  readonly columns: LaunchAxis;
  readonly viewport: Viewport;
}

export function plotWidth(geometry: Pick<Geometry, "width" | "gutter">): number {
  return Math.max(1, geometry.width - geometry.gutter - EDGE);
}

export function x(geometry: Geometry, u: number): number {
  return geometry.gutter + (u - geometry.viewport.left) * geometry.viewport.scale;
}

export function u(geometry: Geometry, px: number): number {
  return geometry.viewport.left + (px - geometry.gutter) / geometry.viewport.scale;
}

/** Middle of a lane. */
export function y(geometry: Geometry, lane: number): number {
  return geometry.head + (lane + 0.5) * geometry.lane - geometry.viewport.top;
}

export function laneAt(geometry: Geometry, py: number): number {
  return py < geometry.head ? -1 : Math.floor((py - geometry.head + geometry.viewport.top) / geometry.lane);
}

/** A lane is as high as fits, within limits; below the lower one the lanes scroll. */
export function laneHeight(room: number, lanes: number): number {
  return Math.max(MIN_LANE, Math.min(MAX_LANE, Math.floor(room / Math.max(1, lanes))));
}

export function fitScale(width: number, columns: LaunchAxis): number {
  return Math.min(MAX_SCALE, width / Math.max(1, columns.total));
}

/** Keeps the window on the tape: never wider than what there is to see, never beside it. */
export function clampViewport(
  viewport: Viewport,
  width: number,
  room: number,
  lanes: number,
  lane: number,
  columns: LaunchAxis,
): void {
  const least = fitScale(width, columns);
  viewport.scale = Math.max(least, Math.min(Math.max(MAX_SCALE, least), viewport.scale));
  const most = Math.max(0, columns.total - width / viewport.scale);
  viewport.left = Math.max(0, Math.min(most, viewport.left));
  viewport.top = Math.max(0, Math.min(Math.max(0, lanes * lane - room), viewport.top));
}

/** Zooms about a place that stays where it is. */
export function zoomAbout(viewport: Viewport, column: number, factor: number, least: number): void {
  const scale = Math.max(least, Math.min(Math.max(MAX_SCALE, least), viewport.scale * factor));
  viewport.left = column - ((column - viewport.left) * viewport.scale) / scale;
  viewport.scale = scale;
}

/** Entries `first` to `end` (exclusive) share one cell: a column, a fold, or where columns are thin, a pixel. */
export type Visit = (first: number, px: number, end: number) => void;

/** The columns that can be seen, of the forward pass or of the backward one, and the first launch of them. */
interface Seen {
  readonly high: number;
  readonly launch: number;
  /** Columns of a cell. */
  readonly step: number;
  readonly dense: boolean;
}

function seen({ width, gutter, columns, viewport }: Geometry, backward: boolean): Seen {
  const from = viewport.left - 1;
  const to = viewport.left + plotWidth({ width, gutter }) / viewport.scale + 1;
  const low = backward ? columns.total - to : from;
  return {
    high: backward ? columns.total - from : to,
    launch: columns.firstLaunch(Math.max(0, Math.floor(low))),
    step: Math.max(1, Math.floor(1 / viewport.scale)),
    dense: viewport.scale < 1,
  };
}

/**
 * Calls `visit` for the cells that hold entries of ascending launches and can be seen, about one a pixel at most: what would
 * be painted over is skipped by bisection, so that a frame costs pixels, not launches. Backward passes mirror the launches.
 * With `beyond` the next entry on either side is visited too: a line goes on to what cannot be seen.
 */
export function eachVisible(
  geometry: Geometry,
  launches: ArrayLike<number>,
  backward: boolean,
  visit: Visit,
  beyond = false,
): void {
  const { columns } = geometry;
  const { high, launch: from, step, dense } = seen(geometry, backward);
  let i = lowerBound(launches, from);
  if (beyond && i > 0) i--;
  for (let out = false; i < launches.length && !out; ) {
    const launch = launches[i] as number;
    const column = columns.of(launch);
    out = column > high;
    if (out && !beyond) return;
    const cell = dense || columns.fold(column) !== null;
    const end = cell ? Math.max(i + 1, gallop(launches, columns.nextLaunch(column, step), i)) : i + 1;
    visit(i, x(geometry, backward ? columns.backward(launch) : columns.forward(launch)), end);
    i = end;
  }
}

/** As `eachVisible`, also for what begins to the left of what can be seen and reaches into it. */
export function eachSpan(geometry: Geometry, spans: Spans, backward: boolean, visit: Visit): void {
  const { columns } = geometry;
  const { high, launch: from, step, dense } = seen(geometry, backward);
  let i = lowerBound(spans.reach, from);
  while (i < spans.first.length) {
    const launch = spans.first[i] as number;
    const column = columns.of(launch);
    if (column > high) return;
    if ((spans.last[i] as number) < from) {
      i++;
      continue;
    }
    const cell = dense || columns.fold(column) !== null;
    const end = cell ? Math.max(i + 1, gallop(spans.first, columns.nextLaunch(column, step), i)) : i + 1;
    visit(i, x(geometry, backward ? columns.backward(launch) : columns.forward(launch)), end);
    i = end;
  }
}

/** The folds that can be seen, of either pass. */
export function visibleFolds(geometry: Geometry): readonly Fold[] {
  const { columns } = geometry;
  const passes = columns.mirrored ? [false, true] : [false];
  const found = new Set<Fold>();
  for (const backward of passes) {
    const { launch, high } = seen(geometry, backward);
    if (high < 0) continue;
    for (const fold of columns.foldsWithin(launch, columns.firstLaunch(Math.ceil(high) + 1))) found.add(fold);
  }
  return [...found];
}

/** Index of the version that is alive at a launch; -1 if none is. */
export function versionIndexAt(track: Track, launch: number): number {
  const i = lowerBound(track.start, launch + 1) - 1;
  return i >= 0 && launch <= (track.life.end[i] as number) ? i : -1;
}
