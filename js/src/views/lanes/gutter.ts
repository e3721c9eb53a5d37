/** The names of the lanes: how wide their column is, and how names that do not fit are cut. */
import { shape, short } from "../format.js";
import type { Track } from "./tracks.js";

const LEAST = 118;
/** Where there is little room for all. */
const LEAST_TIGHT = 92;
const TIGHT = 520;
/** Left of a name: the ring that says whether it carries a gradient; right of it: room before the bars. */
const AROUND = 38;
export const INDENT = 10;
/** So many of the longest names are measured. */
const MEASURED = 40;

/** As wide as the names need, and at most a quarter of the whole. */
export function gutterWidth(
  ctx: CanvasRenderingContext2D,
  font: string,
  tracks: readonly Track[],
  width: number,
): number {
  const least = width < TIGHT ? LEAST_TIGHT : LEAST;
  const most = Math.max(least, Math.min(240, width * 0.25));
  const names = tracks
    .map(({ array, depth }) => ({ text: short(array.label, 80), second: shape(array), indent: depth * INDENT }))
    .sort((a, b) => b.text.length - a.text.length)
    .slice(0, MEASURED);
  let widest = 0;
  for (const { text, second, indent } of names) {
    ctx.font = `600 12px ${font}`;
    widest = Math.max(widest, ctx.measureText(text).width + indent);
    ctx.font = `11px ${font}`;
    widest = Math.max(widest, ctx.measureText(short(second, 20)).width + indent);
  }
  return Math.round(Math.max(least, Math.min(most, widest + AROUND)));
}

const fitted = new Map<string, string>();
const MOST_FITTED = 4000;

/** Text cut to a width in pixels. Measuring is slow, and a frame shows the same names as the one before. */
export function fitText(ctx: CanvasRenderingContext2D, text: string, width: number, middle = false): string {
  const whole = short(text, 80);
  const key = `${Math.floor(width)} ${middle} ${ctx.font} ${whole}`;
  const known = fitted.get(key);
  if (known !== undefined) return known;
  let cut = whole;
  for (let keep = whole.length - 1; keep > 0 && ctx.measureText(cut).width > width; keep--)
    cut = cutTo(whole, keep, middle);
  if (fitted.size >= MOST_FITTED) fitted.clear();
  fitted.set(key, cut);
  return cut;
}

/** Names are cut in their middle: `state.particle_q` and `state.particle_qd` differ at the end. */
function cutTo(text: string, keep: number, middle: boolean): string {
  if (!middle) return `${text.slice(0, keep)}…`;
  const tail = Math.floor(keep * 0.45);
  return `${text.slice(0, keep - tail)}…${text.slice(text.length - tail)}`;
}
