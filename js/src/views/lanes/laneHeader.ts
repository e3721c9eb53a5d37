/** The head of the lanes: launch numbers, scopes as bands, repeated sequences as brackets; and the bands down through the lanes. */
import type { TraceModel } from "../../trace/model.js";
import type { Scope, Sequence } from "../../trace/types.js";
import { short } from "../format.js";
import type { ViewState } from "../state.js";
import { type Band, type BandRow, type Bands, eachBand, rowCount, shownRows } from "./bands.js";
import { MergedSpans } from "./batchPainter.js";
import { paintEvents } from "./events.js";
import { isFolded } from "./folds.js";
import { type Geometry, plotWidth, u, x } from "./geometry.js";
import { fitText } from "./gutter.js";
import type { Scene } from "./paint.js";

const AXIS_HEIGHT = 40;
const ROW_HEIGHT = 20;
/** Room for the arcs of the first lane. */
export const HEADROOM = 14;

/** Letters of the name of a scope, with its sign and "…". */
const LEAST_OF_NAME = 9;

export type HeadHit = { readonly kind: "launch" } | Band;

export function headHeight(bands: Bands): number {
  return AXIS_HEIGHT + ROW_HEIGHT * rowCount(bands) + HEADROOM;
}

export function paintBands(ctx: CanvasRenderingContext2D, scene: Scene, rows: readonly BandRow[]): void {
  const { geometry, palette } = scene;
  const bottom = geometry.height - AXIS_HEIGHT;
  const row = rows[0];
  if (row?.bands[0]?.kind === "scope") {
    const runs = new MergedSpans();
    const lines = new MergedSpans();
    eachBand(geometry, row, (_, from, to) => {
      runs.add(from, to);
      if (to - from < 4) return;
      lines.add(Math.round(from), Math.round(from) + 1);
      lines.add(Math.round(to), Math.round(to) + 1);
    });
    runs.fill(ctx, palette["bg-2"], AXIS_HEIGHT, bottom);
    lines.fill(ctx, palette.border, AXIS_HEIGHT, bottom);
  }
  paintFoldColumns(ctx, scene);
  paintSelectedColumns(ctx, scene);
}

/** Draws a fold with dotted edges and a veil of dots, to set it apart from a single launch. */
function paintFoldColumns(ctx: CanvasRenderingContext2D, { geometry, palette, folds }: Scene): void {
  const { columns, viewport } = geometry;
  const width = columns.foldWidth * viewport.scale;
  if (width < 4) return;
  ctx.strokeStyle = palette["fg-2"];
  ctx.lineWidth = 1;
  ctx.setLineDash([1, 4]);
  ctx.beginPath();
  for (const fold of folds) {
    const column = columns.of(fold.first);
    for (const left of columns.mirrored ? [column, columns.total - column - columns.foldWidth] : [column]) {
      for (const edge of [left, left + columns.foldWidth]) {
        const px = Math.round(x(geometry, edge)) + 0.5;
        if (px < geometry.gutter || px > geometry.width) continue;
        ctx.moveTo(px, AXIS_HEIGHT);
        ctx.lineTo(px, geometry.height);
      }
    }
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

function paintSelectedColumns(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, palette } = scene;
  const { columns } = geometry;
  const band = (column: number, colour: string): void => {
    const width = Math.max(2, Math.min(geometry.viewport.scale, 40));
    ctx.fillStyle = colour;
    ctx.fillRect(x(geometry, column) - width / 2, AXIS_HEIGHT - 20, width, geometry.height);
  };
  ctx.fillStyle = palette[scene.focusTone];
  for (const launch of scene.focusLaunches) {
    const width = Math.max(2, Math.min(geometry.viewport.scale - 6, 20));
    ctx.fillRect(x(geometry, columns.forward(launch)) - width / 2, AXIS_HEIGHT - 4, width, 2);
  }
  if (scene.launch === null) return;
  ctx.globalAlpha = scene.backward ? 0.45 : 1;
  band(columns.forward(scene.launch), palette.select);
  ctx.globalAlpha = scene.backward ? 1 : 0.45;
  if (columns.mirrored) band(columns.backward(scene.launch), palette.select);
  ctx.globalAlpha = 1;
}

export function paintHead(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  model: TraceModel,
  rows: readonly BandRow[],
  view: Pick<ViewState, "fold" | "unfolded" | "collapsed">,
): void {
  ctx.textBaseline = "middle";
  paintTitles(ctx, scene);
  paintNumbers(ctx, scene, false);
  if (scene.geometry.columns.mirrored) paintNumbers(ctx, scene, true);
  const events = scene.events.get(null);
  if (events) paintEvents(ctx, scene, events, tapeEventsAt(scene.geometry));
  rows.forEach((row, at) => {
    const middle = AXIS_HEIGHT + ROW_HEIGHT * (at + 0.5);
    eachBand(scene.geometry, row, (band, from, to) => {
      if (band.kind === "sequence") paintSequence(ctx, scene, band.sequence, from, to, middle, view);
      else paintScope(ctx, scene, model, band.scope, from, to, middle, at === 0, view.collapsed);
    });
  });
}

/** The middle of the imaginary lane for events of the tape itself, above the first lane. */
export function tapeEventsAt({ head }: Geometry): number {
  return head - HEADROOM - 9;
}

/** The first row also names the scopes around its own, whose rows may be hidden. */
function paintScope(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  model: TraceModel,
  scope: Scope,
  from: number,
  to: number,
  middle: number,
  outermost: boolean,
  collapsed: ReadonlySet<number>,
): void {
  if (to - from < 16) return;
  const { geometry, palette } = scene;
  ctx.fillStyle = palette["fg-2"];
  ctx.font = `11px ${palette.font}`;
  ctx.textAlign = "left";
  const left = Math.max(from, geometry.gutter - 4);
  const room = Math.min(to, geometry.width) - left - 8;
  const sign = collapsed.has(scope.id) ? "▸" : "▾";
  const names = [short(scope.name, 60)];
  for (let id = outermost ? scope.parent : null; id !== null && names.length < 4; ) {
    const parent: Scope | undefined = model.trace.scopes[id];
    names.unshift(short(parent?.name ?? "", 24));
    id = parent?.parent ?? null;
  }
  const full = `${sign} ${names.join(" › ")}`;
  const text = ctx.measureText(full).width <= room ? full : fitText(ctx, `${sign} ${names.at(-1)}`, room);
  // a few letters of a name say nothing; the tooltip has all of it
  const tooShort = to - from < 40 || (text.endsWith("…") && text.length < LEAST_OF_NAME);
  ctx.fillText(tooShort ? sign : text, left + 5, middle);
}

function paintTitles(ctx: CanvasRenderingContext2D, { geometry, palette }: Scene): void {
  const { columns } = geometry;
  ctx.font = `11px ${palette.font}`;
  ctx.fillStyle = palette["fg-2"];
  ctx.textAlign = "center";
  const title = (text: string, from: number, to: number): void => {
    const left = Math.max(from, geometry.gutter);
    const right = Math.min(to, geometry.width);
    if (right - left > 60) ctx.fillText(text, (left + right) / 2, 11);
  };
  const end = x(geometry, columns.count);
  title(columns.mirrored ? "forward" : "forward · backward has not run", x(geometry, 0), end);
  if (!columns.mirrored) return;
  title("backward", x(geometry, columns.count + 1), x(geometry, columns.total));
  const middle = Math.round(x(geometry, columns.count + 0.5)) + 0.5;
  if (middle < geometry.gutter || middle > geometry.width) return;
  ctx.strokeStyle = palette["fg-2"];
  ctx.lineWidth = 1;
  ctx.setLineDash([3, 3]);
  ctx.beginPath();
  ctx.moveTo(middle, 20);
  ctx.lineTo(middle, geometry.height);
  ctx.stroke();
  ctx.setLineDash([]);
}

/** A round number of columns between two labels. */
export function labelStride(scale: number, widest: number): number {
  const least = (widest * 7 + 10) / scale;
  for (let unit = 1; ; unit *= 10) for (const step of [1, 2, 5]) if (step * unit >= least) return step * unit;
}

function paintNumbers(ctx: CanvasRenderingContext2D, scene: Scene, backward: boolean): void {
  const { geometry, palette } = scene;
  const { columns, viewport } = geometry;
  const stride = labelStride(viewport.scale, String(columns.launches).length);
  const a = u(geometry, geometry.gutter - 10);
  const b = u(geometry, geometry.width + 10);
  const low = Math.max(0, Math.floor(backward ? columns.total - b : a));
  const high = Math.min(columns.count - 1, Math.ceil(backward ? columns.total - a : b));
  ctx.textAlign = "center";
  const draw = (column: number, text: string, colour: string, weight: string): void => {
    ctx.fillStyle = colour;
    ctx.font = `${weight}11px ${palette.font}`;
    const centre = backward ? columns.total - column - 0.5 : column + 0.5;
    ctx.fillText(text, x(geometry, centre), 29);
  };
  const selected = scene.launch === null ? -1 : columns.of(scene.launch);
  const taken = selected < 0 ? [] : [selected];
  const wide = columns.foldWidth * viewport.scale;
  for (const fold of wide >= 10 ? scene.folds : []) {
    const column = columns.of(fold.first);
    if (column + columns.foldWidth < low || column > high) continue;
    const text = wide > 40 ? fold.label : "…";
    if (column !== selected) draw(columns.forward(fold.first) - 0.5, text, palette["fg-2"], "");
    for (let i = 0; i < columns.foldWidth; i++) taken.push(column + i);
  }
  for (let column = Math.ceil(low / stride) * stride; column <= high; column += stride) {
    if (taken.some((at) => Math.abs(column - at) < stride)) continue;
    draw(column, columns.fold(column) ? "…" : String(columns.firstLaunch(column)), palette["fg-2"], "");
  }
  if (selected >= low && selected <= high && scene.launch !== null)
    draw(columns.forward(scene.launch) - 0.5, String(scene.launch), palette.fg, "700 ");
}

function paintSequence(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  sequence: Sequence,
  from: number,
  to: number,
  middle: number,
  view: Pick<ViewState, "fold" | "unfolded">,
): void {
  if (to - from < 10) return;
  const { geometry, palette } = scene;
  ctx.font = `11px ${palette.font}`;
  const left = Math.max(from + 2, geometry.gutter);
  const right = Math.min(to - 2, geometry.width - 4);
  ctx.strokeStyle = palette.border;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  ctx.moveTo(left, middle + 6);
  ctx.lineTo(left, middle);
  ctx.lineTo(right, middle);
  ctx.lineTo(right, middle + 6);
  ctx.stroke();
  if (right - left < 34) return;
  const texts = sequenceTexts(sequence, isFolded(sequence, view));
  const text = texts.find((one) => ctx.measureText(one).width <= right - left - 16) ?? (texts.at(-1) as string);
  const width = ctx.measureText(text).width + 10;
  ctx.fillStyle = palette.bg;
  ctx.fillRect((left + right - width) / 2, middle - 8, width, 16);
  ctx.fillStyle = palette["fg-2"];
  ctx.textAlign = "center";
  ctx.fillText(text, (left + right) / 2, middle);
}

/** In as many words as there is room for: each is shorter than the one before. */
export function sequenceTexts({ count, length }: Sequence, folded: boolean): string[] {
  const sign = folded ? "▸" : "▾";
  const times = `${sign} ×${count}`;
  return [
    `${times} · ${length} ${length === 1 ? "launch" : "launches"} each`,
    `${times} · ${length} each`,
    times,
    sign,
  ];
}

/** Return the element of the header at a place. */
export function hitHead(geometry: Geometry, bands: Bands, px: number, py: number): HeadHit {
  const row = shownRows(geometry, bands)[Math.floor((py - AXIS_HEIGHT) / ROW_HEIGHT)];
  let hit: HeadHit = { kind: "launch" };
  if (row) {
    eachBand(geometry, row, (band, from, to) => {
      if (px >= from && px < Math.max(to, from + 4)) hit = band;
    });
  }
  return hit;
}

export function describeScope(scope: Scope): string {
  return `scope ${short(scope.name)}: launches ${scope.first} to ${scope.last}`;
}

export function inPlot(geometry: Geometry, px: number): boolean {
  return px >= geometry.gutter - 8 && px <= geometry.gutter + plotWidth(geometry) + 8;
}
