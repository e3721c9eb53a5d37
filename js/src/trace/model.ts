/** A checked trace with what the views look up: by array, by launch, by label. Built once for each trace, in O(trace). */
import type { ArrayInfo, Check, Finding, Kernel, Launch, Scope, Trace, Version } from "./types.js";

const SEVERITY_ORDER = { error: 0, warning: 1, info: 2 } as const;

export class TraceModel {
  /** Findings, worst first; equal ones stay in the trace's order. */
  readonly findings: readonly Finding[];
  readonly scopeDepth: readonly number[];
  /** What the panel has to say about the data itself: fields that were left out because they made no sense. */
  readonly problems: readonly string[];
  private readonly byArray: readonly (readonly Version[])[];
  private readonly byLabel = new Map<string, number>();
  private readonly byLaunch = new Map<number, Finding[]>();
  private readonly suspects = new Set<string>();

  constructor(
    readonly trace: Trace,
    problems: readonly string[] = [],
  ) {
    this.problems = problems;
    this.findings = [...trace.findings].sort((a, b) => SEVERITY_ORDER[a.severity] - SEVERITY_ORDER[b.severity]);
    this.byArray = groupVersions(trace);
    this.scopeDepth = trace.scopes.map((scope) => depthOf(trace.scopes, scope));
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
    return this.trace.launches.length;
  }

  launch(index: number | null): Launch | null {
    return index === null ? null : (this.trace.launches[index] ?? null);
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

  /** Versions of an array in the order in which they were written. */
  versions(array: number): readonly Version[] {
    return this.byArray[array] ?? [];
  }

  version(array: number | null, version: number | null): Version | null {
    if (array === null || version === null) return null;
    const list = this.versions(array);
    const direct = list[version];
    if (direct?.version === version) return direct;
    return list.find((v) => v.version === version) ?? null;
  }

  /** The version of an array that a launch found (or left behind, where it wrote it). */
  versionAt(array: number, launch: number): Version | null {
    const list = this.versions(array);
    let found: Version | null = null;
    for (let low = 0, high = list.length - 1; low <= high; ) {
      const middle = (low + high) >> 1;
      const version = list[middle];
      if (version === undefined) break;
      if ((version.writtenBy ?? -1) <= launch) {
        found = version;
        low = middle + 1;
      } else high = middle - 1;
    }
    return found;
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

  scopesOf(launch: Launch): readonly Scope[] {
    const path: Scope[] = [];
    for (let id = launch.scope; id !== null; ) {
      const scope: Scope | undefined = this.trace.scopes[id];
      if (scope === undefined) break;
      path.unshift(scope);
      id = scope.parent;
    }
    return path;
  }
}

function groupVersions(trace: Trace): Version[][] {
  const groups: Version[][] = trace.arrays.map(() => []);
  for (const version of trace.versions) groups[version.array]?.push(version);
  for (const group of groups) {
    group.sort((a, b) => (a.writtenBy ?? -1) - (b.writtenBy ?? -1) || a.version - b.version);
  }
  return groups;
}

function depthOf(scopes: readonly Scope[], scope: Scope): number {
  let depth = 0;
  for (let parent = scope.parent; parent !== null; parent = scopes[parent]?.parent ?? null) depth++;
  return depth;
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
