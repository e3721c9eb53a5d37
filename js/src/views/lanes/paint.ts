/** Painting the lanes: bars, ticks, dots. Same marks are collected and drawn in one path. */
import type { Finding } from "../../trace/types.js";
import { shape } from "../format.js";
import { CROWDED, MergedSpans, SpacedMarks } from "./batchPainter.js";
import type { ColourScale } from "./colourScale.js";
import { type EventMarks, paintEvents } from "./events.js";
import type { FindingMark } from "./findings.js";
import { BAR, eachSpan, eachVisible, type Geometry, plotWidth, u, x, y } from "./geometry.js";
import { fitText, INDENT } from "./gutter.js";
import type { Fold } from "./launchAxis.js";
import { paintBackwardMarks, paintClobbers, paintFoldCounts } from "./overwriteMarks.js";
import { type Palette, RAMP_STEPS, type Tone } from "./palette.js";
import { ADJOINT_BAD, ADJOINT_DEAD, ADJOINT_UNKNOWN, gallop, lowerBound, type Track } from "./tracks.js";

export interface Scene {
  readonly geometry: Geometry;
  readonly palette: Palette;
  readonly tracks: readonly Track[];
  readonly scale: ColourScale | null;
  /** True if adjoints were recorded at all: a missing one is then worth showing. */
  readonly summarised: boolean;
  readonly lostHatch: CanvasPattern | string;
  readonly keptHatch: CanvasPattern | string;
  /** Labels of the arrays that matter now, others are dimmed; null: all. */
  readonly focus: ReadonlySet<string> | null;
  readonly focusLaunches: readonly number[];
  readonly focusTone: Tone;
  /** The chosen one; null: none. */
  readonly finding: Finding | null;
  readonly findingMarks: readonly FindingMark[];
  readonly events: EventMarks;
  /** Folds that can be seen. */
  readonly folds: readonly Fold[];
  readonly launch: number | null;
  readonly backward: boolean;
  readonly array: number | null;
  readonly version: number | null;
}

const DIMMED = 0.28;
const TINY = 1.5;
/** Pixels for a dot and the word after it. */
const ROOM_FOR_NAN = 32;
/** How far it may reach beyond the last launch: half of the way to the backward pass. */
const NAN_BEYOND = 8;

function visibleLanes(geometry: Geometry, lanes: number): [first: number, last: number] {
  const first = Math.max(0, Math.floor(geometry.viewport.top / geometry.lane));
  const last = Math.ceil((geometry.viewport.top + geometry.height - geometry.head) / geometry.lane);
  return [first, Math.min(lanes - 1, last)];
}

export function paintTracks(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, tracks } = scene;
  const [first, last] = visibleLanes(geometry, tracks.length);
  for (let lane = first; lane <= last; lane++) {
    const track = tracks[lane] as Track;
    ctx.globalAlpha = scene.focus && !scene.focus.has(track.array.label) ? DIMMED : 1;
    const middle = Math.round(y(geometry, lane));
    paintBaseline(ctx, scene, middle);
    paintVersions(ctx, scene, track, middle);
    if (geometry.columns.mirrored) paintAdjoints(ctx, scene, track, middle);
    paintClobbers(ctx, scene, track, middle);
    paintReads(ctx, scene, track, middle);
    paintWrites(ctx, scene, track, middle);
    paintBad(ctx, scene, track, middle);
    if (geometry.columns.mirrored) paintBackwardMarks(ctx, scene, track, middle);
    const events = scene.events.get(track.array.id);
    if (events) paintEvents(ctx, scene, events, middle);
    paintFoldCounts(ctx, scene, track, middle);
  }
  ctx.globalAlpha = 1;
}

function paintBaseline(ctx: CanvasRenderingContext2D, { geometry, palette }: Scene, middle: number): void {
  ctx.fillStyle = palette.border;
  const end = x(geometry, geometry.columns.total);
  ctx.fillRect(geometry.gutter, middle, Math.min(end, geometry.width) - geometry.gutter, 1);
}

/** Narrower bars have no room for round ends, and are drawn as runs. */
const ROUNDED = 6;

/** Bars by their colour, collected. */
class Bars {
  private readonly paths = new Map<string, Path2D>();
  private readonly runs = new Map<string, MergedSpans>();

  add(style: string, left: number, right: number, middle: number): void {
    const width = Math.max(1, right - left);
    if (width < ROUNDED) {
      let runs = this.runs.get(style);
      if (!runs) {
        runs = new MergedSpans();
        this.runs.set(style, runs);
      }
      runs.add(left, left + width);
      return;
    }
    let path = this.paths.get(style);
    if (!path) {
      path = new Path2D();
      this.paths.set(style, path);
    }
    path.roundRect(left, middle - BAR / 2, width, BAR, Math.min(BAR / 2, width / 2));
  }

  paint(ctx: CanvasRenderingContext2D, middle: number): void {
    for (const [style, runs] of this.runs) runs.fill(ctx, style, middle - BAR / 2, BAR);
    for (const [style, path] of this.paths) {
      ctx.fillStyle = style;
      ctx.fill(path);
    }
  }
}

function barColour(scene: Scene, track: Track, position: number): string {
  const { palette, scale } = scene;
  if (!scale) return track.array.requiresGrad ? palette.bar : palette["bar-off"];
  const level = scale.level(track.base + position);
  if (level === "bad") return palette.red;
  return level === null ? palette["bar-off"] : (palette.ramp[Math.min(RAMP_STEPS - 1, level)] ?? palette.bar);
}

function paintVersions(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry } = scene;
  const { columns, viewport } = geometry;
  const { start } = track;
  const { end } = track.life;
  const right = u(geometry, geometry.width);
  const bars = new Bars();
  const outline: [number, number][] = [];
  const step = Math.max(1, Math.floor(1 / viewport.scale));
  let i = Math.max(0, lowerBound(start, columns.firstLaunch(Math.max(0, Math.floor(viewport.left)))) - 1);
  while (i < start.length) {
    const from = start[i] as number;
    const column = columns.of(from);
    if (from >= 0 && column > right) break;
    const left = Math.max(geometry.gutter - BAR, x(geometry, from < 0 ? 0.1 : columns.forward(from)));
    const until = end[i] as number;
    const ending = until >= columns.launches ? columns.count - 0.1 : columns.forward(until);
    const to = Math.min(geometry.width + BAR, x(geometry, ending));
    const room = to - left;
    bars.add(barColour(scene, track, i), left, room > 12 ? to - 4 : to, middle);
    if (scene.array === track.array.id && scene.version === track.number(i)) outline.push([left, to]);
    const dense = room < TINY || columns.fold(column) !== null;
    // of those that begin in one cell, the last may live on to the right of it
    i = dense ? Math.max(i + 1, gallop(start, columns.nextLaunch(column, step), i) - 1) : i + 1;
  }
  bars.paint(ctx, middle);
  ctx.strokeStyle = scene.palette.accent;
  ctx.lineWidth = 1.5;
  for (const [from, to] of outline) {
    ctx.beginPath();
    ctx.roundRect(from - 2, middle - BAR / 2 - 2, Math.max(6, to - from), BAR + 4, BAR / 2 + 2);
    ctx.stroke();
  }
}

/** The adjoint of a version lives from its last reader, where the reverse pass meets it first, to its writer. */
function paintAdjoints(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const { columns } = geometry;
  const { adjoints, adjointState } = track.life;
  const bars = new Bars();
  const hollow = new Path2D();
  const edges = new MergedSpans();
  const dots = new Path2D();
  const signs: [number, string][] = [];
  const notches = new MergedSpans();
  const add = (i: number): void => {
    const last = adjoints.last[i] as number;
    const writer = adjoints.first[i] as number;
    const from = x(geometry, last >= columns.launches ? columns.count + 1 : columns.backward(last));
    const to = x(geometry, writer < 0 ? columns.total - 0.1 : columns.backward(writer));
    if (to < geometry.gutter || from > geometry.width) return;
    const state = adjointState[i] as number;
    const room = to - from;
    if (state === ADJOINT_DEAD || (state === ADJOINT_UNKNOWN && scene.summarised)) {
      if (room < ROUNDED) edges.add(from, to);
      else hollow.roundRect(from + 1, middle - BAR / 2 + 1, room - 2, BAR - 2, Math.min(BAR / 2 - 1, room / 2 - 1));
    } else bars.add(adjointColour(scene, state, track.base + (adjoints.version[i] as number)), from, to, middle);
    if (state === ADJOINT_DEAD && room >= 12) signs.push([from + Math.min(room, 60) / 2, "0"]);
    if (state === ADJOINT_BAD && room >= ROOM_FOR_NAN) signs.push([from + ROOM_FOR_NAN / 2 + 1, "NaN"]);
    if (state === ADJOINT_BAD) notches.add(from - 1, from + 2);
    if (room >= 12 || geometry.viewport.scale >= 5) addDot(dots, from, middle, 3.5);
  };
  const both = (first: number, _: number, end: number): void => {
    add(first);
    if (end - 1 > first) add(end - 1);
  };
  eachSpan(geometry, adjoints, true, both);
  bars.paint(ctx, middle);
  for (const top of [middle - BAR / 2, middle + BAR / 2 - 1]) edges.fill(ctx, palette.adj, top, 1);
  ctx.strokeStyle = palette.adj;
  ctx.lineWidth = 1;
  ctx.setLineDash([2, 2]);
  ctx.stroke(hollow);
  ctx.setLineDash([]);
  ctx.fillStyle = palette.adj;
  ctx.fill(dots);
  notches.fill(ctx, palette.red, middle - BAR / 2 - 4, 4);
  for (const [px, sign] of signs) signText(ctx, palette, px, middle, sign, sign === "0" ? palette.adj : palette.red);
}

function adjointColour({ scale, palette }: Scene, state: number, version: number): string {
  if (state === ADJOINT_BAD) return palette["red-tint"];
  if (scale?.by !== "adjoint") return palette["adj-bar"];
  const level = scale.level(version);
  return typeof level === "number" ? (palette.ramp[level] ?? palette["adj-bar"]) : palette["adj-bar"];
}

/** A word on a patch of background, so that it can be read on a bar of any colour. */
function signText(
  ctx: CanvasRenderingContext2D,
  palette: Palette,
  px: number,
  py: number,
  text: string,
  colour: string,
): void {
  ctx.font = `600 9px ${palette.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  const width = text.length * 6 + 3;
  ctx.fillStyle = palette.bg;
  ctx.fillRect(px - width / 2, py - 5, width, 10);
  ctx.fillStyle = colour;
  ctx.fillText(text, px, py + 0.5);
}

/** Values that are not finite: the word where there is room, otherwise a notch above the bar. */
function paintBad(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { bad } = track.life;
  if (bad.length === 0) return;
  const { geometry, palette } = scene;
  const places = new SpacedMarks();
  eachVisible(geometry, bad, false, (_, px) => places.add(px));
  const notches = new MergedSpans();
  const end = x(geometry, geometry.columns.count);
  places.each((px, room) => {
    // a text after the last launches would cover the backward pass
    const aside = ROOM_FOR_NAN / 2 + 1;
    const at = px + 2 * aside > end + NAN_BEYOND ? px - aside : px + aside;
    if (room >= ROOM_FOR_NAN + 2) signText(ctx, palette, at, middle, "NaN", palette.red);
    notches.add(px - 1, px + 2);
  });
  notches.fill(ctx, palette.red, middle - BAR / 2 - 4, 4);
}

/** Ticks if there is room for them; otherwise a stripe under the bar, so that red stays visible. */
function paintReads(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const { reads, neededBefore } = track.life;
  const places = new SpacedMarks();
  eachVisible(geometry, reads, false, (first, px, end) => {
    places.add(px, Number((neededBefore[end] as number) > (neededBefore[first] as number)));
  });
  const ticks = { plain: new Path2D(), needed: new Path2D() };
  const stripes = { plain: new MergedSpans(), needed: new MergedSpans() };
  places.each((px, room, needed) => {
    const kind = needed ? "needed" : "plain";
    if (room < CROWDED) {
      stripes[kind].add(px - CROWDED / 2, px + CROWDED / 2);
      return;
    }
    const tall = needed ? 9 : 6;
    const width = room >= 6 ? 2 : 1;
    ticks[kind].rect(Math.round(px) - width / 2, middle - tall, width, 2 * tall);
  });
  stripes.plain.fill(ctx, palette["fg-2"], middle + BAR / 2 + 1, 2);
  stripes.needed.fill(ctx, palette.fg, middle + BAR / 2 + 1, 2);
  ctx.fillStyle = palette["fg-2"];
  ctx.fill(ticks.plain);
  ctx.fillStyle = palette.fg;
  ctx.fill(ticks.needed);
}

function paintWrites(ctx: CanvasRenderingContext2D, scene: Scene, track: Track, middle: number): void {
  const { geometry, palette } = scene;
  const places = new SpacedMarks();
  eachVisible(geometry, track.life.writes, false, (_, px) => places.add(px));
  const dots = new Path2D();
  const runs = new MergedSpans();
  places.each((px, room) => {
    if (room < CROWDED) runs.add(px - CROWDED / 2, px + CROWDED / 2);
    else addDot(dots, px, middle, Math.min(5, Math.max(1.5, room / 2.4)));
  });
  runs.fill(ctx, palette.accent, middle - 1, 3);
  if (scene.scale) {
    ctx.strokeStyle = palette.bg; // bars of any colour are behind them
    ctx.lineWidth = 2;
    ctx.stroke(dots);
  }
  ctx.fillStyle = palette.accent;
  ctx.fill(dots);
}

function addDot(path: Path2D, px: number, py: number, radius: number): void {
  path.moveTo(px + radius, py);
  path.arc(px, py, radius, 0, 2 * Math.PI);
}

/** Names of the lanes, over a strip of background so that what scrolls by does not shine through. */
export function paintLabels(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, palette, tracks } = scene;
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, geometry.gutter - BAR / 2, geometry.height);
  const [first, last] = visibleLanes(geometry, tracks.length);
  const two = geometry.lane >= 34;
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (let lane = first; lane <= last; lane++) {
    const { array, depth } = tracks[lane] as Track;
    const middle = Math.round(y(geometry, lane));
    if (middle < geometry.head - 4) continue;
    const left = 8 + depth * INDENT;
    const chosen = scene.array === array.id;
    const dimmed = scene.focus !== null && !scene.focus.has(array.label);
    ctx.globalAlpha = dimmed ? 0.5 : 1;
    paintGradMark(ctx, palette, left + 5, middle, array.requiresGrad);
    ctx.globalAlpha = 1; // a name steps back by its colour, and can still be read
    ctx.fillStyle = dimmed ? palette["fg-2"] : palette.fg;
    ctx.font = `${chosen ? "600 " : ""}12px ${palette.font}`;
    const room = geometry.gutter - left - 28;
    ctx.fillText(fitText(ctx, array.label, room, true), left + 17, two ? middle - 6 : middle);
    if (two) {
      ctx.fillStyle = palette["fg-2"];
      ctx.font = `11px ${palette.font}`;
      ctx.fillText(fitText(ctx, shape(array), room), left + 17, middle + 8);
    }
  }
}

/** Where the window is on the tape and among the lanes, as thin bars; nothing where all can be seen. */
export function paintScrollMarks(ctx: CanvasRenderingContext2D, { geometry, palette, tracks }: Scene): void {
  const { columns, viewport, gutter, width, height, head, lane } = geometry;
  ctx.fillStyle = palette["fg-2"];
  ctx.globalAlpha = 0.5;
  const across = plotWidth(geometry);
  const shown = across / viewport.scale / columns.total;
  if (shown < 0.999) {
    const size = Math.max(12, shown * across);
    const at = viewport.left / Math.max(1e-9, columns.total - across / viewport.scale);
    ctx.fillRect(gutter + at * (across - size), 0, size, 3);
  }
  const room = height - head;
  const whole = tracks.length * lane;
  if (whole > room + 1) {
    const size = Math.max(12, (room / whole) * room);
    ctx.fillRect(width - 3, head + (viewport.top / (whole - room)) * (room - size), 3, size);
  }
  ctx.globalAlpha = 1;
}

/** A ring with a point: carries a gradient. An empty, dashed one: does not. */
function paintGradMark(ctx: CanvasRenderingContext2D, palette: Palette, px: number, py: number, grad: boolean): void {
  ctx.strokeStyle = grad ? palette.green : palette["fg-2"];
  ctx.lineWidth = 1.75;
  ctx.setLineDash(grad ? [] : [2, 2]);
  ctx.beginPath();
  ctx.arc(px, py, 4, 0, 2 * Math.PI);
  ctx.stroke();
  ctx.setLineDash([]);
  if (!grad) return;
  ctx.fillStyle = palette.green;
  ctx.beginPath();
  ctx.arc(px, py, 1.5, 0, 2 * Math.PI);
  ctx.fill();
}

export function clipToPlot(ctx: CanvasRenderingContext2D, geometry: Geometry, top: number): void {
  ctx.beginPath();
  ctx.rect(geometry.gutter - BAR / 2, top, plotWidth(geometry) + BAR, geometry.height - top);
  ctx.clip();
}
