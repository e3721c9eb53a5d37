/** What happens to one array, as sorted typed arrays: a frame finds the visible part by bisection, however long the tape is. */
import type { TraceModel } from "../../trace/model.js";
import type { ArrayInfo, Version } from "../../trace/types.js";

/** A needed version that was overwritten. */
export interface Clobber {
  readonly index: number;
  readonly version: Version;
  readonly reader: number;
  readonly clobberer: number;
}

export interface Track {
  readonly array: ArrayInfo;
  /** How deep the array is nested as a view of another. */
  readonly depth: number;
  readonly versions: readonly Version[];
  /** Launch that wrote version i; -1 before the tape. Ascending. */
  readonly start: Int32Array;
  /** Launch that ended version i; the number of launches where none did. */
  readonly end: Int32Array;
  /** Launches that read the array, ascending, and for each whether its adjoint needs the value. */
  readonly reads: Int32Array;
  readonly readNeeded: Uint8Array;
  readonly writes: Int32Array;
  /** Versions that were needed, overwritten and not kept; in order of their reader. */
  readonly lost: readonly Clobber[];
  readonly preserved: readonly Clobber[];
  readonly lostReaders: Int32Array;
  readonly preservedReaders: Int32Array;
  /** Longest life of a version, in launches: how far a mark can reach to the right of where it begins. */
  readonly reach: number;
  /** Versions that an adjoint flows through: from their last reader back to their writer. By writer, ascending. */
  readonly adjoints: readonly Version[];
  readonly adjointWriters: Int32Array;
  readonly adjointReaders: Int32Array;
}

export interface LaneFilter {
  readonly gradientOnly: boolean;
  readonly readOnly: boolean;
}

export function buildTracks(model: TraceModel): readonly Track[] {
  const order = laneOrder(model.trace.arrays);
  const tracks: Track[] = [];
  for (const { array, depth } of order) {
    const versions = model.versions(array.id);
    if (versions.length > 0) tracks.push(buildTrack(array, depth, versions, model.launchCount));
  }
  return tracks;
}

/** Whether nothing on the tape writes the array. */
export function isReadOnly(track: Track): boolean {
  return track.writes.length === 0;
}

/** Arrays that a finding names are always shown: hiding the culprit would be the wrong kind of quiet. */
export function visibleTracks(tracks: readonly Track[], model: TraceModel, filter: LaneFilter): readonly Track[] {
  return tracks.filter((track) => {
    if (track.array.requiresGrad || model.isSuspect(track.array)) return true;
    return isReadOnly(track) ? filter.readOnly : !filter.gradientOnly;
  });
}

function laneOrder(arrays: readonly ArrayInfo[]): { array: ArrayInfo; depth: number }[] {
  const children = new Map<number, ArrayInfo[]>();
  for (const array of arrays) {
    if (array.parent === null) continue;
    const list = children.get(array.parent);
    if (list) list.push(array);
    else children.set(array.parent, [array]);
  }
  const order: { array: ArrayInfo; depth: number }[] = [];
  const seen = new Set<number>();
  const visit = (array: ArrayInfo, depth: number): void => {
    if (seen.has(array.id)) return;
    seen.add(array.id);
    order.push({ array, depth });
    for (const child of children.get(array.id) ?? []) visit(child, Math.min(depth + 1, 4));
  };
  for (const array of arrays) if (array.parent === null) visit(array, 0);
  for (const array of arrays) visit(array, 0); // what only hostile data has: views that are each other's parent
  return order;
}

function buildTrack(array: ArrayInfo, depth: number, versions: readonly Version[], launches: number): Track {
  const n = versions.length;
  const start = new Int32Array(n);
  const end = new Int32Array(n);
  const reads: { at: number; needed: boolean }[] = [];
  const writes: number[] = [];
  const lost: Clobber[] = [];
  const preserved: Clobber[] = [];
  for (let i = 0; i < n; i++) {
    const version = versions[i] as Version;
    start[i] = version.writtenBy ?? -1;
    end[i] = version.overwrittenBy ?? versions[i + 1]?.writtenBy ?? launches;
    if (version.writtenBy !== null) writes.push(version.writtenBy);
    const needed = new Set(version.neededBy);
    for (const at of version.reads) reads.push({ at, needed: needed.has(at) });
    const clobber = clobberOf(version, i);
    if (clobber && version.status === "lost") lost.push(clobber);
    if (clobber && version.status === "preserved") preserved.push(clobber);
  }
  reads.sort((a, b) => a.at - b.at);
  const byReader = (a: Clobber, b: Clobber): number => a.reader - b.reader;
  const adjoints = array.requiresGrad ? versions.filter((v, i) => carriesAdjoint(v, i === n - 1)) : [];
  return {
    array,
    depth,
    versions,
    start,
    end,
    reads: Int32Array.from(reads, (read) => read.at),
    readNeeded: Uint8Array.from(reads, (read) => Number(read.needed)),
    writes: Int32Array.from(writes),
    lost: lost.sort(byReader),
    preserved: preserved.sort(byReader),
    lostReaders: Int32Array.from(lost, (clobber) => clobber.reader),
    preservedReaders: Int32Array.from(preserved, (clobber) => clobber.reader),
    reach: end.reduce((most, launch, i) => Math.max(most, launch - (start[i] as number)), 0),
    adjoints,
    adjointWriters: Int32Array.from(adjoints, (v) => v.writtenBy ?? -1),
    adjointReaders: Int32Array.from(adjoints, (v) => v.reads.reduce((last, at) => Math.max(last, at), -1)),
  };
}

/** An adjoint flows into a version through its readers; into the last one also from the seed of the reverse pass. */
function carriesAdjoint(version: Version, last: boolean): boolean {
  return version.reads.length > 0 || (last && version.adjoint !== null && version.adjoint.norm !== 0);
}

/** Joins the last needed read before the overwrite to the launch that overwrote. */
function clobberOf(version: Version, index: number): Clobber | null {
  const clobberer = version.overwrittenBy;
  if (clobberer === null) return null;
  let reader = -1;
  for (const launch of version.neededBy) if (launch <= clobberer && launch > reader) reader = launch;
  return reader < 0 ? null : { index, version, reader, clobberer };
}

/** First position in an ascending array whose value is not below `value`. */
export function lowerBound(sorted: ArrayLike<number>, value: number, from = 0): number {
  let low = from;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
