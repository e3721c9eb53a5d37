/** Colouring versions by a number: a logarithmic scale in a few steps. */
import type { TraceModel } from "../../trace/model.js";
import { byteSize, bytes, number, seconds } from "../format.js";
import type { ColourBy } from "../state.js";
import { RAMP_STEPS } from "./palette.js";

export interface ColourScale {
  readonly by: ColourBy;
  /** The smallest and the largest number above 0; both 0 if there is none. */
  readonly low: number;
  readonly high: number;
  /** The number of versions whose value is 0, not finite, or missing. */
  readonly zeros: number;
  readonly bad: number;
  readonly missing: number;
  /** Step 0 to RAMP_STEPS - 1 of a version by its place in the columns; null if there is no number; "bad" where it is not finite. */
  level(version: number): number | null | "bad";
  format(value: number): string;
}

/** Of a version, by its place in the columns; NaN if it is not finite, null if there is none. */
type Measure = (version: number) => number | null;

export function colourScale(model: TraceModel, by: ColourBy): ColourScale | null {
  if (by === "findings") return null;
  const measure = measures(model)[by];
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  let zeros = 0;
  let bad = 0;
  let missing = 0;
  for (let v = 0; v < model.columns.versions.count; v++) {
    const value = measure(v);
    if (value === null) missing++;
    else if (!Number.isFinite(value)) bad++;
    else if (!(value > 0)) zeros++;
    else {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  const span = high > low ? Math.log(high / low) : 0;
  return {
    by,
    low: high > 0 ? low : 0,
    high,
    zeros,
    bad,
    missing,
    level(version) {
      const value = measure(version);
      if (value === null) return null;
      if (!Number.isFinite(value)) return "bad";
      if (!(value > 0)) return 0;
      return span === 0 ? RAMP_STEPS - 1 : Math.round((Math.log(value / low) / span) * (RAMP_STEPS - 1));
    },
    format: by === "time" ? seconds : by === "bytes" ? bytes : number,
  };
}

function measures(model: TraceModel): Record<Exclude<ColourBy, "findings">, Measure> {
  const { versions, summaries, launches } = model.columns;
  const norm = (column: Int32Array): Measure => {
    return (v) => {
      const s = column[v] as number;
      if (s < 0) return null;
      return (summaries.nan[s] as number) + (summaries.inf[s] as number) > 0
        ? Number.NaN
        : (summaries.norm[s] as number);
    };
  };
  const sizes = model.trace.arrays.map(byteSize);
  return {
    value: norm(versions.value),
    adjoint: norm(versions.adjoint),
    time: (v) => {
      const by = versions.writtenBy[v] as number;
      const time = by < 0 ? Number.NaN : (launches.seconds[by] as number);
      return Number.isNaN(time) ? null : time; // not measured, which is nothing bad
    },
    bytes: (v) => sizes[versions.array[v] as number] ?? null,
  };
}
