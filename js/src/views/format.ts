/** Numbers, sizes, places and shapes as text. Pure. */
import type { ArgValue, ArrayInfo, Place } from "../trace/types.js";

export function number(value: number | null, digits = 3): string {
  if (value === null) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Inf" : "−Inf";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(digits));
  const text = size >= 1e5 || size < 1e-3 ? rounded.toExponential() : String(rounded);
  return text.replace("e+", "e").replace("-", "−").replace("e-", "e−");
}

export function whole(value: number): string {
  return value.toLocaleString("en-US");
}

export function bytes(value: number): string {
  if (value < 999.5) return `${Math.round(value)} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let scaled = value;
  let unit = "";
  for (const next of units) {
    scaled /= 1000;
    unit = next;
    if (scaled < 999.5) break;
  }
  return `${scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${unit}`;
}

export function seconds(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return "–";
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${number(value * 1e6)} µs`;
  if (value < 1) return `${number(value * 1e3)} ms`;
  return `${number(value)} s`;
}

export function shape(array: Pick<ArrayInfo, "dtype" | "shape">): string {
  return `${array.dtype}[${array.shape.join("×")}]`;
}

export function byteSize(array: ArrayInfo): number {
  return Math.max(0, array.stop - array.start);
}

export function dim(values: readonly number[]): string {
  return values.length === 0 ? "–" : values.map(whole).join(" × ");
}

/** The last part of a path; what a notebook calls its cells is left as it is. */
export function fileName(path: string): string {
  const name = path.split(/[\\/]/).pop();
  return name === undefined || name === "" ? path : name;
}

export function place(at: Place | null): string {
  if (at === null || at.file === "") return "–";
  return `${fileName(at.file)}:${at.line}`;
}

export function argValue(value: ArgValue): string {
  if (value === null) return "–";
  if (typeof value === "number") return number(value, 6);
  if (typeof value === "string") return value;
  return `(${value.map((v) => number(v, 6)).join(", ")})`;
}

export function plural(count: number, noun: string, more = `${noun}s`): string {
  return `${whole(count)} ${count === 1 ? noun : more}`;
}

/** "1, 2, 3 and 40 more". */
export function listed(items: readonly (string | number)[], most = 6): string {
  const shown = items.slice(0, most).join(", ");
  return items.length <= most ? shown : `${shown} and ${items.length - most} more`;
}

/** Cuts a text to one line of a canvas or a tab; a DOM element is better cut by its style. */
export function short(text: string, most = 40): string {
  const line = text.replace(/\s+/g, " ");
  return line.length <= most ? line : `${line.slice(0, most - 1)}…`;
}

/** Return the title of a tape: its name and number, or the number alone. */
export function tapeTitle(name: string, id: number | string): string {
  const numbered = `tape ${id}`;
  if (/^(tape( \d+)?)?$/.test(name)) return numbered;
  return name.endsWith(numbered) ? name : `${name} · ${numbered}`;
}
