/** The head of the lanes: launch numbers, scopes as bands, repeated sequences as brackets; and the bands down through the lanes. */
import type { TraceModel } from "../../trace/model.js";
import type { Scope, Sequence } from "../../trace/types.js";
import { short } from "../format.js";
import type { ViewState } from "../state.js";
import { isFolded, scopeKey } from "./folds.js";
import { type Geometry, plotWidth, u, x } from "./geometry.js";
import { fitText, type Scene } from "./paint.js";
import { lowerBound } from "./tracks.js";

export const AXIS_HEIGHT = 40;
export const ROW_HEIGHT = 20;
/** Room for the arcs of the first lane. */
export const HEADROOM = 14;
/** Scopes nested deeper than this have no row of their own; the tooltip still names them. */
export const MAX_SCOPE_ROWS = 2;

export interface ScopeRow {
  readonly scopes: readonly Scope[];
  readonly firsts: Int32Array;
}

export type HeadHit =
  | { readonly kind: "launch" }
  | { readonly kind: "scope"; readonly scope: Scope }
  | { readonly kind: "sequence"; readonly sequence: Sequence };

export function scopeRows(model: TraceModel): readonly ScopeRow[] {
  const rows: ScopeRow[] = [];
  for (let depth = 0; depth < MAX_SCOPE_ROWS; depth++) {
    const scopes = model.trace.scopes.filter((s) => model.scopeDepth[s.id] === depth).sort((a, b) => a.first - b.first);
    if (scopes.length > 0) rows.push({ scopes, firsts: Int32Array.from(scopes, (s) => s.first) });
  }
  return rows;
}

export function headHeight(model: TraceModel, rows: readonly ScopeRow[]): number {
  return AXIS_HEIGHT + ROW_HEIGHT * (rows.length + (model.trace.sequences.length > 0 ? 1 : 0)) + HEADROOM;
}

function edges(geometry: Geometry, first: number, last: number): [number, number] {
  return [x(geometry, geometry.columns.of(first)), x(geometry, geometry.columns.of(last) + 1)];
}

/** Visits the scopes of a row that can be seen, at most one for every few pixels. */
function eachScope(geometry: Geometry, row: ScopeRow, visit: (scope: Scope, from: number, to: number) => void): void {
  const { columns, viewport } = geometry;
  const first = columns.firstLaunch(Math.max(0, Math.floor(viewport.left)));
  let i = Math.max(0, lowerBound(row.firsts, first) - 1);
  while (i < row.scopes.length) {
    const scope = row.scopes[i] as Scope;
    const [from, to] = edges(geometry, scope.first, scope.last);
    if (from > geometry.width) return;
    const fold = columns.foldHiding(scope.first);
    const hidden = fold !== null && fold.key !== scopeKey(scope) && scope.last <= fold.last;
    if (!hidden && to > geometry.gutter) visit(scope, from, to);
    const next = columns.firstLaunch(Math.max(columns.of(scope.first) + 1, Math.floor(u(geometry, from + 4))));
    i = to - from < 4 || hidden ? Math.max(i + 1, lowerBound(row.firsts, next)) : i + 1;
  }
}

export function paintBands(pen: CanvasRenderingContext2D, scene: Scene, rows: readonly ScopeRow[]): void {
  const { geometry, palette } = scene;
  const bottom = geometry.height - AXIS_HEIGHT;
  const row = rows[0];
  if (row) {
    const path = new Path2D();
    const lines = new Path2D();
    eachScope(geometry, row, (_, from, to) => {
      path.rect(from, AXIS_HEIGHT, to - from, bottom);
      if (to - from < 4) return;
      lines.rect(Math.round(from), AXIS_HEIGHT, 1, bottom);
      lines.rect(Math.round(to), AXIS_HEIGHT, 1, bottom);
    });
    pen.fillStyle = palette["bg-2"];
    pen.fill(path);
    pen.fillStyle = palette.border;
    pen.fill(lines);
  }
  paintFoldColumns(pen, scene);
  paintSelectedColumns(pen, scene);
}

/** A folded column is set apart by dotted edges: what is in it is more than one launch. */
function paintFoldColumns(pen: CanvasRenderingContext2D, { geometry, palette }: Scene): void {
  const { columns, viewport } = geometry;
  if (viewport.scale < 6) return;
  pen.strokeStyle = palette["fg-2"];
  pen.lineWidth = 1;
  pen.setLineDash([1, 4]);
  pen.beginPath();
  for (const fold of columns.folds) {
    const column = columns.of(fold.first);
    for (const left of columns.mirrored ? [column, columns.total - column - 1] : [column]) {
      for (const edge of [left, left + 1]) {
        const px = Math.round(x(geometry, edge)) + 0.5;
        if (px < geometry.gutter || px > geometry.width) continue;
        pen.moveTo(px, AXIS_HEIGHT);
        pen.lineTo(px, geometry.height);
      }
    }
  }
  pen.stroke();
  pen.setLineDash([]);
}

function paintSelectedColumns(pen: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, palette } = scene;
  const { columns } = geometry;
  const band = (column: number, colour: string): void => {
    const width = Math.max(2, Math.min(geometry.viewport.scale, 40));
    pen.fillStyle = colour;
    pen.fillRect(x(geometry, column) - width / 2, AXIS_HEIGHT - 20, width, geometry.height);
  };
  pen.fillStyle = palette[scene.focusTone];
  for (const launch of scene.focusLaunches) {
    const width = Math.max(2, Math.min(geometry.viewport.scale - 6, 20));
    pen.fillRect(x(geometry, columns.forward(launch)) - width / 2, AXIS_HEIGHT - 4, width, 2);
  }
  if (scene.launch === null) return;
  pen.globalAlpha = scene.backward ? 0.45 : 1;
  band(columns.forward(scene.launch), palette.select);
  pen.globalAlpha = scene.backward ? 1 : 0.45;
  if (columns.mirrored) band(columns.backward(scene.launch), palette.select);
  pen.globalAlpha = 1;
}

export function paintHead(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  model: TraceModel,
  rows: readonly ScopeRow[],
  view: Pick<ViewState, "fold" | "unfolded" | "collapsed">,
): void {
  const { geometry, palette } = scene;
  pen.textBaseline = "middle";
  paintTitles(pen, scene);
  paintNumbers(pen, scene, false);
  if (geometry.columns.mirrored) paintNumbers(pen, scene, true);
  rows.forEach((row, depth) => {
    const middle = AXIS_HEIGHT + ROW_HEIGHT * (depth + 0.5);
    eachScope(geometry, row, (scope, from, to) => {
      if (to - from < 16) return;
      pen.fillStyle = palette["fg-2"];
      pen.font = `11px ${palette.font}`;
      pen.textAlign = "left";
      const left = Math.max(from, geometry.gutter - 4);
      const sign = view.collapsed.has(scope.id) ? "▸" : "▾";
      pen.fillText(to - from < 40 ? sign : fitText(pen, `${sign} ${scope.name}`, to - left - 8), left + 5, middle);
    });
  });
  paintSequences(pen, scene, model, rows.length, view);
}

function paintTitles(pen: CanvasRenderingContext2D, { geometry, palette }: Scene): void {
  const { columns } = geometry;
  pen.font = `11px ${palette.font}`;
  pen.fillStyle = palette["fg-2"];
  pen.textAlign = "center";
  const title = (text: string, from: number, to: number): void => {
    const left = Math.max(from, geometry.gutter);
    const right = Math.min(to, geometry.width);
    if (right - left > 60) pen.fillText(text, (left + right) / 2, 11);
  };
  const end = x(geometry, columns.count);
  title(columns.mirrored ? "forward" : "forward · backward has not run", x(geometry, 0), end);
  if (!columns.mirrored) return;
  title("backward", x(geometry, columns.count + 1), x(geometry, columns.total));
  const middle = Math.round(x(geometry, columns.count + 0.5)) + 0.5;
  if (middle < geometry.gutter || middle > geometry.width) return;
  pen.strokeStyle = palette["fg-2"];
  pen.lineWidth = 1;
  pen.setLineDash([3, 3]);
  pen.beginPath();
  pen.moveTo(middle, 20);
  pen.lineTo(middle, geometry.height);
  pen.stroke();
  pen.setLineDash([]);
}

/** A round number of columns between two labels. */
export function labelStride(scale: number, widest: number): number {
  const least = (widest * 7 + 10) / scale;
  for (let unit = 1; ; unit *= 10) for (const step of [1, 2, 5]) if (step * unit >= least) return step * unit;
}

function paintNumbers(pen: CanvasRenderingContext2D, scene: Scene, backward: boolean): void {
  const { geometry, palette } = scene;
  const { columns, viewport } = geometry;
  const stride = labelStride(viewport.scale, String(columns.launches).length);
  const a = u(geometry, geometry.gutter - 10);
  const b = u(geometry, geometry.width + 10);
  const low = Math.max(0, Math.floor(backward ? columns.total - b : a));
  const high = Math.min(columns.count - 1, Math.ceil(backward ? columns.total - a : b));
  pen.textAlign = "center";
  const draw = (column: number, text: string, colour: string, weight: string): void => {
    pen.fillStyle = colour;
    pen.font = `${weight}11px ${palette.font}`;
    const centre = backward ? columns.total - column - 0.5 : column + 0.5;
    pen.fillText(text, x(geometry, centre), 29);
  };
  const selected = scene.launch === null ? -1 : columns.of(scene.launch);
  const folded = columns.folds.map((fold) => columns.of(fold.first)).filter((at) => at >= low && at <= high);
  const taken = selected < 0 ? [] : [selected];
  for (const column of viewport.scale >= 10 ? folded : []) {
    const label = columns.fold(column)?.label ?? "";
    if (column !== selected) draw(column, viewport.scale > 40 ? label : "…", palette["fg-2"], "");
    taken.push(column);
  }
  for (let column = Math.ceil(low / stride) * stride; column <= high; column += stride) {
    if (taken.some((at) => Math.abs(column - at) < stride)) continue;
    draw(column, columns.fold(column) ? "…" : String(columns.firstLaunch(column)), palette["fg-2"], "");
  }
  if (selected >= low && selected <= high && scene.launch !== null)
    draw(selected, String(scene.launch), palette.fg, "700 ");
}

function paintSequences(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  model: TraceModel,
  above: number,
  view: Pick<ViewState, "fold" | "unfolded">,
): void {
  const { geometry, palette } = scene;
  const middle = AXIS_HEIGHT + ROW_HEIGHT * (above + 0.5);
  pen.font = `11px ${palette.font}`;
  for (const sequence of model.trace.sequences) {
    const [from, to] = edges(geometry, sequence.first, sequence.first + sequence.length * sequence.count - 1);
    if (to < geometry.gutter || from > geometry.width || to - from < 10) continue;
    const left = Math.max(from + 2, geometry.gutter);
    const right = Math.min(to - 2, geometry.width - 4);
    pen.strokeStyle = palette.border;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(left, middle + 6);
    pen.lineTo(left, middle);
    pen.lineTo(right, middle);
    pen.lineTo(right, middle + 6);
    pen.stroke();
    const text = fitText(pen, sequenceText(sequence, isFolded(sequence, view)), right - left - 16);
    const width = pen.measureText(text).width + 10;
    if (right - left < 34) continue;
    pen.fillStyle = palette.bg;
    pen.fillRect((left + right - width) / 2, middle - 8, width, 16);
    pen.fillStyle = palette["fg-2"];
    pen.textAlign = "center";
    pen.fillText(text, (left + right) / 2, middle);
  }
}

function sequenceText(sequence: Sequence, folded: boolean): string {
  return `${folded ? "▸" : "▾"} ×${sequence.count} · ${sequence.length} ${sequence.length === 1 ? "launch" : "launches"} each`;
}

/** What of the head is at a place. */
export function hitHead(
  geometry: Geometry,
  model: TraceModel,
  rows: readonly ScopeRow[],
  px: number,
  py: number,
): HeadHit {
  const row = Math.floor((py - AXIS_HEIGHT) / ROW_HEIGHT);
  const scopes = rows[row];
  let hit: HeadHit = { kind: "launch" };
  if (scopes) {
    eachScope(geometry, scopes, (scope, from, to) => {
      if (px >= from && px < to) hit = { kind: "scope", scope };
    });
  } else if (row === rows.length) {
    for (const sequence of model.trace.sequences) {
      const [from, to] = edges(geometry, sequence.first, sequence.first + sequence.length * sequence.count - 1);
      if (px >= from && px < to) hit = { kind: "sequence", sequence };
    }
  }
  return hit;
}

export function describeScope(scope: Scope): string {
  return `scope ${short(scope.name)}: launches ${scope.first} to ${scope.last}`;
}

export function inPlot(geometry: Geometry, px: number): boolean {
  return px >= geometry.gutter - 8 && px <= geometry.gutter + plotWidth(geometry) + 8;
}
