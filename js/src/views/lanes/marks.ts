/** What became of needed values: lost ones in red with an arrow, kept ones calmly with a bracket. */
import { BAR, eachVisible, type Geometry, type Visit, x } from "./geometry.js";
import type { Scene } from "./paint.js";
import type { Palette } from "./palette.js";
import { type Clobber, lowerBound, type Track } from "./tracks.js";

/** Narrower than this an arc is a smudge; the stripes remain. */
const MIN_ARC = 7;
const ROOM_FOR_WORD = 44;

interface Span {
  readonly from: number;
  readonly to: number;
  /** Where it ends is folded away. */
  readonly hidden: boolean;
}

export function paintClobbers(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const kept = spans(scene.geometry, track.preserved, track);
  const lost = spans(scene.geometry, track.lost, track);
  if (kept.length > 0) {
    stripe(pen, scene.palette.bar, scene.keptHatch, kept, middle);
    for (const span of kept) if (span.to - span.from >= MIN_ARC) keptArc(pen, scene.palette, span, middle);
  }
  if (lost.length > 0) {
    stripe(pen, scene.palette["red-tint"], scene.lostHatch, lost, middle);
    tickAt(pen, scene.palette.red, lost, middle);
    const most = Math.min(26, (scene.geometry.lane - BAR) / 2 + 4);
    for (const span of lost) if (span.to - span.from >= MIN_ARC) lostArc(pen, scene.palette, span, middle, most);
  }
  paintFoldCounts(pen, scene, track, middle);
}

function spans(geometry: Geometry, clobbers: readonly Clobber[], track: Track): Span[] {
  const result: Span[] = [];
  if (clobbers.length === 0) return result;
  const readers = clobbers === track.lost ? track.lostReaders : track.preservedReaders;
  const visit: Visit = (first, from, end) => {
    // what begins in a fold is counted there; what begins in one pixel with others is one mark
    const { reader, clobberer } = clobbers[end - 1] as Clobber;
    if (geometry.columns.fold(geometry.columns.of(reader)) !== null) return;
    const hidden = geometry.columns.fold(geometry.columns.of(clobberer)) !== null;
    const to = x(geometry, geometry.columns.forward(clobberer));
    if (to >= geometry.gutter) result.push({ from, to: Math.max(to, from + 2), hidden: hidden || end - first > 1 });
  };
  eachVisible(geometry, readers, false, visit, track.reach);
  return result;
}

function stripe(
  pen: CanvasRenderingContext2D,
  ground: string,
  pattern: CanvasPattern | string,
  list: readonly Span[],
  middle: number,
): void {
  const path = new Path2D();
  for (const { from, to } of list) path.rect(from, middle - BAR / 2, to - from, BAR);
  pen.fillStyle = ground;
  pen.fill(path);
  pen.fillStyle = pattern;
  pen.fill(path);
}

function tickAt(pen: CanvasRenderingContext2D, colour: string, list: readonly Span[], middle: number): void {
  pen.fillStyle = colour;
  for (const { from } of list) pen.fillRect(Math.round(from) - 1, middle - 10, 2, 20);
}

/** At most `most` pixels high, so that it stays out of the lane above. */
function lostArc(
  pen: CanvasRenderingContext2D,
  palette: Palette,
  { from, to }: Span,
  middle: number,
  most: number,
): void {
  const foot = middle - BAR / 2 - 4;
  const top = foot - Math.min(most * 1.3, 8 + (to - from) / 3);
  pen.strokeStyle = pen.fillStyle = palette.red;
  pen.lineWidth = 1.75;
  pen.beginPath();
  pen.moveTo(from, foot);
  pen.bezierCurveTo(from + 2, top, to - 2, top, to, foot - 2);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(to - 4.5, foot - 5);
  pen.lineTo(to + 4.5, foot - 5);
  pen.lineTo(to, foot + 1.5);
  pen.fill();
}

/** A flat dashed bracket with a shield: somebody took care. */
function keptArc(pen: CanvasRenderingContext2D, palette: Palette, { from, to, hidden }: Span, middle: number): void {
  const foot = middle - BAR / 2 - 3;
  const top = foot - 6;
  pen.strokeStyle = pen.fillStyle = palette.keep;
  pen.lineWidth = 1;
  pen.setLineDash([3, 2]);
  pen.beginPath();
  pen.moveTo(from, foot);
  pen.lineTo(from, top + 3);
  pen.quadraticCurveTo(from, top, from + 3, top);
  pen.lineTo(to - 3, top);
  pen.quadraticCurveTo(to, top, to, top + 3);
  pen.lineTo(to, foot);
  pen.stroke();
  pen.setLineDash([]);
  const middleX = (from + to) / 2;
  if (to - from < 16) return;
  const word = to - from >= ROOM_FOR_WORD && !hidden;
  shield(pen, palette, word ? middleX - 14 : middleX, top);
  if (!word) return;
  pen.font = `10.5px ${palette.font}`;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  const width = pen.measureText("kept").width;
  pen.fillStyle = palette.bg;
  pen.fillRect(middleX - 9, top - 6, width + 4, 12);
  pen.fillStyle = palette.keep;
  pen.fillText("kept", middleX - 7, top);
}

function shield(pen: CanvasRenderingContext2D, palette: Palette, px: number, py: number): void {
  pen.beginPath();
  pen.moveTo(px - 4, py - 4);
  pen.lineTo(px, py - 5.5);
  pen.lineTo(px + 4, py - 4);
  pen.lineTo(px + 4, py);
  pen.quadraticCurveTo(px + 3, py + 4, px, py + 5.5);
  pen.quadraticCurveTo(px - 3, py + 4, px - 4, py);
  pen.closePath();
  pen.fillStyle = palette.bg;
  pen.fill();
  pen.fillStyle = palette.keep;
  pen.fill();
}

/** A fold must not hide trouble: it says how many of each are in it. */
function paintFoldCounts(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  for (const fold of geometry.columns.folds) {
    const px = x(geometry, geometry.columns.forward(fold.first));
    if (px < geometry.gutter || px > geometry.width) continue;
    const lost = countWithin(track.lostReaders, fold.first, fold.last);
    const kept = countWithin(track.preservedReaders, fold.first, fold.last);
    const text = lost > 0 ? `✕ ${lost}` : kept > 0 ? `kept ${kept}` : "";
    if (text === "" || geometry.viewport.scale < 14) continue;
    pen.font = `${lost > 0 ? "600 " : ""}10.5px ${palette.font}`;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.fillStyle = lost > 0 ? palette.red : palette.keep;
    pen.fillText(text, px, middle + BAR / 2 + 4);
  }
}

function countWithin(sorted: Int32Array, first: number, last: number): number {
  return lowerBound(sorted, last + 1) - lowerBound(sorted, first);
}

/** Where the reverse pass reads what was overwritten: a cross in red; where it reads a kept copy: a calm diamond. */
export function paintBackwardMarks(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const size = Math.min(4.5, Math.max(1.5, geometry.viewport.scale / 4));
  const diamonds = new Path2D();
  eachVisible(geometry, track.preservedReaders, true, (_, px) => {
    diamonds.moveTo(px, middle - size);
    diamonds.lineTo(px + size, middle);
    diamonds.lineTo(px, middle + size);
    diamonds.lineTo(px - size, middle);
    diamonds.closePath();
  });
  pen.fillStyle = palette.keep;
  pen.fill(diamonds);
  if (track.lostReaders.length === 0) return;
  let free = Number.NEGATIVE_INFINITY;
  const dots = new Path2D();
  const crosses = new Path2D();
  eachVisible(geometry, track.lostReaders, true, (i, px) => {
    dots.moveTo(px + size, middle);
    dots.arc(px, middle, size, 0, 2 * Math.PI);
    cross(crosses, px, middle, size * 0.5);
    if (geometry.viewport.scale >= 14) free = misreadLabel(pen, scene, track, i, px, middle, free);
  });
  pen.fillStyle = palette.red;
  pen.fill(dots);
  if (size < 3) return;
  pen.strokeStyle = palette.bg;
  pen.lineWidth = 1;
  pen.stroke(crosses);
}

function cross(path: Path2D, px: number, py: number, arm: number): void {
  path.moveTo(px - arm, py - arm);
  path.lineTo(px + arm, py + arm);
  path.moveTo(px + arm, py - arm);
  path.lineTo(px - arm, py + arm);
}

/** "reads v2, needs v1", as far as there is room; visited from the right, so `free` is where the last label began. */
function misreadLabel(
  pen: CanvasRenderingContext2D,
  scene: Scene,
  track: Track,
  index: number,
  px: number,
  middle: number,
  free: number,
): number {
  const { version } = track.lost[index] as Clobber;
  const final = track.versions.at(-1)?.version ?? version.version + 1;
  const text = `reads v${final}, needs v${version.version}`;
  pen.font = `10.5px ${scene.palette.font}`;
  const width = pen.measureText(text).width;
  const right = Math.min(px + width / 2, scene.geometry.width - 4);
  if (free !== Number.NEGATIVE_INFINITY && right > free - 8) return free;
  pen.textAlign = "right";
  pen.textBaseline = "alphabetic";
  pen.fillStyle = scene.palette.red;
  pen.fillText(text, right, middle - BAR / 2 - 5);
  return right - width;
}
