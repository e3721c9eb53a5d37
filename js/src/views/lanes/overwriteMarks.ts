/** The fate of needed values: lost ones in red with an arrow, preserved ones in a calm colour with a bracket. */

import { CROWDED, MergedSpans, SpacedMarks } from "./batchPainter.js";
import { BAR, eachSpan, eachVisible, type Geometry, type Visit, x } from "./geometry.js";
import type { Scene } from "./paint.js";
import type { Palette } from "./palette.js";
import { lowerBound, type Spans, type Track } from "./tracks.js";

/** Narrower than this an arc is a smudge; the stripes remain. */
const MIN_ARC = 7;
const ROOM_FOR_WORD = 44;

interface Span {
  readonly from: number;
  readonly to: number;
  /** Its end is folded away. */
  readonly hidden: boolean;
}

export function paintClobbers(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { palette, geometry } = scene;
  const { lost, preserved } = track.life;
  const kept = wholeSpans(geometry, preserved);
  const torn = wholeSpans(geometry, lost);
  if (kept.length > 0) {
    stripe(ctx, palette.bar, scene.keptHatch, kept, middle);
    for (const span of kept) if (span.to - span.from >= MIN_ARC) keptArc(ctx, palette, span, middle);
  }
  if (torn.length > 0) {
    stripe(ctx, palette["red-tint"], scene.lostHatch, torn, middle);
    tickAt(ctx, palette.red, torn, middle);
    const most = Math.min(26, (geometry.lane - BAR) / 2 + 4);
    for (const span of torn) if (span.to - span.from >= MIN_ARC) lostArc(ctx, palette, span, middle, most);
  }
}

function wholeSpans(geometry: Geometry, spans: Spans): Span[] {
  const result: Span[] = [];
  if (spans.first.length === 0) return result;
  const { columns } = geometry;
  const visit: Visit = (first, from, end) => {
    // what begins in a fold is counted there; what begins in one pixel with others is one mark
    if (columns.foldHiding(spans.first[end - 1] as number) !== null) return;
    const clobberer = spans.last[end - 1] as number;
    const hidden = columns.foldHiding(clobberer) !== null;
    const to = x(geometry, columns.forward(clobberer));
    if (to >= geometry.gutter) result.push({ from, to: Math.max(to, from + 2), hidden: hidden || end - first > 1 });
  };
  eachSpan(geometry, spans, false, visit);
  return result;
}

function stripe(
  ctx: CanvasRenderingContext2D,
  ground: string,
  pattern: CanvasPattern | string,
  list: readonly Span[],
  middle: number,
): void {
  const runs = new MergedSpans();
  for (const { from, to } of list) runs.add(from, to);
  runs.fill(ctx, ground, middle - BAR / 2, BAR);
  runs.fill(ctx, pattern, middle - BAR / 2, BAR);
}

/** Reads of lost values; a line along the top if there is no room for ticks. */
function tickAt(ctx: CanvasRenderingContext2D, colour: string, list: readonly Span[], middle: number): void {
  const places = new SpacedMarks();
  for (const { from } of list) places.add(from);
  const line = new MergedSpans();
  ctx.fillStyle = colour;
  places.each((px, room) => {
    if (room < CROWDED) line.add(px - CROWDED / 2, px + CROWDED / 2);
    else ctx.fillRect(Math.round(px) - 1, middle - 10, 2, 20);
  });
  line.fill(ctx, colour, middle - BAR / 2 - 2, 3);
}

/** At most `most` pixels high, so that it stays out of the lane above. */
function lostArc(
  ctx: CanvasRenderingContext2D,
  palette: Palette,
  { from, to }: Span,
  middle: number,
  most: number,
): void {
  const foot = middle - BAR / 2 - 4;
  const top = foot - Math.min(most * 1.3, 8 + (to - from) / 3);
  ctx.strokeStyle = ctx.fillStyle = palette.red;
  ctx.lineWidth = 1.75;
  ctx.beginPath();
  ctx.moveTo(from, foot);
  ctx.bezierCurveTo(from + 2, top, to - 2, top, to, foot - 2);
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(to - 4.5, foot - 5);
  ctx.lineTo(to + 4.5, foot - 5);
  ctx.lineTo(to, foot + 1.5);
  ctx.fill();
}

/** A flat dashed bracket with a shield: the tape preserved the values. */
function keptArc(ctx: CanvasRenderingContext2D, palette: Palette, { from, to, hidden }: Span, middle: number): void {
  const foot = middle - BAR / 2 - 3;
  const top = foot - 6;
  ctx.strokeStyle = ctx.fillStyle = palette.keep;
  ctx.lineWidth = 1;
  ctx.setLineDash([3, 2]);
  ctx.beginPath();
  ctx.moveTo(from, foot);
  ctx.lineTo(from, top + 3);
  ctx.quadraticCurveTo(from, top, from + 3, top);
  ctx.lineTo(to - 3, top);
  ctx.quadraticCurveTo(to, top, to, top + 3);
  ctx.lineTo(to, foot);
  ctx.stroke();
  ctx.setLineDash([]);
  const middleX = (from + to) / 2;
  if (to - from < 16) return;
  const word = to - from >= ROOM_FOR_WORD && !hidden;
  shield(ctx, palette, word ? middleX - 14 : middleX, top);
  if (!word) return;
  ctx.font = `10.5px ${palette.font}`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  const width = ctx.measureText("kept").width;
  ctx.fillStyle = palette.bg;
  ctx.fillRect(middleX - 9, top - 6, width + 4, 12);
  ctx.fillStyle = palette.keep;
  ctx.fillText("kept", middleX - 7, top);
}

function shield(ctx: CanvasRenderingContext2D, palette: Palette, px: number, py: number): void {
  ctx.beginPath();
  ctx.moveTo(px - 4, py - 4);
  ctx.lineTo(px, py - 5.5);
  ctx.lineTo(px + 4, py - 4);
  ctx.lineTo(px + 4, py);
  ctx.quadraticCurveTo(px + 3, py + 4, px, py + 5.5);
  ctx.quadraticCurveTo(px - 3, py + 4, px - 4, py);
  ctx.closePath();
  ctx.fillStyle = palette.bg;
  ctx.fill();
  ctx.fillStyle = palette.keep;
  ctx.fill();
}

/** A fold must not hide trouble: it says how many of each are in it. */
export function paintFoldCounts(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette, folds } = scene;
  const { columns, viewport } = geometry;
  if (viewport.scale * columns.foldWidth < 14) return;
  for (const fold of folds) {
    const px = x(geometry, columns.forward(fold.first));
    if (px < geometry.gutter || px > geometry.width) continue;
    const lost = countWithin(track.life.lost.first, fold.first, fold.last);
    const kept = countWithin(track.life.preserved.first, fold.first, fold.last);
    const text = lost > 0 ? `✕ ${lost}` : kept > 0 ? `kept ${kept}` : "";
    // preserved values are not an error: they are only counted if there is room
    if (text === "" || (lost === 0 && viewport.scale * columns.foldWidth < 60)) continue;
    ctx.font = `${lost > 0 ? "600 " : ""}10.5px ${palette.font}`;
    ctx.textAlign = "center";
    ctx.textBaseline = "top";
    const half = ctx.measureText(text).width / 2;
    const centre = Math.max(px, geometry.gutter + half);
    ctx.fillStyle = palette.bg; // marks of what happened around the tape are at the same height
    ctx.fillRect(centre - half - 1, middle + BAR / 2 + 2, 2 * half + 2, 12);
    ctx.fillStyle = lost > 0 ? palette.red : palette.keep;
    ctx.fillText(text, centre, middle + BAR / 2 + 3);
  }
}

function countWithin(sorted: Int32Array, first: number, last: number): number {
  return lowerBound(sorted, last + 1) - lowerBound(sorted, first);
}

/** Where the reverse pass reads what was overwritten: a cross in red; where it reads a kept copy: a calm diamond. */
export function paintBackwardMarks(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  paintKeptReads(ctx, scene, track, middle);
  const { geometry, palette } = scene;
  const { lost } = track.life;
  if (lost.first.length === 0) return;
  let free = Number.NEGATIVE_INFINITY;
  const places = new SpacedMarks();
  eachVisible(geometry, lost.first, true, (i, px) => {
    places.add(px);
    if (geometry.viewport.scale >= 14 && ctx.globalAlpha === 1)
      free = wrongReadLabel(ctx, scene, track, i, px, middle, free);
  });
  const dots = new Path2D();
  const crosses = new Path2D();
  const runs = new MergedSpans();
  places.each((px, room) => {
    const size = Math.min(4.5, room / 2.4);
    if (room < CROWDED) runs.add(px - CROWDED / 2, px + CROWDED / 2);
    else {
      dots.moveTo(px + size, middle);
      dots.arc(px, middle, size, 0, 2 * Math.PI);
      if (size >= 3) cross(crosses, px, middle, size * 0.5);
    }
  });
  runs.fill(ctx, palette.red, middle - 2, 4);
  ctx.fillStyle = palette.red;
  ctx.fill(dots);
  ctx.strokeStyle = palette.bg;
  ctx.lineWidth = 1;
  ctx.stroke(crosses);
}

function paintKeptReads(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const places = new SpacedMarks();
  eachVisible(scene.geometry, track.life.preserved.first, true, (_, px) => places.add(px));
  if (places.empty) return;
  const diamonds = new Path2D();
  const runs = new MergedSpans();
  places.each((px, room) => {
    const size = Math.min(4.5, room / 2.4);
    if (room < CROWDED) {
      runs.add(px - CROWDED / 2, px + CROWDED / 2);
      return;
    }
    diamonds.moveTo(px, middle - size);
    diamonds.lineTo(px + size, middle);
    diamonds.lineTo(px, middle + size);
    diamonds.lineTo(px - size, middle);
    diamonds.closePath();
  });
  runs.fill(ctx, scene.palette.keep, middle - 1, 3);
  ctx.fillStyle = scene.palette.keep;
  ctx.fill(diamonds);
}

function cross(path: Path2D, px: number, py: number, arm: number): void {
  path.moveTo(px - arm, py - arm);
  path.lineTo(px + arm, py + arm);
  path.moveTo(px + arm, py - arm);
  path.lineTo(px - arm, py + arm);
}

/** "reads v2, needs v1", as far as there is room; visited from the right, so `free` is where the last label began. */
function wrongReadLabel(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  track: Track,
  index: number,
  px: number,
  middle: number,
  free: number,
): number {
  const needed = track.number(track.life.lost.version[index] as number);
  const text = `reads v${track.number(track.count - 1)}, needs v${needed}`;
  ctx.font = `10.5px ${scene.palette.font}`;
  const width = ctx.measureText(text).width;
  const right = Math.min(px + width / 2, scene.geometry.width - 4);
  if (free !== Number.NEGATIVE_INFINITY && right > free - 8) return free;
  ctx.textAlign = "right";
  ctx.textBaseline = "alphabetic";
  ctx.fillStyle = scene.palette.red;
  ctx.fillText(text, right, middle - BAR / 2 - 5);
  return right - width;
}
