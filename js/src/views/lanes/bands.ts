/** Stretches of launches in rows above the lanes: scopes by how deep they are nested, repeated sequences. */
import type { TraceModel } from "../../trace/model.js";
import type { Scope, Sequence } from "../../trace/types.js";
import { scopeKey, sequenceKey } from "./folds.js";
import { type Geometry, plotWidth, u, x } from "./geometry.js";
import { lowerBound } from "./tracks.js";

export type Band =
  | { readonly kind: "scope"; readonly first: number; readonly last: number; readonly scope: Scope }
  | { readonly kind: "sequence"; readonly first: number; readonly last: number; readonly sequence: Sequence };

export interface BandRow {
  /** In the order of the tape. */
  readonly bands: readonly Band[];
  readonly firsts: Int32Array;
}

export interface Bands {
  /** By depth, the outermost first. */
  readonly scopes: readonly BandRow[];
  /** Those of the tape, then those within one of them. */
  readonly sequences: readonly BandRow[];
}

/** The number of rows of scopes that are shown at a time; the visible launches determine which. */
const SCOPE_ROWS = 3;
/** No real program nests deeper; a hostile trace may. Deeper scopes are in the tooltip. */
const DEEPEST = 64;
const NARROW = 4;

export function buildBands(model: TraceModel): Bands {
  const scopes: Band[][] = [];
  for (const scope of model.trace.scopes) {
    const depth = Math.min(DEEPEST, model.scopeDepth[scope.id] ?? 0);
    while (scopes.length <= depth) scopes.push([]);
    if (depth < DEEPEST) scopes[depth]?.push({ kind: "scope", first: scope.first, last: scope.last, scope });
  }
  const outer: Band[] = [];
  const inner: Band[] = [];
  let end = -1;
  const all = model.trace.sequences.map((sequence): Band => {
    const { first, length, count } = sequence;
    return { kind: "sequence", first, last: first + length * count - 1, sequence };
  });
  for (const band of all.sort(inOrder)) {
    if (band.first <= end) inner.push(band);
    else {
      outer.push(band);
      end = band.last;
    }
  }
  return { scopes: toRows(scopes), sequences: toRows([outer, inner]) };
}

function inOrder(a: Band, b: Band): number {
  return a.first - b.first || b.last - a.last;
}

function toRows(rows: readonly Band[][]): BandRow[] {
  return rows
    .filter((row) => row.length > 0)
    .map((row) => ({ bands: row.sort(inOrder), firsts: Int32Array.from(row, (band) => band.first) }));
}

function keyOf(band: Band): string {
  return band.kind === "scope" ? scopeKey(band.scope) : sequenceKey(band.sequence);
}

export function rowCount({ scopes, sequences }: Bands): number {
  return Math.min(SCOPE_ROWS, scopes.length) + sequences.length;
}

/**
 * The depth of the first row of scopes: if everything in view lies within one scope, that scope needs no row, and those within
 * it get one, so that every depth can be reached by zooming in.
 */
function outermostShown(geometry: Geometry, { scopes }: Bands): number {
  const { columns, viewport } = geometry;
  const first = columns.firstLaunch(viewport.left);
  const right = viewport.left + plotWidth(geometry) / viewport.scale;
  if (right > columns.count) return 0; // the end of the tape is in view, and with it the outermost scopes
  const last = Math.max(first, columns.firstLaunch(Math.ceil(right)) - 1);
  let depth = 0;
  while (depth + SCOPE_ROWS < scopes.length) {
    const row = scopes[depth] as BandRow;
    const band = row.bands[lowerBound(row.firsts, first + 1) - 1];
    if (!band || band.last < last) break;
    depth++;
  }
  return depth;
}

/** The innermost sequence around a launch. */
export function bandAround({ sequences }: Bands, launch: number): Sequence | null {
  for (const row of [...sequences].reverse()) {
    const band = row.bands[lowerBound(row.firsts, launch + 1) - 1];
    if (band?.kind === "sequence" && band.last >= launch) return band.sequence;
  }
  return null;
}

/** The rows that are shown, from the top down. */
export function shownRows(geometry: Geometry, bands: Bands): readonly BandRow[] {
  const from = outermostShown(geometry, bands);
  return [...bands.scopes.slice(from, from + SCOPE_ROWS), ...bands.sequences];
}

/** Visits what of a row can be seen, at most one for every few pixels. */
export function eachBand(
  geometry: Geometry,
  row: BandRow,
  visit: (band: Band, from: number, to: number) => void,
): void {
  const { columns, viewport } = geometry;
  const first = columns.firstLaunch(Math.max(0, Math.floor(viewport.left)));
  let i = Math.max(0, lowerBound(row.firsts, first) - 1);
  while (i < row.bands.length) {
    const band = row.bands[i] as Band;
    const from = x(geometry, columns.of(band.first));
    const to = x(geometry, columns.behind(band.last));
    if (from > geometry.width) return;
    const fold = columns.foldHiding(band.first);
    const hidden = fold !== null && band.last <= fold.last && fold.key !== keyOf(band);
    if (!hidden && to > geometry.gutter) visit(band, from, to);
    const next = hidden ? fold.last + 1 : columns.firstLaunch(Math.floor(u(geometry, from + NARROW)));
    const skip = hidden || to - from < NARROW;
    i = skip ? Math.max(i + 1, lowerBound(row.firsts, next)) : i + 1;
  }
}
