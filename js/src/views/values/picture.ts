/** A small picture of an array: lines for a list, shades for a grid. NaN and Inf are hatched, never a mere colour. */
import type { Of, Picture } from "../../trace/values.js";
import { css, type HeatColours, heatBar, heatColour, heatScale, readHeat } from "../colormap.js";
import { h } from "../dom.js";
import { number, plural } from "../format.js";

/** Of the picture of a list. */
const HEIGHT = 56;
/** Of the picture of a grid. */
const HIGHEST = 260;
const LOWEST = 24;
/** Of one cell. */
const LARGEST = 40;
const MOST_RATIO = 3;
const DASHES: readonly (readonly number[])[] = [[], [5, 2], [2, 2], [7, 2, 2, 2]];

interface Range {
  readonly low: number;
  readonly high: number;
  readonly bad: number;
}

/** The finite values of a picture from the lowest to the highest; NaN where there is none. */
export function rangeOf(picture: Picture): Range {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  let bad = 0;
  for (let i = 0; i < picture.low.length; i++) {
    low = Math.min(low, finite(picture.low[i], low));
    high = Math.max(high, finite(picture.high[i], high));
    bad += picture.bad[i] ?? 0;
  }
  return low <= high ? { low, high, bad } : { low: Number.NaN, high: Number.NaN, bad };
}

function finite(value: number | undefined, otherwise: number): number {
  return value === undefined || Number.isNaN(value) ? otherwise : value;
}

/** The picture as a figure; painted once it has a size, and again when that or the colours change. */
export function pictureView(picture: Picture, of: Of, label: string): { element: HTMLElement; paint(): void } {
  const range = rangeOf(picture);
  const grid = picture.rows > 1;
  const cells = grid ? "grid" : "list";
  const bad = range.bad > 0 ? `, ${plural(range.bad, "value")} NaN or Inf` : "";
  const canvas = h("canvas", {
    class: "td-picture",
    role: "img",
    "aria-label": `${label} as a ${cells}, from ${number(range.low)} to ${number(range.high)}${bad}`,
  });
  const paint = (): void => {
    const room = canvas.parentElement?.clientWidth ?? 0;
    const ctx = canvas.getContext("2d");
    if (!ctx || room === 0) return;
    const ratio = Math.min(MOST_RATIO, window.devicePixelRatio || 1);
    const heat = grid ? readHeat(canvas.parentElement ?? canvas) : null;
    const size = grid ? gridSize(picture, room) : { width: room, height: HEIGHT };
    canvas.style.width = grid ? `${size.width}px` : "";
    canvas.style.height = `${size.height}px`;
    canvas.width = Math.round(size.width * ratio);
    canvas.height = Math.round(size.height * ratio);
    ctx.scale(ratio, ratio);
    const style = getComputedStyle(canvas);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const tones = {
      ink: colour(of === "value" ? "--td-accent" : "--td-adj"),
      red: colour("--td-red"),
      axis: colour("--td-border"),
    };
    if (heat) paintGrid(ctx, picture, range, size, heat);
    else paintLines(ctx, picture, range, size.width, tones);
  };
  const bar = grid && range.low < range.high ? h("span", { class: "td-heat-bar", "aria-hidden": "true" }) : null;
  if (bar) bar.style.background = heatBar(range.low, range.high);
  const caption = h("figcaption", {}, h("span", {}, number(range.low)), bar, h("span", {}, number(range.high)));
  return { element: h("figure", { class: "td-pictured" }, canvas, caption), paint };
}

/** A field of any size: its cells are square, unless it is much longer than high. */
function gridSize({ rows, columns }: Picture, room: number): { width: number; height: number } {
  const across = Math.min(room / columns, HIGHEST / rows, LARGEST);
  return { width: Math.round(across * columns), height: Math.max(LOWEST, Math.round(across * rows)) };
}

interface Tones {
  readonly ink: string;
  readonly red: string;
  readonly axis: string;
}

type Pen = CanvasRenderingContext2D;

function paintLines(ctx: Pen, picture: Picture, range: Range, width: number, tones: Tones): void {
  const { columns, series, low, high, bad } = picture;
  const spread = range.high - range.low;
  const pad = 4;
  const x = (column: number): number =>
    columns === 1 ? width / 2 : pad + (column / (columns - 1)) * (width - 2 * pad);
  const y = (value: number): number =>
    spread > 0 && Number.isFinite(spread)
      ? HEIGHT - pad - ((value - range.low) / spread) * (HEIGHT - 2 * pad)
      : HEIGHT / 2;
  ctx.strokeStyle = tones.axis;
  ctx.lineWidth = 1;
  if (range.low <= 0 && range.high >= 0) line(ctx, 0, y(0), width, y(0));
  ctx.strokeStyle = ctx.fillStyle = tones.ink;
  for (let s = 0; s < series; s++) {
    ctx.setLineDash([...(DASHES[s % DASHES.length] ?? [])]);
    ctx.globalAlpha = 1 - 0.18 * s;
    ctx.beginPath();
    let drawing = false;
    for (let c = 0; c < columns; c++) {
      const i = c * series + s;
      const bottom = low[i] ?? Number.NaN;
      const top = high[i] ?? Number.NaN;
      if (Number.isNaN(bottom)) {
        drawing = false;
        continue;
      }
      if (drawing) ctx.lineTo(x(c), y(bottom));
      else ctx.moveTo(x(c), y(bottom));
      if (top !== bottom) ctx.lineTo(x(c), y(top));
      drawing = true;
      if (columns <= 40) ctx.rect(x(c) - 1, y(bottom) - 1, 2, 2);
    }
    ctx.stroke();
  }
  ctx.globalAlpha = 1;
  ctx.setLineDash([]);
  ctx.strokeStyle = tones.red;
  for (let i = 0; i < bad.length; i++) {
    if ((bad[i] ?? 0) > 0) cross(ctx, x(Math.floor(i / series)), 7, 3);
  }
}

function paintGrid(
  ctx: Pen,
  picture: Picture,
  range: Range,
  { width, height }: { width: number; height: number },
  colours: HeatColours,
): void {
  const { rows, columns, low, high, bad } = picture;
  const across = width / columns;
  const down = height / rows;
  const scale = heatScale(range.low, range.high);
  ctx.fillStyle = css(colours.page);
  ctx.fillRect(0, 0, width, height);
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < columns; c++) {
      const i = r * columns + c;
      const value = ((low[i] ?? Number.NaN) + (high[i] ?? Number.NaN)) / 2;
      if (!Number.isNaN(value)) {
        ctx.fillStyle = css(heatColour(value, scale, colours));
        ctx.fillRect(c * across, r * down, across + 0.3, down + 0.3);
      }
      if ((bad[i] ?? 0) > 0) {
        ctx.strokeStyle = css(colours.wrong);
        ctx.lineWidth = 1.2;
        cross(ctx, (c + 0.5) * across, (r + 0.5) * down, Math.max(1.5, Math.min(across, down) / 3));
      }
    }
  }
}

function cross(ctx: Pen, x: number, y: number, size: number): void {
  line(ctx, x - size, y - size, x + size, y + size);
  line(ctx, x - size, y + size, x + size, y - size);
}

function line(ctx: Pen, x0: number, y0: number, x1: number, y1: number): void {
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
}
