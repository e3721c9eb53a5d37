/** The canvases of the memory view: the versions of one region, and the bytes of all overwritten versions along the launches. */
import type { TraceModel } from "../../trace/model.js";
import { bytes as bytesText, whole } from "../format.js";
import type { Palette } from "../lanes/palette.js";
import { type Bytes, bytesAfter, type Growth, RECOVERIES, type Recovery, type Region, sum } from "./data.js";

/** The launches in view, from one to another; fractions are in between. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

export interface Scene {
  readonly model: TraceModel;
  readonly palette: Palette;
  /** Stripes for lost values. */
  readonly stripes: CanvasPattern | string;
  readonly span: Span;
  /** The selected launch. */
  readonly launch: number | null;
  /** Position of the selected version in the columns; -1: none. */
  readonly version: number;
  readonly ratio: number;
}

const GROWTH_HEIGHT = 96;
const ROW_HEIGHT = 20;
const BAR = 4;
const BLOCK = 12;
const TOP = 16;
const BOTTOM = 16;

/** The launch at a pixel. */
export function launchAt(span: Span, width: number, px: number): number {
  return Math.floor(span.from + (px / Math.max(1, width)) * (span.to - span.from));
}

function xOf({ from, to }: Span, width: number, launch: number): number {
  return ((launch - from) / Math.max(1e-9, to - from)) * width;
}

/** Clears a canvas and sets it to CSS pixels; null if it cannot be drawn on. */
function start(canvas: HTMLCanvasElement, ratio: number): { ctx: CanvasRenderingContext2D; width: number } | null {
  const ctx = canvas.getContext("2d");
  const width = canvas.clientWidth;
  if (!ctx || width === 0) return null;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(canvas.clientHeight * ratio);
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { ctx, width };
}

/** Copies are solid, recomputed versions outlined, lost ones striped: distinguishable without colours. */
function block(ctx: CanvasRenderingContext2D, scene: Scene, recovery: Recovery, path: Path2D): void {
  const { keep, red, bg } = scene.palette;
  if (recovery === "copied") {
    ctx.fillStyle = keep;
    ctx.fill(path);
    return;
  }
  ctx.fillStyle = bg;
  ctx.fill(path);
  if (recovery === "lost") {
    ctx.fillStyle = scene.stripes;
    ctx.fill(path);
  }
  ctx.strokeStyle = recovery === "lost" ? red : keep;
  ctx.lineWidth = 1;
  ctx.stroke(path);
}

function selectedLaunch(ctx: CanvasRenderingContext2D, scene: Scene, width: number, height: number): void {
  if (scene.launch === null) return;
  const x = xOf(scene.span, width, scene.launch + 0.5);
  if (x < 0 || x > width) return;
  ctx.fillStyle = scene.palette.fg;
  ctx.fillRect(Math.round(x - 0.5), 0, 1, height);
}

/** One row: the versions of a region in time, with those that are overwritten and needed as blocks. */
export function paintRegion(canvas: HTMLCanvasElement, scene: Scene, region: Region): void {
  const begun = start(canvas, scene.ratio);
  if (!begun) return;
  const { ctx, width } = begun;
  const { model, palette, span } = scene;
  const { of, since } = model.columns.versions;
  const middle = ROW_HEIGHT / 2;
  const first = of[region.array] as number;
  const end = of[region.array + 1] as number;
  const x = (launch: number): number => xOf(span, width, launch);
  ctx.fillStyle = palette.bar;
  let drawn = Number.NEGATIVE_INFINITY;
  for (let v = first; v < end; v++) {
    const left = Math.max(0, x(Math.max(0, since[v] as number)));
    const right = Math.min(width, x(v + 1 < end ? (since[v + 1] as number) : model.launchCount));
    if (right <= drawn + 0.5 || left > width) continue; // less than a pixel, or out of view
    ctx.fillRect(left, middle - BAR / 2, Math.max(1, right - left - 1), BAR);
    drawn = right;
  }
  const paths: Record<Recovery, Path2D> = { copied: new Path2D(), recomputed: new Path2D(), lost: new Path2D() };
  const drawnTo: Record<Recovery, number> = { copied: -1, recomputed: -1, lost: -1 };
  for (const { version, launch, recovery } of region.overwrites) {
    const left = Math.max(0, x(Math.max(0, since[version] as number)));
    const right = Math.min(width, x(launch));
    if (right < 0 || left > width || right <= drawnTo[recovery] + 0.5) continue;
    const gap = right - left > 4 ? 1.5 : 0;
    paths[recovery].rect(left + 0.5, middle - BLOCK / 2, Math.max(1, right - left - gap), BLOCK);
    drawnTo[recovery] = right;
  }
  for (const recovery of RECOVERIES) block(ctx, scene, recovery, paths[recovery]);
  if (scene.version >= first && scene.version < end) {
    const last = scene.version + 1 === end;
    const left = x(Math.max(0, since[scene.version] as number));
    const right = x(last ? model.launchCount : (since[scene.version + 1] as number));
    ctx.strokeStyle = palette.accent;
    ctx.lineWidth = 2;
    ctx.strokeRect(left + 1, middle - BLOCK / 2 - 2, Math.max(2, right - left - 2), BLOCK + 4);
  }
  selectedLaunch(ctx, scene, width, ROW_HEIGHT);
}

/** The bytes after each launch as stacked steps. */
export function paintGrowth(canvas: HTMLCanvasElement, scene: Scene, growth: Growth): void {
  const begun = start(canvas, scene.ratio);
  if (!begun) return;
  const { ctx, width } = begun;
  const { palette, span } = scene;
  const most = sum(growth.bytes.at(-1) ?? { copied: 0, recomputed: 0, lost: 0 });
  const floor = GROWTH_HEIGHT - BOTTOM;
  const y = (bytes: number): number => floor - (bytes / Math.max(1, most)) * (floor - TOP);
  ctx.fillStyle = palette.border;
  ctx.fillRect(0, floor, width, 1);
  ctx.fillRect(0, TOP, width, 1);
  for (const [i, recovery] of RECOVERIES.entries()) {
    if ((growth.bytes.at(-1)?.[recovery] ?? 0) === 0) continue;
    const under = (bytes: Bytes): number => RECOVERIES.slice(0, i).reduce((total, one) => total + bytes[one], 0);
    block(
      ctx,
      scene,
      recovery,
      steps(growth, span, width, y, under, (bytes) => under(bytes) + bytes[recovery]),
    );
  }
  ctx.font = `11px ${palette.font}`;
  ctx.fillStyle = palette["fg-2"];
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "left";
  ctx.fillText(most > 0 ? bytesText(most) : "", 3, TOP - 4);
  const [from, to] = [Math.max(0, Math.floor(span.from)), Math.max(0, Math.ceil(span.to) - 1)];
  ctx.fillText(`launch ${whole(from)}`, 3, GROWTH_HEIGHT - 3);
  ctx.textAlign = "right";
  if (to > from) ctx.fillText(whole(to), width - 2, GROWTH_HEIGHT - 3);
  selectedLaunch(ctx, scene, width, floor);
}

/** The area between two staircases, at most two corners a pixel. */
function steps(
  growth: Growth,
  span: Span,
  width: number,
  y: (bytes: number) => number,
  under: (bytes: Bytes) => number,
  over: (bytes: Bytes) => number,
): Path2D {
  const path = new Path2D();
  const corners: [number, Bytes][] = [[0, bytesAfter(growth, Math.ceil(span.from) - 1)]];
  for (const [i, launch] of growth.launches.entries()) {
    const x = xOf(span, width, launch);
    if (x < 0) continue;
    if (x > width) break;
    if (x < (corners.at(-1)?.[0] ?? 0) + 0.5 && corners.length > 1) corners.pop();
    corners.push([x, growth.bytes[i] as Bytes]);
  }
  const trace = (height: (bytes: Bytes) => number, back: boolean): void => {
    const points: [number, number][] = [];
    for (const [i, [x, bytes]] of corners.entries()) {
      points.push([x, y(height(bytes))], [corners[i + 1]?.[0] ?? width, y(height(bytes))]);
    }
    for (const [x, at] of back ? points.reverse() : points) path.lineTo(x, at);
  };
  trace(over, false);
  trace(under, true);
  path.closePath();
  return path;
}
