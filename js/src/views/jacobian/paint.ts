/** One of the three maps on its canvas: cells, the lines between elements and components, the worst entry, the cursor. */

import type { HeatColours } from "../colormap.js";
import { hatch, type Palette } from "../lanes/palette.js";
import { type MapName, pixels, type Scale } from "./colours.js";
import type { Cells, Side } from "./data.js";
import type { Window } from "./window.js";

/** Pixels between lines, below which they would hide the cells. */
const ELEMENT_ROOM = 7;
const COMPONENT_ROOM = 6;
/** Pixels of a mark around an entry, at least. */
const MARK = 7;

export interface Scene {
  readonly layers: readonly Cells[];
  readonly window: Window;
  readonly output: Side;
  readonly input: Side;
  readonly scale: Scale;
  readonly colours: HeatColours;
  readonly palette: Palette;
  readonly worst: { readonly row: number; readonly column: number } | null;
  readonly cursor: { readonly row: number; readonly column: number } | null;
  readonly ratio: number;
}

/** Pictures of cells, one pixel each; made once for a theme. */
const PICTURES = new WeakMap<Cells, Map<string, HTMLCanvasElement>>();

function picture(cells: Cells, map: MapName, scale: Scale, colours: HeatColours): HTMLCanvasElement {
  const name = `${map} ${Object.values(colours).join(" ")}`;
  const known = PICTURES.get(cells) ?? new Map<string, HTMLCanvasElement>();
  PICTURES.set(cells, known);
  const found = known.get(name);
  if (found) return found;
  const canvas = document.createElement("canvas");
  canvas.width = cells.width;
  canvas.height = cells.height;
  canvas.getContext("2d")?.putImageData(new ImageData(pixels(cells, map, scale, colours), cells.width), 0, 0);
  known.set(name, canvas);
  return canvas;
}

export function paintMap(canvas: HTMLCanvasElement, map: MapName, scene: Scene): void {
  const ctx = canvas.getContext("2d");
  const { ratio, window: seen, palette } = scene;
  const width = canvas.width / ratio;
  const height = canvas.height / ratio;
  if (!ctx || width <= 0 || height <= 0 || seen.width === 0 || seen.height === 0) return;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = palette.bg;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = hatch(ctx, palette["fg-2"], 3, ratio, 1, 0.14);
  ctx.fillRect(0, 0, width, height);
  const dx = width / seen.width;
  const dy = height / seen.height;
  ctx.imageSmoothingEnabled = false;
  for (const cells of scene.layers) {
    const x = (cells.columns[0] - seen.left) * dx;
    const y = (cells.rows[0] - seen.top) * dy;
    const wide = (cells.columns[1] - cells.columns[0]) * dx;
    const high = (cells.rows[1] - cells.rows[0]) * dy;
    ctx.save();
    ctx.beginPath();
    ctx.rect(x, y, wide, high);
    ctx.clip();
    if (cells !== scene.layers[0]) {
      // finer cells replace coarse ones, even if they were not evaluated
      ctx.fillStyle = palette.bg;
      ctx.fillRect(x, y, wide, high);
      ctx.fillStyle = hatch(ctx, palette["fg-2"], 3, ratio, 1, 0.14);
      ctx.fillRect(x, y, wide, high);
    }
    ctx.drawImage(picture(cells, map, scene.scale, scene.colours), x, y, wide, high);
    ctx.restore();
  }
  paintLines(ctx, scene, dx, dy, width, height);
  if (scene.worst) paintMark(ctx, scene, scene.worst, dx, dy, palette.red, 1.5, 2);
  if (scene.cursor) {
    paintMark(ctx, scene, scene.cursor, dx, dy, palette.bg, 3);
    paintMark(ctx, scene, scene.cursor, dx, dy, palette.fg, 1.25);
  }
}

function paintLines(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  dx: number,
  dy: number,
  width: number,
  height: number,
): void {
  const { window: seen, palette } = scene;
  const sides = [
    { side: scene.output, start: seen.top, count: seen.height, step: dy, length: width, across: true },
    { side: scene.input, start: seen.left, count: seen.width, step: dx, length: height, across: false },
  ];
  for (const thick of [false, true]) {
    ctx.beginPath();
    for (const { side, start, count, step, length, across } of sides) {
      const each = side.suffixes.length;
      if (thick ? each * step < ELEMENT_ROOM : each === 1 || step < COMPONENT_ROOM) continue;
      const stride = thick ? each : 1;
      for (let at = Math.ceil(start / stride) * stride; at < start + count; at += stride) {
        if (!thick && at % each === 0) continue;
        const place = Math.round((at - start) * step * scene.ratio) / scene.ratio;
        if (across) {
          ctx.moveTo(0, place);
          ctx.lineTo(length, place);
        } else {
          ctx.moveTo(place, 0);
          ctx.lineTo(place, length);
        }
      }
    }
    ctx.strokeStyle = thick ? palette["fg-2"] : palette.border;
    ctx.globalAlpha = thick ? 0.55 : 0.9;
    ctx.lineWidth = thick ? 1 : 0.5;
    ctx.stroke();
    ctx.globalAlpha = 1;
  }
}

function paintMark(
  ctx: CanvasRenderingContext2D,
  scene: Scene,
  { row, column }: { readonly row: number; readonly column: number },
  dx: number,
  dy: number,
  colour: string,
  weight: number,
  room = 0,
): void {
  const { window: seen } = scene;
  const wide = Math.max(MARK, dx) + 2 * room;
  const high = Math.max(MARK, dy) + 2 * room;
  const x = (column + 0.5 - seen.left) * dx - wide / 2;
  const y = (row + 0.5 - seen.top) * dy - high / 2;
  // within the canvas: of a frame around an entry at its edge all four sides are to be seen
  const left = Math.max(x, weight / 2);
  const top = Math.max(y, weight / 2);
  const right = Math.min(x + wide, ctx.canvas.width / scene.ratio - weight / 2);
  const bottom = Math.min(y + high, ctx.canvas.height / scene.ratio - weight / 2);
  if (right <= left || bottom <= top) return;
  ctx.strokeStyle = colour;
  ctx.lineWidth = weight;
  ctx.strokeRect(left, top, right - left, bottom - top);
}
