/** The columns of a trace that was read from JSON. */
import {
  ARG_NEEDED,
  ARG_READS,
  ARG_WRITES,
  KINDS,
  STATUSES,
  sinceOf,
  sortWithin,
  type TraceColumns,
  VERSION_PRESERVED,
  VERSION_RECOMPUTED,
} from "./columns.js";
import type { ArgValue, CheckedTrace, Place, Summary, Version } from "./types.js";

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
  const book = new SummaryTable();
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

class SummaryTable {
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
