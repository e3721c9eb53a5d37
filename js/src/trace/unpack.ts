/**
 * The packed form of a trace → checked columns. Written by `tapedebug/trace/packing.py`, described in `docs/trace.md`.
 *
 * The data may be damaged, or crafted to hang a browser: lengths must fit each
 * other (else it is not a trace), and every index is checked once, in a linear pass (an invalid one becomes a problem
 * that the panel shows).
 */

import type { ArgColumns, LaunchColumns, TraceColumns, VersionColumns } from "./columns.js";
import { type HistogramColumns, KINDS, STATUSES, type SummaryColumns, sinceOf, sortWithin } from "./columns.js";
import { breakCycles, type Limits, readHead, readPlaceOf, readValue } from "./head.js";
import { describe, isRecord, type Raw, Reader, TraceError } from "./reader.js";
import type { Scope, Trace } from "./types.js";

export const FORMAT = "tapedebug-columns";
const SCHEMA = 1;

/** The most launches and scopes that a panel accepts; several times what it is designed for. */
const MOST_LAUNCHES = 4_000_000;
const MOST_SCOPES = 2_000_000;
/** Entries of any one column. */
const MOST_ENTRIES = 40_000_000;
const MAX_INT = 2 ** 31 - 1;

type Bytes = DataView | Uint8Array;

export interface Packed {
  readonly head: Raw;
  readonly columns: Readonly<Record<string, Bytes>>;
}

interface Unpacked {
  readonly trace: Trace;
  readonly columns: TraceColumns;
  readonly problems: readonly string[];
}

export function isPacked(data: unknown): data is Packed {
  return isRecord(data) && isRecord(data.head) && data.head.format === FORMAT;
}

/**
 * Checks a packed trace.
 *
 * @throws {TraceError} if it is incomplete, or if this panel is too old for it.
 */
export function unpack({ head, columns }: Packed): Unpacked {
  if (head.schema !== SCHEMA) {
    throw new TraceError(
      `This trace has schema ${describe(head.schema)}; this panel reads schema ${SCHEMA}. Use the tapedebug that wrote it.`,
    );
  }
  const r = new Reader();
  const source = new ColumnReader(r, head, isRecord(columns) ? columns : {});
  const strings = r.list(head, "strings", "trace").map((text, i) => r.text({ text }, "text", `trace.strings[${i}]`));
  const launchCount = source.length("launches.kind", MOST_LAUNCHES);
  const scopes = readScopes(r, source, strings, launchCount);
  const trace = readHead(r, head, { launches: launchCount, scopes });
  const limits: Limits = {
    launches: launchCount,
    arrays: trace.arrays.length,
    kernels: trace.kernels.length,
    scopes: scopes.length,
  };
  const places = r.list(head, "places", "trace").map((place, i) => {
    const path = `trace.places[${i}]`;
    if (!isRecord(place)) r.problem(path, "a place", place);
    return readPlaceOf(r, isRecord(place) ? place : {}, path);
  });
  const dims = r.list(head, "dims", "trace").map((dim, i) => r.indices({ dim }, "dim", `trace.dims[${i}]`));
  const values = r.list(head, "values", "trace").map(readValue);
  const tables = { strings, places, dims, values };
  const launches = readLaunches(source, tables, limits);
  const summaries = readSummaries(source);
  const result: TraceColumns = {
    ...tables,
    launches,
    args: readArgs(source, launches, tables, limits),
    versions: readVersions(source, limits, summaries.summaries.count),
    ...summaries,
  };
  const order = source.indices("backward.order", source.length("backward.order"), limits.launches);
  return { trace: { ...trace, backward: { ...trace.backward, order } }, columns: result, problems: r.report() };
}

type Tables = Pick<TraceColumns, "strings" | "places" | "dims" | "values">;

function readScopes(r: Reader, source: ColumnReader, strings: readonly string[], launches: number): Scope[] {
  const count = source.length("scopes.name", MOST_SCOPES);
  const name = source.indices("scopes.name", count, strings.length, false);
  const parent = source.indices("scopes.parent", count, count);
  const first = source.indices("scopes.first", count, launches, false);
  const last = source.indices("scopes.last", count, launches, false);
  const scopes: Scope[] = [];
  for (let id = 0; id < count; id++) {
    const [a, b] = [first[id] as number, last[id] as number];
    const around = parent[id] as number;
    scopes.push({
      id,
      name: strings[name[id] as number] ?? `scope ${id}`,
      parent: around < 0 ? null : around,
      first: Math.min(a, b),
      last: Math.max(a, b),
    });
  }
  return breakCycles(r, scopes);
}

function readLaunches(source: ColumnReader, tables: Tables, limits: Limits): LaunchColumns {
  const count = limits.launches;
  return {
    count,
    kind: source.codes("launches.kind", count, KINDS.length),
    name: source.indices("launches.name", count, tables.strings.length, false),
    kernel: source.indices("launches.kernel", count, limits.kernels),
    scope: source.indices("launches.scope", count, limits.scopes),
    dim: source.indices("launches.dim", count, tables.dims.length, false),
    site: source.indices("launches.site", count, tables.places.length),
    seconds: source.floats("launches.seconds", count),
    backwardSeconds: source.floats("launches.backward_seconds", count),
    args: source.offsets("launches.args", count),
  };
}

function readArgs(source: ColumnReader, launches: LaunchColumns, tables: Tables, limits: Limits): ArgColumns {
  const count = launches.args[launches.count] as number;
  return {
    count,
    name: source.indices("args.name", count, tables.strings.length, false),
    array: source.indices("args.array", count, limits.arrays),
    value: source.indices("args.value", count, tables.values.length),
    readVersion: source.indices("args.read_version", count, MAX_INT),
    writeVersion: source.indices("args.write_version", count, MAX_INT),
    flags: source.codes("args.flags", count, 8),
  };
}

function readVersions(source: ColumnReader, limits: Limits, summaries: number): VersionColumns {
  const of = source.offsets("versions.of", limits.arrays);
  const count = of[limits.arrays] as number;
  const array = new Int32Array(count);
  const number = new Int32Array(count);
  for (let a = 0; a < limits.arrays; a++) {
    const first = of[a] as number;
    array.fill(a, first, of[a + 1]);
    for (let v = first; v < (of[a + 1] as number); v++) number[v] = v - first;
  }
  const launchLists = (name: string): [Int32Array, Int32Array] => {
    const offsets = source.offsets(name, count);
    const flat = source.indices(`${name}.launches`, offsets[count] as number, limits.launches, false);
    sortWithin(offsets, flat);
    return [offsets, flat];
  };
  const writtenBy = source.indices("versions.written_by", count, limits.launches);
  const [reads, readers] = launchLists("versions.reads");
  const [neededBy, needers] = launchLists("versions.needed_by");
  return {
    count,
    of,
    array,
    number,
    writtenBy,
    since: sinceOf(of, writtenBy, reads, readers),
    overwrittenBy: source.indices("versions.overwritten_by", count, limits.launches),
    status: source.codes("versions.status", count, STATUSES.length),
    flags: source.codes("versions.flags", count, 4),
    reads,
    readers,
    neededBy,
    needers,
    value: source.indices("versions.value", count, summaries),
    adjoint: source.indices("versions.adjoint", count, summaries),
  };
}

function readSummaries(source: ColumnReader): { summaries: SummaryColumns; histograms: HistogramColumns } {
  const bars = source.length("histograms.low");
  const of = source.offsets("histograms.of", bars);
  const count = source.length("summaries.count");
  return {
    summaries: {
      count,
      counts: source.floats("summaries.count", count, 0),
      nan: source.floats("summaries.nan", count, 0),
      inf: source.floats("summaries.inf", count, 0),
      min: source.floats("summaries.min", count),
      max: source.floats("summaries.max", count),
      mean: source.floats("summaries.mean", count),
      norm: source.floats("summaries.norm", count),
      histogram: source.indices("summaries.histogram", count, bars),
    },
    histograms: {
      count: bars,
      low: source.floats("histograms.low", bars),
      high: source.floats("histograms.high", bars),
      of,
      bins: source.floats("histograms.counts", of[bars] as number, 0),
    },
  };
}

const READ: Readonly<Record<string, readonly [size: number, read: (view: DataView, at: number) => number]>> = {
  u1: [1, (view, at) => view.getUint8(at)],
  i1: [1, (view, at) => view.getInt8(at)],
  u2: [2, (view, at) => view.getUint16(at, true)],
  i2: [2, (view, at) => view.getInt16(at, true)],
  u4: [4, (view, at) => view.getUint32(at, true)],
  i4: [4, (view, at) => view.getInt32(at, true)],
  f4: [4, (view, at) => view.getFloat32(at, true)],
  f8: [8, (view, at) => view.getFloat64(at, true)],
};

/** Bytes of a type of the packed form; 0 for an unknown type. */
export function widthOf(dtype: unknown): number {
  return typeof dtype === "string" && Object.hasOwn(READ, dtype) ? (READ[dtype]?.[0] ?? 0) : 0;
}

type Numbers = Int32Array | Uint8Array | Float64Array;

/** One column after the other, each copied and checked in one pass. How a column is described: `tapedebug/trace/_columns.py`. */
class ColumnReader {
  private readonly specs: Raw;

  constructor(
    private readonly r: Reader,
    head: Raw,
    private readonly data: Readonly<Record<string, unknown>>,
  ) {
    this.specs = isRecord(head.columns) ? head.columns : {};
  }

  /** The number of entries that a column claims to have; it is checked when the column is read. */
  length(name: string, most = MOST_ENTRIES): number {
    const spec = Object.hasOwn(this.specs, name) ? this.specs[name] : undefined;
    const length = isRecord(spec) ? spec.length : undefined;
    if (typeof length === "number" && Number.isInteger(length) && length >= 0 && length <= most) return length;
    if (typeof length === "number" && length > most) {
      throw new TraceError(`This trace is too large to show: ${name} has ${length} entries, and ${most} are the most.`);
    }
    throw new TraceError(`This trace cannot be shown: column ${name} is ${describe(spec)}.`);
  }

  /** Positions from 0 to `limit - 1`; -1 for none, if that is allowed. Other values become -1, or 0. */
  indices(name: string, length: number, limit: number, orNone = true): Int32Array {
    const low = orNone ? -1 : 0;
    if (!orNone && limit === 0 && length > 0) {
      throw new TraceError(
        `This trace cannot be shown: ${name} has ${length} entries, and there is nothing to point at.`,
      );
    }
    return this.fill(name, new Int32Array(length), low, limit - 1, low);
  }

  /** Small numbers below `limit`. */
  codes(name: string, length: number, limit: number): Uint8Array {
    return this.fill(name, new Uint8Array(length), 0, limit - 1, 0);
  }

  floats(name: string, length: number, low = Number.NEGATIVE_INFINITY): Float64Array {
    return this.fill(name, new Float64Array(length), low, Number.POSITIVE_INFINITY, 0, true);
  }

  /** `count` lists in a row: where each begins, and where the last ends. */
  offsets(name: string, count: number): Int32Array {
    const offsets = this.fill(name, new Int32Array(count + 1), 0, MOST_ENTRIES, 0);
    let before = 0;
    for (const at of offsets) {
      if (at < before) throw new TraceError(`This trace is damaged: ${name} goes back from ${before} to ${at}.`);
      before = at;
    }
    if (offsets[0] !== 0) throw new TraceError(`This trace is damaged: ${name} begins at ${offsets[0]}, not at 0.`);
    return offsets;
  }

  /** Copies a column into `target`; values outside `low` to `high` are replaced, and reported. */
  private fill<N extends Numbers>(
    name: string,
    target: N,
    low: number,
    high: number,
    instead: number,
    floats = false,
  ): N {
    const next = this.numbers(name, target.length);
    for (let i = 0; i < target.length; i++) {
      const value = next(i);
      if ((value >= low && value <= high && (floats || Number.isInteger(value))) || (floats && Number.isNaN(value))) {
        target[i] = value;
      } else {
        this.r.problem(`trace.${name}[${i}]`, high >= low ? `from ${low} to ${high}` : "nothing", value);
        target[i] = instead;
      }
    }
    return target;
  }

  /** The source of a column's entries, in order. */
  private numbers(name: string, length: number): (i: number) => number {
    const found = this.length(name);
    if (found !== length) {
      throw new TraceError(`This trace is damaged: column ${name} has ${found} entries instead of ${length}.`);
    }
    const spec = this.specs[name] as Raw;
    const first = spec.first === undefined ? null : this.r.number(spec, "first", `trace.columns.${name}`);
    if (spec.dtype === undefined) {
      const value = this.r.number(spec, "value", `trace.columns.${name}`) ?? Number.NaN;
      return first === null ? () => value : (i) => first + i * value;
    }
    const size = widthOf(spec.dtype);
    const entry = READ[String(spec.dtype)];
    const view = viewOf(Object.hasOwn(this.data, name) ? this.data[name] : undefined);
    const entries = first === null ? length : Math.max(0, length - 1);
    if (size === 0 || entry === undefined || view?.byteLength !== entries * size) {
      throw new TraceError(
        `This trace is damaged: column ${name} (${describe(spec.dtype)}) has ${view?.byteLength ?? "no"} bytes for ${length} entries.`,
      );
    }
    const [, read] = entry;
    if (first === null) return (i) => read(view, i * size);
    let sum = first;
    return (i) => {
      if (i > 0) sum += read(view, (i - 1) * size);
      return sum;
    };
  }
}

function viewOf(bytes: unknown): DataView | null {
  if (bytes instanceof DataView) return bytes;
  if (bytes instanceof ArrayBuffer) return new DataView(bytes);
  return ArrayBuffer.isView(bytes) ? new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) : null;
}
