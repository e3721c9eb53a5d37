/**
 * The colours of the maps: a diverging scale for derivatives, blue above zero and amber below in proportion to the largest of
 * both sides; red by the logarithm for errors. The same steps as the pictures of a `GradcheckResult`
 * (`tapedebug/autograd/told/heatmap.py`). Zero is the colour of the page, so that a pattern shows.
 */
import { ADJOINT_ALONE, type Cells, NOTHING_KNOWN } from "./data.js";

export type Rgb = readonly [number, number, number];

export interface MapColours {
  readonly page: Rgb;
  readonly plus: Rgb;
  readonly minus: Rgb;
  readonly wrong: Rgb;
  readonly broken: Rgb;
}

export const MAPS = ["ad", "fd", "error"] as const;
export type MapName = (typeof MAPS)[number];

/** Of errors that can be told apart. */
export const DECADES = 4;
/** Of the largest derivative: an error below it is no strong colour, though it be the largest. */
const LEAST = 1e-3;
/** The faintest shade of what is not zero. */
const FAINT = 0.14;

export interface Scale {
  readonly value: number;
  readonly error: number;
}

export function topError(scale: Scale): number {
  return Math.max(scale.error, LEAST * scale.value) || 1;
}

/** 0 for zero, else `FAINT` to 1. */
function shade(level: number): number {
  return level <= 0 ? 0 : FAINT + (1 - FAINT) * Math.min(1, level);
}

export function valueShade(value: number, scale: Scale): number {
  return shade(Math.abs(value) / (scale.value || 1));
}

export function errorShade(error: number, scale: Scale): number {
  return error === 0 ? 0 : shade(1 + Math.log10(error / topError(scale)) / DECADES);
}

function mixed(page: Rgb, ink: Rgb, share: number): Rgb {
  return [0, 1, 2].map(
    (i) => (page[i] as number) + ((ink[i] as number) - (page[i] as number)) * share,
  ) as unknown as Rgb;
}

/** What a map shows in a cell: a colour, or null where nothing was evaluated (there the page is hatched). */
export function cellColour(cells: Cells, map: MapName, at: number, scale: Scale, colours: MapColours): Rgb | null {
  const known = cells.known[at] as number;
  if (known === NOTHING_KNOWN) return null;
  const value = cells[map][at] as number;
  if (known === ADJOINT_ALONE && map !== "ad" && Number.isNaN(value)) return null;
  if (!Number.isFinite(value)) return colours.broken;
  if (map === "error") return mixed(colours.page, colours.wrong, errorShade(value, scale));
  return mixed(colours.page, value < 0 ? colours.minus : colours.plus, valueShade(value, scale));
}

/** RGBA of all cells, transparent where nothing was evaluated. */
export function pixels(cells: Cells, map: MapName, scale: Scale, colours: MapColours): Uint8ClampedArray<ArrayBuffer> {
  const data = new Uint8ClampedArray(new ArrayBuffer(cells.width * cells.height * 4));
  for (let at = 0; at < cells.width * cells.height; at++) {
    const colour = cellColour(cells, map, at, scale, colours);
    if (colour === null) continue;
    data.set(colour, 4 * at);
    data[4 * at + 3] = 255;
  }
  return data;
}

/** The panel's CSS variables as numbers, whatever form they have. */
export function readColours(root: HTMLElement): MapColours | null {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!pen) return null;
  const probe = document.createElement("span");
  probe.style.display = "none";
  root.append(probe);
  const resolve = (name: string): Rgb => {
    probe.style.color = `var(--td-${name})`;
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = getComputedStyle(probe).color || "#888888";
    pen.fillRect(0, 0, 1, 1);
    const { data } = pen.getImageData(0, 0, 1, 1);
    return [data[0] as number, data[1] as number, data[2] as number];
  };
  const found = {
    page: resolve("bg"),
    plus: resolve("accent"),
    minus: resolve("amber"),
    wrong: resolve("red"),
    broken: resolve("adj"),
  };
  probe.remove();
  return found;
}
