/**
 * A trace as typed columns: what a tape of 100,000 launches takes in megabytes and milliseconds, where objects would take
 * seconds. Read from JSON (`columnsOf`) or from the packed form (`unpack.ts`); every index in it has been checked, so that
 * those who read it need not. -1 stands for null throughout.
 */
import type { ArgValue, CheckedTrace, LaunchKind, Place, Summary, Version, VersionStatus } from "./types.js";

/** In the order of their codes; the packed form has the same. */
export const KINDS: readonly LaunchKind[] = ["kernel", "copy", "fill", "func"];
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
  /** NaN where it was not measured. */
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
  /** Number of the version that the launch read or left behind, or -1. */
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
  /** NaN where no value is finite. */
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
  /** What many launches have in common is there once. */
  readonly strings: readonly string[];
  readonly places: readonly Place[];
  readonly dims: readonly (readonly number[])[];
  readonly values: readonly ArgValue[];
}

/** Distinct items and their positions. */
class Table<T> {
  readonly items: T[] = [];
  private readonly known = new Map<unknown, number>();

  add(item: T, key: unknown = item): number {
    const known = this.known.get(key);
    if (known !== undefined) return known;
    this.known.set(key, this.items.length);
    return this.items.push(item) - 1;
  }
}

interface Tables {
  readonly strings: Table<string>;
  readonly places: Table<Place>;
  readonly dims: Table<readonly number[]>;
  readonly values: Table<ArgValue>;
}

/** The columns of a trace that was read from JSON. */
export function columnsOf(trace: CheckedTrace): TraceColumns {
  const tables: Tables = { strings: new Table(), places: new Table(), dims: new Table(), values: new Table() };
  const { launches, args } = launchColumns(trace, tables);
  const { versions, summaries, histograms } = versionColumns(trace);
  return {
    launches,
    args,
    versions,
    summaries,
    histograms,
    strings: tables.strings.items,
    places: tables.places.items,
    dims: tables.dims.items,
    values: tables.values.items,
  };
}

function orNone(index: number | null): number {
  return index ?? -1;
}

function launchColumns(trace: CheckedTrace, tables: Tables): Pick<TraceColumns, "launches" | "args"> {
  const list = trace.launches;
  const ints = (read: (launch: (typeof list)[number]) => number): Int32Array => Int32Array.from(list, read);
  const offsets = new Int32Array(list.length + 1);
  for (let i = 0; i < list.length; i++) offsets[i + 1] = (offsets[i] as number) + (list[i]?.args.length ?? 0);
  const all = list.flatMap((launch) => launch.args);
  return {
    launches: {
      count: list.length,
      kind: Uint8Array.from(list, (launch) => KINDS.indexOf(launch.kind)),
      name: ints((launch) => tables.strings.add(launch.name)),
      kernel: ints((launch) => orNone(launch.kernel)),
      scope: ints((launch) => orNone(launch.scope)),
      dim: ints((launch) => tables.dims.add(launch.dim, launch.dim.join())),
      site: ints(({ callSite }) => {
        if (callSite === null) return -1;
        const { file, line, column } = callSite;
        return tables.places.add(callSite, JSON.stringify([file, line, column, callSite.function]));
      }),
      seconds: Float64Array.from(list, (launch) => launch.seconds ?? Number.NaN),
      backwardSeconds: Float64Array.from(list, (launch) => launch.backwardSeconds ?? Number.NaN),
      args: offsets,
    },
    args: {
      count: all.length,
      name: Int32Array.from(all, (arg) => tables.strings.add(arg.name)),
      array: Int32Array.from(all, (arg) => orNone(arg.array)),
      value: Int32Array.from(all, ({ value }) =>
        value === null ? -1 : tables.values.add(value, Array.isArray(value) ? value.join() : value),
      ),
      readVersion: Int32Array.from(all, (arg) => orNone(arg.readVersion)),
      writeVersion: Int32Array.from(all, (arg) => orNone(arg.writeVersion)),
      flags: Uint8Array.from(
        all,
        (arg) => Number(arg.reads) * ARG_READS + Number(arg.writes) * ARG_WRITES + Number(arg.needed) * ARG_NEEDED,
      ),
    },
  };
}

function versionColumns(trace: CheckedTrace): Pick<TraceColumns, "versions" | "summaries" | "histograms"> {
  const groups: Version[][] = trace.arrays.map(() => []);
  for (const version of trace.versions) groups[version.array]?.push(version);
  const of = new Int32Array(groups.length + 1);
  groups.forEach((group, array) => {
    group.sort((a, b) => a.version - b.version);
    of[array + 1] = (of[array] as number) + group.length;
  });
  const list = groups.flat();
  const book = new SummaryBook();
  const reads = flatten(list.map((version) => version.reads));
  const needs = flatten(list.map((version) => version.neededBy));
  const writtenBy = Int32Array.from(list, (version) => orNone(version.writtenBy));
  return {
    versions: {
      count: list.length,
      of,
      array: Int32Array.from(list, (version) => version.array),
      number: Int32Array.from(list, (version) => version.version),
      writtenBy,
      since: sinceOf(of, writtenBy, reads.offsets, reads.flat),
      overwrittenBy: Int32Array.from(list, (version) => orNone(version.overwrittenBy)),
      status: Uint8Array.from(list, (version) => STATUSES.indexOf(version.status)),
      flags: Uint8Array.from(
        list,
        (v) => Number(v.preserved) * VERSION_PRESERVED + Number(v.recomputed) * VERSION_RECOMPUTED,
      ),
      reads: reads.offsets,
      readers: reads.flat,
      neededBy: needs.offsets,
      needers: needs.flat,
      value: Int32Array.from(list, (version) => book.add(version.value)),
      adjoint: Int32Array.from(list, (version) => book.add(version.adjoint)),
    },
    ...book.columns(),
  };
}

/** Lists in a row; each ascending. */
function flatten(lists: readonly (readonly number[])[]): { offsets: Int32Array; flat: Int32Array } {
  const offsets = new Int32Array(lists.length + 1);
  lists.forEach((list, i) => {
    offsets[i + 1] = (offsets[i] as number) + list.length;
  });
  const flat = new Int32Array(offsets[lists.length] as number);
  lists.forEach((list, i) => {
    flat.set(list, offsets[i]);
  });
  sortWithin(offsets, flat);
  return { offsets, flat };
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

class SummaryBook {
  private readonly summaries: Summary[] = [];

  add(summary: Summary | null): number {
    return summary === null ? -1 : this.summaries.push(summary) - 1;
  }

  columns(): Pick<TraceColumns, "summaries" | "histograms"> {
    const list = this.summaries;
    const floats = (read: (summary: Summary) => number): Float64Array => Float64Array.from(list, read);
    const histograms = list.flatMap(({ histogram }) => (histogram === null ? [] : [histogram]));
    const of = new Int32Array(histograms.length + 1);
    histograms.forEach(({ counts }, i) => {
      of[i + 1] = (of[i] as number) + counts.length;
    });
    let seen = 0;
    return {
      summaries: {
        count: list.length,
        counts: floats((s) => s.count),
        nan: floats((s) => s.nan),
        inf: floats((s) => s.inf),
        min: floats((s) => s.min),
        max: floats((s) => s.max),
        mean: floats((s) => s.mean),
        norm: floats((s) => s.norm),
        histogram: Int32Array.from(list, (s) => (s.histogram === null ? -1 : seen++)),
      },
      histograms: {
        count: histograms.length,
        low: Float64Array.from(histograms, (h) => h.low),
        high: Float64Array.from(histograms, (h) => h.high),
        of,
        bins: Float64Array.from(histograms.flatMap((h) => h.counts)),
      },
    };
  }
}
