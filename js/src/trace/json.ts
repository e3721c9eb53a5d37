/**
 * The JSON form of a trace, which files use → a model of it. Panels take the packed form (`unpack.ts`): only code that opens files
 * and saved notebooks needs this.
 */
import { KINDS, STATUSES } from "./columns.js";
import { decompress } from "./compressed.js";
import { breakCycles, keepPlaces, type Limits, readHead, readPlace, readSummary, readValue } from "./head.js";
import { columnsOf } from "./jsonColumns.js";
import { TraceModel } from "./model.js";
import { describe, isRecord, type Raw, Reader, TraceError } from "./reader.js";
import type * as T from "./types.js";
import { isPacked, type Packed } from "./unpack.js";

const FORMAT = "tapedebug-trace";
const SCHEMA = 1;
/** The largest value of a column. */
const MAX_INT = 2 ** 31 - 1;

/**
 * Converts a trace as files and notebooks keep it, compressed or as JSON, into a form that panels accept. For data that is no
 * trace, it returns the error, which the panel shows.
 */
export async function openSaved(data: unknown): Promise<Packed | TraceModel | TraceError> {
  const found = await decompress(data);
  if (isPacked(found) || found instanceof TraceError) return found;
  try {
    return openJson(found);
  } catch (error) {
    if (error instanceof TraceError) return error;
    throw error;
  }
}

/**
 * Checks a trace and indexes it.
 *
 * @throws {TraceError} see {@link parseTrace}.
 */
export function openJson(data: unknown): TraceModel {
  const { trace, problems } = parseTrace(data);
  const { launches: _, versions: __, ...head } = trace; // as columns from here on
  return new TraceModel(head, columnsOf(trace), problems);
}

interface Parsed {
  readonly trace: T.CheckedTrace;
  /** Errors in the data, which was left out or replaced; empty for a sound trace. */
  readonly problems: readonly string[];
}

/**
 * Checks a trace.
 *
 * @throws {TraceError} if it is not a trace, or if this panel is too old for it.
 */
export function parseTrace(data: unknown): Parsed {
  if (!isRecord(data)) throw new TraceError(`This is not a tapedebug trace: it is ${describe(data)}, not an object.`);
  if (data.format !== FORMAT) {
    throw new TraceError(`This is not a tapedebug trace: its format is ${describe(data.format)}, not "${FORMAT}".`);
  }
  if (data.schema !== SCHEMA) {
    throw new TraceError(
      `This trace has schema ${describe(data.schema)}; this panel reads schema ${SCHEMA}. Use the tapedebug that wrote it.`,
    );
  }
  for (const key of ["launches", "arrays", "versions"]) {
    if (!Array.isArray(data[key])) {
      throw new TraceError(`This trace cannot be shown: ${key} is ${describe(data[key])}, expected a list.`);
    }
  }
  const r = new Reader();
  const trace = readTrace(r, data);
  return { trace, problems: r.report() };
}

function readTrace(r: Reader, raw: Raw): T.CheckedTrace {
  const launchCount = (raw.launches as unknown[]).length;
  const scopeCount = Array.isArray(raw.scopes) ? raw.scopes.length : 0;
  const scopes = breakCycles(
    r,
    keepPlaces(r, raw, "scopes", (s, path, i) =>
      readScope(r, s, path, i, { launches: launchCount, scopes: scopeCount }),
    ),
  );
  const head = readHead(r, raw, { launches: launchCount, scopes });
  const limits: Limits = {
    kernels: head.kernels.length,
    arrays: head.arrays.length,
    launches: launchCount,
    scopes: scopeCount,
  };
  return {
    ...head,
    launches: keepPlaces(r, raw, "launches", (l, path, i) => readLaunch(r, l, path, i, limits)),
    versions: r.records(raw, "versions", "trace", (v, path) => readVersion(r, v, path, limits)),
  };
}

function readLaunch(r: Reader, raw: Raw, path: string, index: number, limits: Limits): T.Launch {
  return {
    index,
    kind: r.oneOf(raw, "kind", path, KINDS, "kernel"),
    kernel: r.index(raw, "kernel", path, limits.kernels),
    name: r.text(raw, "name", path, "launch"),
    dim: r.indices(raw, "dim", path),
    scope: r.index(raw, "scope", path, limits.scopes),
    seconds: r.number(raw, "seconds", path),
    backwardSeconds: r.number(raw, "backward_seconds", path),
    callSite: readPlace(r, raw, "call_site", path),
    args: r.records(raw, "args", path, (a, at) => readArg(r, a, at, limits)),
  };
}

function readArg(r: Reader, raw: Raw, path: string, limits: Limits): T.Arg {
  return {
    name: r.text(raw, "name", path),
    array: r.index(raw, "array", path, limits.arrays),
    value: readValue(raw.value),
    reads: r.flag(raw, "reads", path),
    writes: r.flag(raw, "writes", path),
    readVersion: r.index(raw, "read_version", path, MAX_INT),
    writeVersion: r.index(raw, "write_version", path, MAX_INT),
    needed: r.flag(raw, "needed", path),
  };
}

function readScope(
  r: Reader,
  raw: Raw,
  path: string,
  id: number,
  limits: Pick<Limits, "launches" | "scopes">,
): T.Scope {
  const first = r.index(raw, "first", path, limits.launches) ?? 0;
  const last = r.index(raw, "last", path, limits.launches) ?? first;
  return {
    id,
    name: r.text(raw, "name", path, `scope ${id}`),
    parent: r.index(raw, "parent", path, limits.scopes),
    first: Math.min(first, last),
    last: Math.max(first, last),
  };
}

function readVersion(r: Reader, raw: Raw, path: string, limits: Limits): T.Version | null {
  const array = r.index(raw, "array", path, limits.arrays);
  if (array === null) {
    if (raw.array === null || raw.array === undefined) r.problem(`${path}.array`, "an array", raw.array);
    return null;
  }
  return {
    array,
    version: r.index(raw, "version", path, MAX_INT) ?? 0,
    writtenBy: r.index(raw, "written_by", path, limits.launches),
    reads: r.indices(raw, "reads", path, limits.launches),
    neededBy: r.indices(raw, "needed_by", path, limits.launches),
    overwrittenBy: r.index(raw, "overwritten_by", path, limits.launches),
    preserved: r.flag(raw, "preserved", path),
    recomputed: r.flag(raw, "recomputed", path),
    status: r.oneOf(raw, "status", path, STATUSES, "kept"),
    value: readSummary(r, raw, "value", path),
    adjoint: readSummary(r, raw, "adjoint", path),
  };
}
