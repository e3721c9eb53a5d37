/** Painting the lanes: bars, ticks, dots. Same marks are collected and drawn in one path. */
import type { Version } from "../../trace/types.js";
import { shape, short } from "../format.js";
import { BAR, eachVisible, type Geometry, plotWidth, u, x, y } from "./geometry.js";
import { paintBackwardMarks, paintClobbers } from "./marks.js";
import { type Palette, RAMP_STEPS, type Tone } from "./palette.js";
import type { ColourScale } from "./scale.js";
import { lowerBound, type Track } from "./tracks.js";

export interface Scene {
  readonly geometry: Geometry;
  readonly palette: Palette;
  readonly tracks: readonly Track[];
  readonly scale: ColourScale | null;
  readonly lostHatch: CanvasPattern | string;
  readonly keptHatch: CanvasPattern | string;
  /** Labels of the arrays that matter now, others are dimmed; null: all. */
  readonly focus: ReadonlySet<string> | null;
  readonly focusLaunches: readonly number[];
  readonly focusTone: Tone;
  readonly launch: number | null;
  readonly backward: boolean;
  readonly array: number | null;
  readonly version: number | null;
}

const DIMMED = 0.28;
const TINY = 1.5;

export function visibleLanes(geometry: Geometry, lanes: number): [first: number, last: number] {
  const first = Math.max(0, Math.floor(geometry.viewport.top / geometry.lane));
  const last = Math.ceil((geometry.viewport.top + geometry.height - geometry.head) / geometry.lane);
  return [first, Math.min(lanes - 1, last)];
}

export function paintTracks(pen: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, tracks } = scene;
  const [first, last] = visibleLanes(geometry, tracks.length);
  for (let lane = first; lane <= last; lane++) {
    const track = tracks[lane] as Track;
    pen.globalAlpha = scene.focus && !scene.focus.has(track.array.label) ? DIMMED : 1;
    const middle = Math.round(y(geometry, lane));
    paintBaseline(pen, scene, middle);
    paintVersions(pen, scene, track, middle);
    if (geometry.columns.mirrored) paintAdjoints(pen, scene, track, middle);
    paintClobbers(pen, scene, track, middle);
    paintReads(pen, scene, track, middle);
    paintWrites(pen, scene, track, middle);
    if (geometry.columns.mirrored) paintBackwardMarks(pen, scene, track, middle);
  }
  pen.globalAlpha = 1;
}

function paintBaseline(pen: CanvasRenderingContext2D, { geometry, palette }: Scene, middle: number): void {
  pen.fillStyle = palette.border;
  const end = x(geometry, geometry.columns.total);
  pen.fillRect(geometry.gutter, middle, Math.min(end, geometry.width) - geometry.gutter, 1);
}

/** Bars of one colour, collected. */
class Bars {
  private readonly paths = new Map<string | CanvasPattern, Path2D>();

  add(style: string | CanvasPattern, left: number, right: number, middle: number, height = BAR): void {
    let path = this.paths.get(style);
    if (!path) {
      path = new Path2D();
      this.paths.set(style, path);
    }
    const width = Math.max(1, right - left);
    const top = middle - height / 2;
    if (width < 5) path.rect(left, top, width, height);
    else path.roundRect(left, top, width, height, Math.min(height / 2, width / 2));
  }

  paint(pen: CanvasRenderingContext2D): void {
    for (const [style, path] of this.paths) {
      pen.fillStyle = style;
      pen.fill(path);
    }
  }
}

function barColour(scene: Scene, track: Track, version: Version): string {
  const { palette, scale } = scene;
  if (!scale) return track.array.requiresGrad ? palette.bar : palette["bar-off"];
  const level = scale.level(version);
  if (level === "bad") return palette.red;
  return level === null ? palette["bar-off"] : (palette.ramp[Math.min(RAMP_STEPS - 1, level)] ?? palette.bar);
}

function paintVersions(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry } = scene;
  const { columns, viewport } = geometry;
  const right = u(geometry, geometry.width);
  const bars = new Bars();
  const outline: [number, number][] = [];
  let i = Math.max(0, lowerBound(track.start, columns.firstLaunch(Math.max(0, Math.floor(viewport.left)))) - 1);
  while (i < track.start.length) {
    const start = track.start[i] as number;
    const version = track.versions[i] as Version;
    if (start >= 0 && columns.of(start) > right) break;
    const end = track.end[i] as number;
    const from = Math.max(geometry.gutter - BAR, x(geometry, start < 0 ? 0.1 : columns.forward(start)));
    const ending = end >= columns.launches ? columns.count - 0.1 : columns.forward(end);
    const to = Math.min(geometry.width + BAR, x(geometry, ending));
    const room = to - from;
    bars.add(barColour(scene, track, version), from, room > 12 ? to - 4 : to, middle);
    if (scene.array === track.array.id && scene.version === version.version) outline.push([from, to]);
    const column = columns.of(start);
    const dense = room < TINY || columns.fold(column) !== null;
    const next = columns.firstLaunch(column + Math.max(1, Math.floor(1 / viewport.scale)));
    // of those that begin in one cell, the last may live on to the right of it
    i = dense ? Math.max(i + 1, lowerBound(track.start, next, i + 1) - 1) : i + 1;
  }
  bars.paint(pen);
  pen.strokeStyle = scene.palette.accent;
  pen.lineWidth = 1.5;
  for (const [from, to] of outline) {
    pen.beginPath();
    pen.roundRect(from - 2, middle - BAR / 2 - 2, Math.max(6, to - from), BAR + 4, BAR / 2 + 2);
    pen.stroke();
  }
}

/** The adjoint of a version lives from its last reader, where the reverse pass meets it first, to its writer. */
function paintAdjoints(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const { columns } = geometry;
  const left = columns.count + 1;
  const bars = new Bars();
  const dots = new Path2D();
  const add = (i: number): void => {
    const version = track.adjoints[i] as Version;
    const last = track.adjointReaders[i] as number;
    const from = x(geometry, last < 0 ? left : columns.backward(last));
    const to = x(geometry, version.writtenBy === null ? columns.total - 0.1 : columns.backward(version.writtenBy));
    if (to < geometry.gutter || from > geometry.width) return;
    bars.add(adjointColour(scene, version), from, to, middle);
    if (geometry.viewport.scale >= 5) addDot(dots, from, middle, 3.5);
  };
  const both = (first: number, _: number, end: number): void => {
    add(first);
    if (end - 1 > first) add(end - 1);
  };
  eachVisible(geometry, track.adjointWriters, true, both, track.reach);
  if (track.adjointWriters[0] === -1) add(0);
  bars.paint(pen);
  pen.fillStyle = palette.adj;
  pen.fill(dots);
}

function adjointColour({ scale, palette }: Scene, version: Version): string {
  if (version.adjoint && version.adjoint.nan + version.adjoint.inf > 0) return palette.red;
  if (scale?.by !== "adjoint") return palette["adj-bar"];
  const level = scale.level(version);
  return typeof level === "number" ? (palette.ramp[level] ?? palette["adj-bar"]) : palette["adj-bar"];
}

function paintReads(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const width = geometry.viewport.scale >= 6 ? 2 : 1;
  const needed = new Path2D();
  const plain = new Path2D();
  eachVisible(geometry, track.reads, false, (first, px, end) => {
    const important = track.readNeeded.subarray(first, end).includes(1);
    const tall = important ? 9 : 6;
    (important ? needed : plain).rect(Math.round(px) - width / 2, middle - tall, width, 2 * tall);
  });
  pen.fillStyle = palette["fg-2"];
  pen.fill(plain);
  pen.fillStyle = palette.fg;
  pen.fill(needed);
}

function paintWrites(pen: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const radius = Math.min(5, Math.max(1.5, geometry.viewport.scale / 2.4));
  const dots = new Path2D();
  eachVisible(geometry, track.writes, false, (_, px) => addDot(dots, px, middle, radius));
  pen.fillStyle = palette.accent;
  pen.fill(dots);
}

export function addDot(path: Path2D, px: number, py: number, radius: number): void {
  path.moveTo(px + radius, py);
  path.arc(px, py, radius, 0, 2 * Math.PI);
}

/** Names of the lanes, over a strip of background so that what scrolls by does not shine through. */
export function paintLabels(pen: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, palette, tracks } = scene;
  pen.fillStyle = palette.bg;
  pen.fillRect(0, 0, geometry.gutter - BAR / 2, geometry.height);
  const [first, last] = visibleLanes(geometry, tracks.length);
  const two = geometry.lane >= 34;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  for (let lane = first; lane <= last; lane++) {
    const { array, depth } = tracks[lane] as Track;
    const middle = Math.round(y(geometry, lane));
    if (middle < geometry.head - 4) continue;
    const left = 8 + depth * 10;
    const chosen = scene.array === array.id;
    pen.globalAlpha = scene.focus && !scene.focus.has(array.label) ? 0.5 : 1;
    paintGradMark(pen, palette, left + 5, middle, array.requiresGrad);
    pen.fillStyle = palette.fg;
    pen.font = `${chosen ? "600 " : ""}12px ${palette.font}`;
    const room = geometry.gutter - left - 28;
    pen.fillText(fitText(pen, array.label, room), left + 17, two ? middle - 6 : middle);
    if (two) {
      pen.fillStyle = palette["fg-2"];
      pen.font = `11px ${palette.font}`;
      pen.fillText(fitText(pen, shape(array), room), left + 17, middle + 8);
    }
  }
  pen.globalAlpha = 1;
}

/** A ring with a point: carries a gradient. An empty, dashed one: does not. */
function paintGradMark(pen: CanvasRenderingContext2D, palette: Palette, px: number, py: number, grad: boolean): void {
  pen.strokeStyle = grad ? palette.green : palette["fg-2"];
  pen.lineWidth = 1.75;
  pen.setLineDash(grad ? [] : [2, 2]);
  pen.beginPath();
  pen.arc(px, py, 4, 0, 2 * Math.PI);
  pen.stroke();
  pen.setLineDash([]);
  if (!grad) return;
  pen.fillStyle = palette.green;
  pen.beginPath();
  pen.arc(px, py, 1.5, 0, 2 * Math.PI);
  pen.fill();
}

/** Text cut to a width in pixels. */
export function fitText(pen: CanvasRenderingContext2D, text: string, width: number): string {
  let cut = short(text, 80);
  if (pen.measureText(cut).width <= width) return cut;
  while (cut.length > 1 && pen.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}

export function clipToPlot(pen: CanvasRenderingContext2D, geometry: Geometry, top: number): void {
  pen.beginPath();
  pen.rect(geometry.gutter - BAR / 2, top, plotWidth(geometry) + BAR, geometry.height - top);
  pen.clip();
}
