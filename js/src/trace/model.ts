/** A checked trace with what the views look up: by array, by launch, by label. Built once for each trace, in O(trace). */
import {
  ARG_NEEDED,
  ARG_READS,
  ARG_WRITES,
  KINDS,
  STATUSES,
  type TraceColumns,
  VERSION_PRESERVED,
  VERSION_RECOMPUTED,
} from "./columns.js";
import type {
  Arg,
  ArrayInfo,
  Check,
  Finding,
  Kernel,
  Launch,
  Scope,
  Summary,
  Trace,
  Version,
  VersionStatus,
} from "./types.js";

const SEVERITY_ORDER = { error: 0, warning: 1, info: 2 } as const;
/** Number of launches that are cached as objects: most accesses are near the selection. */
const MOST_KEPT = 512;

/** Launches of one name, or from one place of the calling code. */
export interface LaunchGroup {
  readonly name: string;
  readonly count: number;
  /** The first launch of the group after one; from the end on, the first of all. */
  after(launch: number): number;
}

export class TraceModel {
  readonly trace: Trace;
  /** Launches and versions; what loops over them reads these. */
  readonly columns: TraceColumns;
  /** Findings, worst first; equal ones stay in the trace's order. */
  readonly findings: readonly Finding[];
  readonly scopeDepth: readonly number[];
  /** Messages about the data itself: fields that were left out because they were invalid. */
  readonly problems: readonly string[];
  private readonly byLabel = new Map<string, number>();
  private readonly byLaunch = new Map<number, Finding[]>();
  private readonly suspects = new Set<string>();
  private readonly kept = new Map<number, Launch>();
  private names: readonly LaunchGroup[] | null = null;
  private sites: readonly LaunchGroup[] | null = null;

  constructor(trace: Trace, columns: TraceColumns, problems: readonly string[] = []) {
    this.trace = trace;
    this.columns = columns;
    this.problems = problems;
    this.findings = [...trace.findings].sort((a, b) => SEVERITY_ORDER[a.severity] - SEVERITY_ORDER[b.severity]);
    this.scopeDepth = depths(trace.scopes);
    for (const array of trace.arrays) if (!this.byLabel.has(array.label)) this.byLabel.set(array.label, array.id);
    for (const finding of this.findings) {
      for (const label of finding.arrays) this.suspects.add(label);
      for (const launch of finding.launches) {
        const list = this.byLaunch.get(launch);
        if (list) list.push(finding);
        else this.byLaunch.set(launch, [finding]);
      }
    }
  }

  get launchCount(): number {
    return this.columns.launches.count;
  }

  /** A launch as an object. It is made on demand: to loop over many launches, read the columns. */
  launch(index: number | null): Launch | null {
    if (index === null || !Number.isInteger(index) || index < 0 || index >= this.launchCount) return null;
    const known = this.kept.get(index);
    if (known) return known;
    if (this.kept.size >= MOST_KEPT) this.kept.clear();
    const launch = this.readLaunch(index);
    this.kept.set(index, launch);
    return launch;
  }

  array(id: number | null): ArrayInfo | null {
    return id === null ? null : (this.trace.arrays[id] ?? null);
  }

  /** An array by id, or the first of that label. */
  arrayId(key: number | string | null): number | null {
    if (typeof key === "string") return this.byLabel.get(key) ?? null;
    return this.array(key)?.id ?? null;
  }

  kernel(launch: Launch | null): Kernel | null {
    return launch?.kernel == null ? null : (this.trace.kernels[launch.kernel] ?? null);
  }

  versionCount(array: number): number {
    const { of } = this.columns.versions;
    return this.array(array) === null ? 0 : (of[array + 1] as number) - (of[array] as number);
  }

  /**
   * Versions of an array in the order in which they were written, as new objects: at most `count` from position `first` on,
   * which is also their number.
   */
  versions(array: number, first = 0, count = Number.POSITIVE_INFINITY): readonly Version[] {
    if (this.array(array) === null) return [];
    const { of } = this.columns.versions;
    const from = Math.min(of[array + 1] as number, (of[array] as number) + Math.max(0, first));
    const list: Version[] = [];
    for (let v = from; v < Math.min(of[array + 1] as number, from + count); v++) list.push(this.readVersion(v));
    return list;
  }

  version(array: number | null, version: number | null): Version | null {
    const at = this.versionIndex(array, version);
    return at < 0 ? null : this.readVersion(at);
  }

  /** The last version of an array. */
  latest(array: number): Version | null {
    return this.versions(array, this.versionCount(array) - 1)[0] ?? null;
  }

  /** Position of a version in the columns; -1 if there is none. */
  versionIndex(array: number | null, version: number | null): number {
    if (array === null || version === null || this.array(array) === null) return -1;
    const { of, number } = this.columns.versions;
    const first = of[array] as number;
    const end = of[array + 1] as number;
    const direct = first + version;
    if (direct >= first && direct < end && number[direct] === version) return direct;
    const at = number.subarray(first, end).indexOf(version); // numbers with gaps, which no sound trace has
    return at < 0 ? -1 : first + at;
  }

  /** The version of an array that a launch read (or wrote). */
  versionAt(array: number, launch: number): Version | null {
    const at = this.versionIndexAt(array, launch);
    return at < 0 ? null : this.readVersion(at);
  }

  /** As `versionAt`, but its position in the columns; -1 if there is none. */
  versionIndexAt(array: number, launch: number): number {
    if (this.array(array) === null) return -1;
    const { of, since } = this.columns.versions;
    let low = of[array] as number;
    let high = of[array + 1] as number;
    const first = low;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((since[middle] as number) <= launch) low = middle + 1;
      else high = middle;
    }
    return low > first ? low - 1 : -1;
  }

  /** Return the number of versions of all arrays with a status. */
  countStatus(status: VersionStatus): number {
    const code = STATUSES.indexOf(status);
    let count = 0;
    for (const found of this.columns.versions.status) if (found === code) count++;
    return count;
  }

  /** Launches by what they are called. */
  launchNames(): readonly LaunchGroup[] {
    const { strings, launches } = this.columns;
    this.names ??= groups(launches.name, strings);
    return this.names;
  }

  /** Launches by the line that made them: `say` names a file and a line. */
  launchSites(say: (file: string, line: number) => string): readonly LaunchGroup[] {
    const { places, launches } = this.columns;
    this.sites ??= groups(
      launches.site,
      places.map(({ file, line }) => say(file, line)),
    );
    return this.sites;
  }

  findingsOf(launch: number): readonly Finding[] {
    return this.byLaunch.get(launch) ?? [];
  }

  finding(id: number | null): Finding | null {
    return id === null ? null : (this.findings.find((f) => f.id === id) ?? null);
  }

  isSuspect(array: ArrayInfo): boolean {
    return this.suspects.has(array.label);
  }

  /** From the outside in. */
  scopesOf(launch: Launch): readonly Scope[] {
    const path: Scope[] = [];
    for (let id = launch.scope; id !== null; ) {
      const scope: Scope | undefined = this.trace.scopes[id];
      if (scope === undefined) break;
      path.push(scope);
      id = scope.parent;
    }
    return path.reverse();
  }

  private readLaunch(index: number): Launch {
    const { launches, strings, dims, places } = this.columns;
    const at = <T>(column: ArrayLike<T>): T => column[index] as T;
    const args: Arg[] = [];
    for (let a = at(launches.args); a < (launches.args[index + 1] as number); a++) args.push(this.readArg(a));
    return {
      index,
      kind: KINDS[at(launches.kind)] ?? "kernel",
      kernel: orNull(at(launches.kernel)),
      name: strings[at(launches.name)] ?? "",
      dim: dims[at(launches.dim)] ?? [],
      scope: orNull(at(launches.scope)),
      seconds: known(at(launches.seconds)),
      backwardSeconds: known(at(launches.backwardSeconds)),
      callSite: places[at(launches.site)] ?? null,
      args,
    };
  }

  private readArg(a: number): Arg {
    const { args, strings, values } = this.columns;
    const at = (column: ArrayLike<number>): number => column[a] as number;
    const flags = at(args.flags);
    return {
      name: strings[at(args.name)] ?? "",
      array: orNull(at(args.array)),
      value: values[at(args.value)] ?? null,
      reads: (flags & ARG_READS) !== 0,
      writes: (flags & ARG_WRITES) !== 0,
      readVersion: orNull(at(args.readVersion)),
      writeVersion: orNull(at(args.writeVersion)),
      needed: (flags & ARG_NEEDED) !== 0,
    };
  }

  private readVersion(v: number): Version {
    const { versions } = this.columns;
    const at = (column: ArrayLike<number>): number => column[v] as number;
    const slice = (offsets: Int32Array, flat: Int32Array): number[] =>
      Array.from(flat.subarray(offsets[v], offsets[v + 1]));
    const flags = at(versions.flags);
    return {
      array: at(versions.array),
      version: at(versions.number),
      writtenBy: orNull(at(versions.writtenBy)),
      reads: slice(versions.reads, versions.readers),
      neededBy: slice(versions.neededBy, versions.needers),
      overwrittenBy: orNull(at(versions.overwrittenBy)),
      preserved: (flags & VERSION_PRESERVED) !== 0,
      recomputed: (flags & VERSION_RECOMPUTED) !== 0,
      status: STATUSES[at(versions.status)] ?? "kept",
      value: this.readSummary(at(versions.value)),
      adjoint: this.readSummary(at(versions.adjoint)),
    };
  }

  private readSummary(s: number): Summary | null {
    if (s < 0) return null;
    const { summaries, histograms } = this.columns;
    const at = (column: ArrayLike<number>): number => column[s] as number;
    const h = at(summaries.histogram);
    return {
      count: at(summaries.counts),
      nan: at(summaries.nan),
      inf: at(summaries.inf),
      min: at(summaries.min),
      max: at(summaries.max),
      mean: at(summaries.mean),
      norm: at(summaries.norm),
      histogram:
        h < 0
          ? null
          : {
              low: histograms.low[h] as number,
              high: histograms.high[h] as number,
              counts: Array.from(histograms.bins.subarray(histograms.of[h], histograms.of[h + 1])),
            },
    };
  }
}

function orNull(index: number): number | null {
  return index < 0 ? null : index;
}

function known(seconds: number): number | null {
  return Number.isNaN(seconds) ? null : seconds;
}

/** Groups launches by a column; entries of equal name are one group. -1 belongs to none. */
function groups(column: Int32Array, names: readonly string[]): LaunchGroup[] {
  const byName = new Map<string, number>();
  const groupOf = Int32Array.from(names, (name) => {
    const group = byName.get(name) ?? byName.size;
    byName.set(name, group);
    return group;
  });
  const counts = new Int32Array(byName.size);
  for (const entry of column) {
    if (entry < 0) continue;
    const group = groupOf[entry] as number;
    counts[group] = (counts[group] as number) + 1;
  }
  const next = (group: number, launch: number): number => {
    for (let i = launch + 1; i < column.length; i++) if (groupOf[column[i] as number] === group) return i;
    return -1;
  };
  const found = [...byName].map(([name, group]) => ({
    name,
    count: counts[group] as number,
    after: (launch: number): number => {
      const behind = next(group, launch);
      return behind >= 0 ? behind : next(group, -1);
    },
  }));
  return found.filter(({ count }) => count > 0);
}

/** Return the nesting depth of each scope; parents may come in any order. */
function depths(scopes: readonly Scope[]): number[] {
  const result = new Array<number>(scopes.length).fill(-1);
  for (let id = 0; id < scopes.length; id++) {
    const path: number[] = [];
    let at: number | null = id;
    while (at !== null && result[at] === -1) {
      path.push(at);
      at = scopes[at]?.parent ?? null;
    }
    let depth = at === null ? -1 : (result[at] ?? -1);
    for (const scope of path.reverse()) result[scope] = ++depth;
  }
  return result;
}

export type CheckKey = string;

/** Identifies a pair of the mask; names may hold any character, so they are quoted. */
export function checkKey(launch: number | null, input: string, output: string): CheckKey {
  return JSON.stringify([launch, input, output]);
}

/** Launches that a finding's evidence names in a part ("reader", "clobberer"): an index, or an object with one. */
export function evidenceLaunch(finding: Finding, part: "reader" | "clobberer"): number | null {
  const value = finding.evidence[part];
  const index = typeof value === "object" && value !== null ? (value as Record<string, unknown>).launch : value;
  return typeof index === "number" && Number.isInteger(index) && index >= 0 ? index : null;
}

/** The checks of the trace with the newer results on top. */
export function mergeChecks(trace: readonly Check[], newer: readonly Check[]): ReadonlyMap<CheckKey, Check> {
  const merged = new Map<CheckKey, Check>();
  for (const check of trace) merged.set(checkKey(check.launch, check.input, check.output), check);
  for (const check of newer) merged.set(checkKey(check.launch, check.input, check.output), check);
  return merged;
}
