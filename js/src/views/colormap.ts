/**
 * The one colour map of all pictures: blue above zero, amber below, in proportion to the largest of both sides; zero is the
 * colour of the page, so that a pattern shows. Numbers that are never negative (norms, times, sizes) use its blue half, errors the same
 * steps in red. `--td-ramp` and `--td-ramp-minus` are its ends, also for the legends and for the lanes.
 * `tapedebug/autograd/results/heatmap.py` draws with the same steps.
 */

export type Rgb = readonly [number, number, number];

export interface HeatColours {
  readonly page: Rgb;
  readonly plus: Rgb;
  readonly minus: Rgb;
  readonly wrong: Rgb;
  /** NaN and Inf. */
  readonly broken: Rgb;
}

/** The faintest shade of a number that is not zero. */
const FAINT = 0.14;

/** 0 for zero, else `FAINT` to 1. */
export function shade(level: number): number {
  return level <= 0 ? 0 : FAINT + (1 - FAINT) * Math.min(1, level);
}

export function mixed(page: Rgb, ink: Rgb, share: number): Rgb {
  const part = (i: 0 | 1 | 2): number => page[i] + (ink[i] - page[i]) * share;
  return [part(0), part(1), part(2)];
}

/** Between which numbers a picture has its colours; from `base`, which has that of the page, to `top` on either side. */
interface HeatScale {
  readonly base: number;
  readonly top: number;
}

/** If all values are on one side of zero and the smallest is above this fraction of the largest, the scale starts at the smallest. */
const OFFSET = 0.5;

/** The scale of values from `low` to `high`. Zero is its base, unless they are all so far from it that no pattern would show. */
export function heatScale(low: number, high: number): HeatScale {
  const top = Math.max(Math.abs(low), Math.abs(high));
  const least = Math.min(Math.abs(low), Math.abs(high));
  if (low * high > 0 && least > OFFSET * top && least < top) return { base: low > 0 ? low : high, top: top - least };
  return { base: 0, top: top || 1 };
}

export function heatShade(value: number, { base, top }: HeatScale): number {
  // a number that is not zero never has the page's colour, not even at the base
  return base === 0 ? shade(Math.abs(value) / top) : FAINT + (1 - FAINT) * Math.min(1, Math.abs(value - base) / top);
}

export function heatColour(value: number, scale: HeatScale, colours: HeatColours): Rgb {
  if (!Number.isFinite(value)) return colours.broken;
  return mixed(colours.page, value < 0 ? colours.minus : colours.plus, heatShade(value, scale));
}

/** The colours from `low` to `high`, as the background of a bar. */
export function heatBar(low: number, high: number): string {
  const scale = heatScale(low, high);
  const colour = (value: number): string => {
    const share = Math.round(100 * heatShade(value, scale));
    return `color-mix(in srgb, var(${value < 0 ? "--td-ramp-minus" : "--td-ramp"}) ${share}%, var(--td-bg))`;
  };
  const crossing = low < 0 && high > 0 ? [`var(--td-bg) ${Math.round((100 * -low) / (high - low))}%`] : [];
  return `linear-gradient(to right, ${[colour(low), ...crossing, colour(high)].join(", ")})`;
}

export function css(colour: Rgb): string {
  return `rgb(${colour.map(Math.round).join(" ")})`;
}

/** The panel's CSS variables as numbers, whatever form they have. */
export function readHeat(root: HTMLElement): HeatColours | null {
  const ctx = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!ctx) return null;
  const probe = document.createElement("span");
  probe.style.display = "none";
  root.append(probe);
  const resolve = (name: string): Rgb => {
    probe.style.color = `var(--td-${name})`;
    ctx.clearRect(0, 0, 1, 1);
    ctx.fillStyle = getComputedStyle(probe).color || "#888888";
    ctx.fillRect(0, 0, 1, 1);
    const { data } = ctx.getImageData(0, 0, 1, 1);
    return [data[0] as number, data[1] as number, data[2] as number];
  };
  const found = {
    page: resolve("bg"),
    plus: resolve("ramp"),
    minus: resolve("ramp-minus"),
    wrong: resolve("red"),
    broken: resolve("adj"),
  };
  probe.remove();
  return found;
}
