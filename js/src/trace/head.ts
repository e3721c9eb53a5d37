/** Reads the small fields of a trace (arrays, kernels, findings, checks, events), with checks. */
import { clip, isRecord, type Raw, type Reader } from "./reader.js";
import type * as T from "./types.js";

const VERDICTS = ["AGREE", "WRONG", "UNDECIDABLE", "KINK", "NONDETERMINISTIC", "NOT CHECKED"] as const;
const ROLES = ["input", "intermediate", "output", "constant"] as const;
const SEVERITIES = ["error", "warning", "info"] as const;
const EVENTS = ["backward", "zero", "read", "write", "reset"] as const;
const SUBJECTS = ["values", "gradient", "tape"] as const;
const ACCESSES = ["read", "write", "atomic"] as const;
const MAX_LINE = 2_000;
const MAX_ADJOINT = 200_000;
const MAX_BINS = 64;

/** All but launches and versions; the same in JSON and in the packed form. */
export function readHead(r: Reader, raw: Raw, known: { launches: number; scopes: readonly T.Scope[] }): T.Trace {
  const { launches, scopes } = known;
  const arrays = keepPlaces(r, raw, "arrays", (a, path, i) =>
    readArray(r, a, path, i, r.list(raw, "arrays", "trace").length),
  );
  return {
    name: r.text(raw, "name", "trace", "tape"),
    environment: readEnvironment(raw.environment),
    tape: readTape(r, isRecord(raw.tape) ? raw.tape : {}),
    kernels: r.records(raw, "kernels", "trace", (k, path, i) => readKernel(r, k, path, i)),
    arrays,
    scopes,
    sequences: r.records(raw, "sequences", "trace", (s, path) => readSequence(r, s, path, launches)),
    verdict: r.oneOf(raw, "verdict", "trace", VERDICTS, "NOT CHECKED"),
    coverage: readCoverage(r, isRecord(raw.coverage) ? raw.coverage : {}),
    findings: r.records(raw, "findings", "trace", (f, path, i) => readFinding(r, f, path, i, launches)),
    timings: r.records(raw, "timings", "trace", (t, path) => readTiming(r, t, path)),
    checks: r.records(raw, "checks", "trace", (c, path) => readCheck(r, c, path, launches)),
    backward: readBackward(r, isRecord(raw.backward) ? raw.backward : {}, { launches, arrays: arrays.length }),
    events: r.records(raw, "events", "trace", (e, path) => readEvent(r, e, path, arrays.length)),
    eventsDropped: r.count(raw, "events_dropped", "trace"),
    notes: r.texts(raw, "notes", "trace"),
  };
}

/** The sizes of the lists that other fields refer to by position. */
export interface Limits {
  readonly kernels: number;
  readonly arrays: number;
  readonly launches: number;
  readonly scopes: number;
}

/** Like `records`, but a bad item becomes an empty one: other fields refer to these lists by position. */
export function keepPlaces<V>(
  r: Reader,
  raw: Raw,
  key: string,
  read: (item: Raw, path: string, index: number) => V,
): V[] {
  return r.list(raw, key, "trace").map((item, i) => {
    const path = `trace.${key}[${i}]`;
    if (!isRecord(item)) r.problem(path, "an object", item);
    return read(isRecord(item) ? item : {}, path, i);
  });
}

function readEnvironment(raw: unknown): Record<string, string> {
  const result: Record<string, string> = {};
  if (isRecord(raw)) for (const [key, value] of Object.entries(raw)) result[clip(key, 80)] = clip(String(value), 200);
  return result;
}

function readTape(r: Reader, raw: Raw): T.TapeInfo {
  return {
    id: r.count(raw, "id", "trace.tape"),
    onOverwrite: r.text(raw, "on_overwrite", "trace.tape", "preserve"),
    launches: r.count(raw, "launches", "trace.tape"),
    backwardRuns: r.count(raw, "backward_runs", "trace.tape"),
    preservedBytes: r.count(raw, "preserved_bytes", "trace.tape"),
    liveinBytes: r.count(raw, "livein_bytes", "trace.tape"),
    began: r.count(raw, "began", "trace.tape"),
    ended: r.count(raw, "ended", "trace.tape"),
    engine: r.text(raw, "engine", "trace.tape"),
  };
}

function readCode(r: Reader, raw: Raw, path: string, name: string): T.Code {
  return {
    name: r.text(raw, "name", path, name),
    file: r.text(raw, "file", path),
    line: r.count(raw, "line", path, 1),
    lines: r.texts(raw, "lines", path, MAX_LINE),
  };
}

function readKernel(r: Reader, raw: Raw, path: string, id: number): T.Kernel {
  const params = r.records(raw, "params", path, (p, at) => ({
    name: r.text(p, "name", at),
    type: r.text(p, "type", at),
    array: r.flag(p, "array", at),
  }));
  return {
    id,
    ...readCode(r, raw, path, "kernel"),
    functions: r.records(raw, "functions", path, (f, at) => readCode(r, f, at, "function")),
    params,
    accesses: r.records(raw, "accesses", path, (a, at) => ({
      param: r.count(a, "param", at),
      kind: r.oneOf(a, "kind", at, ACCESSES, "read"),
      line: r.count(a, "line", at),
      column: r.count(a, "column", at),
      endColumn: r.count(a, "end_column", at),
      needed: r.flag(a, "needed", at),
      file: r.text(a, "file", at),
    })),
    adjoint: r.textOrNull(raw, "adjoint", path, MAX_ADJOINT),
  };
}

function readArray(r: Reader, raw: Raw, path: string, id: number, limit: number): T.ArrayInfo {
  const parent = r.index(raw, "parent", path, limit);
  if (parent === id) r.problem(`${path}.parent`, "another array", parent);
  return {
    id,
    label: r.text(raw, "label", path, `array ${id}`),
    dtype: r.text(raw, "dtype", path, "?"),
    shape: r.indices(raw, "shape", path),
    requiresGrad: r.flag(raw, "requires_grad", path),
    buffer: r.count(raw, "buffer", path),
    start: r.count(raw, "start", path),
    stop: r.count(raw, "stop", path),
    parent: parent === id ? null : parent,
    role: r.oneOf(raw, "role", path, ROLES, "intermediate"),
  };
}

export function readValue(value: unknown): T.ArgValue {
  if (typeof value === "number" || value === null || value === undefined) return value ?? null;
  if (Array.isArray(value)) return value.slice(0, 16).map(Number);
  return clip(String(value), 200);
}

/** A scope that is its own ancestor would make every walk up the tree endless: such a parent is cut off. */
export function breakCycles(r: Reader, scopes: T.Scope[]): T.Scope[] {
  const sound = new Set<number>();
  return scopes.map((scope) => {
    const seen = new Set<number>([scope.id]);
    let parent = scope.parent;
    while (parent !== null && !sound.has(parent)) {
      if (seen.has(parent)) {
        r.problem(`trace.scopes[${scope.id}].parent`, "a scope that is not inside this one", scope.parent);
        return { ...scope, parent: null };
      }
      seen.add(parent);
      parent = scopes[parent]?.parent ?? null;
    }
    for (const id of seen) sound.add(id);
    return scope;
  });
}

export function readSummary(r: Reader, parent: Raw, key: string, at: string): T.Summary | null {
  const raw = parent[key];
  if (raw === null || raw === undefined) return null;
  const path = `${at}.${key}`;
  if (!isRecord(raw)) {
    r.problem(path, "a summary or null", raw);
    return null;
  }
  const value = (name: string): number => r.number(raw, name, path) ?? Number.NaN;
  return {
    count: r.count(raw, "count", path),
    nan: r.count(raw, "nan", path),
    inf: r.count(raw, "inf", path),
    min: value("min"),
    max: value("max"),
    mean: value("mean"),
    norm: value("norm"),
    histogram: readHistogram(r, raw.histogram, `${path}.histogram`),
  };
}

function readHistogram(r: Reader, raw: unknown, path: string): T.Histogram | null {
  if (!isRecord(raw)) return null;
  const low = r.number(raw, "low", path);
  const high = r.number(raw, "high", path);
  const counts = r.indices(raw, "counts", path).slice(0, MAX_BINS);
  if (low === null || high === null || !Number.isFinite(low) || !Number.isFinite(high) || counts.length === 0)
    return null;
  return { low, high, counts };
}

function readSequence(r: Reader, raw: Raw, path: string, launches: number): T.Sequence | null {
  const first = r.count(raw, "first", path);
  const length = r.count(raw, "length", path);
  const count = r.count(raw, "count", path);
  if (length < 1 || count < 2 || first + length * count > launches) {
    r.problem(path, `a repetition within ${launches} launches`, `${first} + ${length} × ${count}`);
    return null;
  }
  return { first, length, count };
}

function readCoverage(r: Reader, raw: Raw): T.Coverage {
  return {
    summary: r.text(raw, "summary", "trace.coverage"),
    launches: r.count(raw, "launches", "trace.coverage"),
    checked: r.count(raw, "checked", "trace.coverage"),
    notes: r.texts(raw, "notes", "trace.coverage"),
    partial: r.flag(raw, "partial", "trace.coverage"),
  };
}

export function readPlace(r: Reader, parent: Raw, key: string, at: string): T.Place | null {
  const raw = parent[key];
  if (raw === null || raw === undefined) return null;
  const path = `${at}.${key}`;
  if (!isRecord(raw)) {
    r.problem(path, "a place or null", raw);
    return null;
  }
  return readPlaceOf(r, raw, path);
}

export function readPlaceOf(r: Reader, raw: Raw, path: string): T.Place {
  return {
    file: r.text(raw, "file", path),
    line: r.count(raw, "line", path),
    column: r.count(raw, "column", path),
    function: r.textOrNull(raw, "function", path) ?? "",
  };
}

function readFinding(r: Reader, raw: Raw, path: string, id: number, launches: number): T.Finding {
  return {
    id: r.count(raw, "id", path, id),
    rule: r.text(raw, "rule", path, "finding"),
    severity: r.oneOf(raw, "severity", path, SEVERITIES, "warning"),
    message: r.text(raw, "message", path),
    launches: r.indices(raw, "launches", path, launches),
    arrays: r.texts(raw, "arrays", path),
    location: readPlace(r, raw, "location", path),
    callSite: readPlace(r, raw, "call_site", path),
    evidence: isRecord(raw.evidence) ? raw.evidence : {},
    fix: r.textOrNull(raw, "fix", path) ?? "",
    tape: r.index(raw, "tape", path, Number.MAX_SAFE_INTEGER),
  };
}

function readTiming(r: Reader, raw: Raw, path: string): T.Timing {
  return {
    step: r.text(raw, "step", path),
    estimate: r.number(raw, "estimate", path),
    seconds: r.number(raw, "seconds", path) ?? 0,
    completed: r.flag(raw, "completed", path),
  };
}

export function readCheck(r: Reader, raw: Raw, path: string, launches: number): T.Check | null {
  if (raw.launch !== null && raw.launch !== undefined && r.index(raw, "launch", path, launches) === null) return null;
  return {
    launch: (raw.launch as number | null | undefined) ?? null,
    input: r.text(raw, "input", path),
    output: r.text(raw, "output", path),
    verdict:
      raw.verdict === null || raw.verdict === undefined ? null : r.oneOf(raw, "verdict", path, VERDICTS, "NOT CHECKED"),
    maxAbsError: r.number(raw, "max_abs_error", path),
    maxRelError: r.number(raw, "max_rel_error", path),
    left: r.number(raw, "left", path),
    right: r.number(raw, "right", path),
    message: r.textOrNull(raw, "message", path) ?? "",
    seconds: r.number(raw, "seconds", path),
  };
}

function readBackward(r: Reader, raw: Raw, limits: Pick<Limits, "launches" | "arrays">): T.Backward {
  return {
    ran: r.flag(raw, "ran", "trace.backward"),
    loss: r.index(raw, "loss", "trace.backward", limits.arrays),
    order: r.indices(raw, "order", "trace.backward", limits.launches),
  };
}

function readEvent(r: Reader, raw: Raw, path: string, arrays: number): T.TapeEvent {
  const numbers = isRecord(raw.numbers) ? raw.numbers : {};
  return {
    kind: r.oneOf(raw, "kind", path, EVENTS, "write"),
    clock: r.count(raw, "clock", path),
    at: r.count(raw, "at", path),
    of: r.oneOf(raw, "of", path, SUBJECTS, "tape"),
    array: r.index(raw, "array", path, arrays),
    how: r.text(raw, "how", path),
    callSite: readPlace(r, raw, "call_site", path),
    tape: r.count(raw, "tape", path),
    again: r.flag(raw, "again", path),
    settled: r.flag(raw, "settled", path),
    numbers: Object.fromEntries(
      Object.keys(numbers).map((name) => [clip(name, 80), r.number(numbers, name, `${path}.numbers`) ?? Number.NaN]),
    ),
  };
}
