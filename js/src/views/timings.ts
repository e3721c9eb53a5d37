/** The durations of the steps of a diagnosis, in words. */
import type { Timing } from "../trace/types.js";
import { plural, seconds, short } from "./format.js";

/** The slowest steps, the slowest first, and a row for all others; empty without a diagnosis. */
export function timingRows(
  timings: readonly Timing[],
  most: number,
): [step: string, measured: string, estimate: string][] {
  const sorted = [...timings].sort((a, b) => b.seconds - a.seconds);
  const rows = sorted
    .slice(0, most)
    .map(({ step, seconds: took, estimate, completed }): [string, string, string] => [
      short(step, 80),
      seconds(took) + (completed ? "" : ", not completed"),
      seconds(estimate),
    ]);
  const others = sorted.slice(most);
  const left = others.reduce((sum, timing) => sum + timing.seconds, 0);
  if (others.length > 0) rows.push([plural(others.length, "other step"), seconds(left), "–"]);
  return rows;
}

/** The duration of all steps together, and of the slowest ones, in one line. */
export function timingLine(timings: readonly Timing[], most: number): string {
  const total = timings.reduce((sum, timing) => sum + timing.seconds, 0);
  const rows = timingRows(timings, most).filter((_, i) => i < most);
  return `${seconds(total)}, of which ${rows.map(([step, took]) => `${step} ${took}`).join(", ")}`;
}
