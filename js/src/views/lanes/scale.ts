/** Colouring versions by a number: a logarithmic scale in a few steps. */
import type { TraceModel } from "../../trace/model.js";
import type { Version } from "../../trace/types.js";
import { byteSize, bytes, number, seconds } from "../format.js";
import type { ColourBy } from "../state.js";
import { RAMP_STEPS } from "./palette.js";

export interface ColourScale {
  readonly by: ColourBy;
  readonly low: number;
  readonly high: number;
  /** Step 0 to RAMP_STEPS - 1; null where there is no number; "bad" where it is not finite. */
  level(version: Version): number | null | "bad";
  format(value: number): string;
}

export function colourScale(model: TraceModel, by: ColourBy): ColourScale | null {
  if (by === "findings") return null;
  const measure = measures(model)[by];
  let low = Number.POSITIVE_INFINITY;
  let high = 0;
  for (const version of model.trace.versions) {
    const value = measure(version);
    if (value === null || !(value > 0) || !Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const span = high > low ? Math.log(high / low) : 0;
  return {
    by,
    low: high > 0 ? low : 0,
    high,
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

type Measure = (version: Version) => number | null;

function measures(model: TraceModel): Record<Exclude<ColourBy, "findings">, Measure> {
  return {
    value: (v) => (v.value === null ? null : badOr(v.value.nan + v.value.inf, v.value.norm)),
    adjoint: (v) => (v.adjoint === null ? null : badOr(v.adjoint.nan + v.adjoint.inf, v.adjoint.norm)),
    time: (v) => model.launch(v.writtenBy)?.seconds ?? null,
    bytes: (v) => {
      const array = model.array(v.array);
      return array ? byteSize(array) : null;
    },
  };
}

function badOr(bad: number, value: number): number {
  return bad > 0 ? Number.NaN : value;
}
