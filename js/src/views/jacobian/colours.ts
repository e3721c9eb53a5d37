/** The colours of a Jacobian's maps: derivatives in the colours of all pictures, errors in red by their logarithm. */
import { type HeatColours, heatColour, mixed, type Rgb, shade } from "../colormap.js";
import { ADJOINT_ALONE, type Cells, NOTHING_KNOWN } from "./data.js";

export const MAPS = ["ad", "fd", "error"] as const;
export type MapName = (typeof MAPS)[number];

/** Of errors that can be told apart. */
const DECADES = 4;
/** Relative to the largest derivative: errors below this never have a strong colour. */
const LEAST = 1e-3;

export interface Scale {
  readonly value: number;
  readonly error: number;
}

export function topError(scale: Scale): number {
  return Math.max(scale.error, LEAST * scale.value) || 1;
}

export function errorShade(error: number, scale: Scale): number {
  return error === 0 ? 0 : shade(1 + Math.log10(error / topError(scale)) / DECADES);
}

/** Return the colour of a cell, or null if it was not evaluated (the page is hatched there). */
export function cellColour(cells: Cells, map: MapName, at: number, scale: Scale, colours: HeatColours): Rgb | null {
  const known = cells.known[at] as number;
  if (known === NOTHING_KNOWN) return null;
  const value = cells[map][at] as number;
  if (known === ADJOINT_ALONE && map !== "ad" && Number.isNaN(value)) return null;
  if (!Number.isFinite(value)) return colours.broken;
  if (map === "error") return mixed(colours.page, colours.wrong, errorShade(value, scale));
  return heatColour(value, { base: 0, top: scale.value || 1 }, colours);
}

/** RGBA of all cells, transparent where nothing was evaluated. */
export function pixels(cells: Cells, map: MapName, scale: Scale, colours: HeatColours): Uint8ClampedArray<ArrayBuffer> {
  const data = new Uint8ClampedArray(new ArrayBuffer(cells.width * cells.height * 4));
  for (let at = 0; at < cells.width * cells.height; at++) {
    const colour = cellColour(cells, map, at, scale, colours);
    if (colour === null) continue;
    data.set(colour, 4 * at);
    data[4 * at + 3] = 255;
  }
  return data;
}
