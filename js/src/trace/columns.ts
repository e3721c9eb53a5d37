/**
 * A trace as typed columns: what a tape of 100,000 launches takes in megabytes and milliseconds, where objects would take
 * seconds. Read from the packed form (`unpack.ts`) or from JSON (`jsonColumns.ts`); every index in it has been checked, so that
 * readers need not check again. -1 stands for null throughout.
 */
import type { ArgValue, LaunchKind, Place, VersionStatus } from "./types.js";

/** In the order of their codes; the packed form has the same. */
export const KINDS: readonly LaunchKind[] = ["kernel", "copy", "fill", "func", "python"];
export const STATUSES: readonly VersionStatus[] = ["kept", "preserved", "lost", "harmless", "live"];
export const LOST = STATUSES.indexOf("lost");
export const PRESERVED = STATUSES.indexOf("preserved");

/** Bits of `args.flags`. */
export const ARG_READS = 1;
export const ARG_WRITES = 2;
export const ARG_NEEDED = 4;
/** Bits of `versions.flags`. */
export const VERSION_PRESERVED = 1;
export const VERSION_RECOMPUTED = 2;

/** By launch. */
export interface LaunchColumns {
  readonly count: number;
  /** Code in `KINDS`. */
  readonly kind: Uint8Array;
  /** In `strings`. */
  readonly name: Int32Array;
  /** In `trace.kernels`, or -1. */
  readonly kernel: Int32Array;
  /** The innermost scope, in `trace.scopes`, or -1. */
  readonly scope: Int32Array;
  /** In `dims`. */
  readonly dim: Int32Array;
  /** In `places`, or -1. */
  readonly site: Int32Array;
  /** NaN if it was not measured. */
  readonly seconds: Float64Array;
  readonly backwardSeconds: Float64Array;
  /** Launch i has the arguments `args[i]` to `args[i + 1]`; one entry more than there are launches. */
  readonly args: Int32Array;
}

/** By argument, all launches in a row. */
export interface ArgColumns {
  readonly count: number;
  /** In `strings`. */
  readonly name: Int32Array;
  /** Id of the array, or -1 for a value. */
  readonly array: Int32Array;
  /** In `values`, or -1. */
  readonly value: Int32Array;
  /** Number of the version that the launch read or wrote, or -1. */
  readonly readVersion: Int32Array;
  readonly writeVersion: Int32Array;
  /** `ARG_READS`, `ARG_WRITES`, `ARG_NEEDED`. */
  readonly flags: Uint8Array;
}

/** By version, those of one array in a row, in the order of their numbers. */
export interface VersionColumns {
  readonly count: number;
  /** Array a has the versions `of[a]` to `of[a + 1]`; one entry more than there are arrays. */
  readonly of: Int32Array;
  readonly array: Int32Array;
  /** `Version.version`; its position within the array in every sound trace. */
  readonly number: Int32Array;
  /** The launch that wrote it, or -1: it was there before the tape, or was written outside of it. */
  readonly writtenBy: Int32Array;
  /**
   * From which launch on it stands; ascending within an array. The launch that wrote it; of one that was written outside of
   * the tape the first that read it; -1 before the tape.
   */
  readonly since: Int32Array;
  /** Or -1. */
  readonly overwrittenBy: Int32Array;
  /** Code in `STATUSES`. */
  readonly status: Uint8Array;
  /** `VERSION_PRESERVED`, `VERSION_RECOMPUTED`. */
  readonly flags: Uint8Array;
  /** Version v was read by the launches `readers[reads[v]]` to `readers[reads[v + 1]]`, ascending. */
  readonly reads: Int32Array;
  readonly readers: Int32Array;
  /** The same for the launches whose adjoint needs the values. */
  readonly neededBy: Int32Array;
  readonly needers: Int32Array;
  /** In `summaries`, or -1. */
  readonly value: Int32Array;
  readonly adjoint: Int32Array;
}

export interface SummaryColumns {
  readonly count: number;
  readonly counts: Float64Array;
  readonly nan: Float64Array;
  readonly inf: Float64Array;
  /** NaN if no value is finite. */
  readonly min: Float64Array;
  readonly max: Float64Array;
  readonly mean: Float64Array;
  readonly norm: Float64Array;
  /** In `histograms`, or -1. */
  readonly histogram: Int32Array;
}

export interface HistogramColumns {
  readonly count: number;
  readonly low: Float64Array;
  readonly high: Float64Array;
  /** Histogram i has the counts `bins[of[i]]` to `bins[of[i + 1]]`. */
  readonly of: Int32Array;
  readonly bins: Float64Array;
}

export interface TraceColumns {
  readonly launches: LaunchColumns;
  readonly args: ArgColumns;
  readonly versions: VersionColumns;
  readonly summaries: SummaryColumns;
  readonly histograms: HistogramColumns;
  /** Values that many launches share are stored once. */
  readonly strings: readonly string[];
  readonly places: readonly Place[];
  readonly dims: readonly (readonly number[])[];
  readonly values: readonly ArgValue[];
}

/** Puts each of several lists in a row into ascending order; free where they are. */
export function sortWithin(offsets: Int32Array, flat: Int32Array): void {
  for (let i = 0; i + 1 < offsets.length; i++) {
    const end = offsets[i + 1] as number;
    for (let at = (offsets[i] as number) + 1; at < end; at++) {
      if ((flat[at] as number) >= (flat[at - 1] as number)) continue;
      flat.subarray(offsets[i], end).sort();
      break;
    }
  }
}

/** See `VersionColumns.since`. */
export function sinceOf(
  of: Int32Array,
  writtenBy: Int32Array,
  reads: Int32Array,
  readers: Int32Array,
): VersionColumns["since"] {
  const since = new Int32Array(writtenBy.length);
  for (let array = 0; array + 1 < of.length; array++) {
    const first = of[array] as number;
    let latest = -1;
    for (let v = first; v < (of[array + 1] as number); v++) {
      let from = writtenBy[v] as number;
      const start = reads[v] as number;
      if (from < 0 && v > first && start < (reads[v + 1] as number)) from = readers[start] as number;
      if (from > latest) latest = from;
      since[v] = latest;
    }
  }
  return since;
}
