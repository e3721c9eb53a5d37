/** The history of one array as sorted typed arrays: a frame finds the visible part by bisection, however long the tape is. */
import { LOST, PRESERVED } from "../../trace/columns.js";
import type { TraceModel } from "../../trace/model.js";
import type { ArrayInfo } from "../../trace/types.js";

/** Stretches of launches in the order of their first ones; `version` is the position of what they are about in its track. */
export interface Spans {
  readonly first: Int32Array;
  readonly last: Int32Array;
  readonly version: Int32Array;
  /** How far those up to this one reach: where to begin for all that reach into a view. */
  readonly reach: Int32Array;
}

export const ADJOINT_UNKNOWN = 0;
const ADJOINT_ALIVE = 1;
/** Exactly zero: no gradient arrives. */
export const ADJOINT_DEAD = 2;
export const ADJOINT_BAD = 3;

/** The content of one lane. Positions of versions count from the array's first. */
interface TrackHistory {
  /** Launch that ended version i; the number of launches if none did. */
  readonly end: Int32Array;
  /** Launches that read the array, ascending. */
  readonly reads: Int32Array;
  /** The number of reads before position i that an adjoint needs. */
  readonly neededBefore: Int32Array;
  readonly writes: Int32Array;
  /** Needed versions that were overwritten, from the last needed read to the overwrite, in order of the reads. */
  readonly lost: Spans;
  readonly preserved: Spans;
  /** Versions that an adjoint flows through, from their writer to their last reader, where the reverse pass meets them. */
  readonly adjoints: Spans;
  /** For each of `adjoints`: `ADJOINT_…`. */
  readonly adjointState: Uint8Array;
  /** Launches that wrote values of which some are not finite. */
  readonly bad: Int32Array;
}

export class Track {
  /** Position of the array's first version in the columns. */
  readonly base: number;
  readonly count: number;
  /** Launch from which version i stands; -1 before the tape. Ascending. */
  readonly start: Int32Array;
  private made: TrackHistory | null = null;

  constructor(
    private readonly model: TraceModel,
    readonly array: ArrayInfo,
    /** The nesting depth of the array as a view of another. */
    readonly depth: number,
  ) {
    const { of, since } = model.columns.versions;
    this.base = of[array.id] as number;
    this.count = (of[array.id + 1] as number) - this.base;
    this.start = since.subarray(this.base, this.base + this.count);
  }

  /** Built when the lane is first drawn, which most lanes of a large tape never are. */
  get life(): TrackHistory {
    this.made ??= readLife(this.model, this);
    return this.made;
  }

  /** True if no launch writes the array. */
  get readOnly(): boolean {
    const { writtenBy } = this.model.columns.versions;
    for (let v = this.base; v < this.base + this.count; v++) if ((writtenBy[v] as number) >= 0) return false;
    return true;
  }

  /** `Version.version` of a position. */
  number(position: number): number {
    return this.model.columns.versions.number[this.base + position] as number;
  }
}

interface LaneFilter {
  readonly gradientOnly: boolean;
  readonly readOnly: boolean;
  readonly suspectOnly?: boolean;
  /** Of arrays that a loop creates in each round, `k`, `k#2` … `k#100`, only the first ones and the last one. */
  readonly fold?: boolean;
}

const NUMBERED = /^(.+)#\d+$/;
/** So many of one name are shown; with more, the first ones and the last. */
const SHOWN_OF_A_NAME = 3;

/** The arrays that folding leaves out, by what their names begin with: those that differ by their numbers alone. */
export function foldedNames(arrays: readonly ArrayInfo[]): ReadonlyMap<string, readonly ArrayInfo[]> {
  const byName = new Map<string, ArrayInfo[]>();
  for (const array of arrays) {
    if (array.parent !== null) continue;
    const name = NUMBERED.exec(array.label)?.[1] ?? array.label;
    const list = byName.get(name);
    if (list) list.push(array);
    else byName.set(name, [array]);
  }
  const folded = new Map<string, readonly ArrayInfo[]>();
  for (const [name, list] of byName) {
    if (list.length > SHOWN_OF_A_NAME + 1) folded.set(name, list.slice(SHOWN_OF_A_NAME - 1, -1));
  }
  return folded;
}

export function buildTracks(model: TraceModel): readonly Track[] {
  return laneOrder(model.trace.arrays)
    .map(({ array, depth }) => new Track(model, array, depth))
    .filter((track) => track.count > 0);
}

/** Arrays that a finding names and the selected one are always shown. */
export function visibleTracks(
  tracks: readonly Track[],
  model: TraceModel,
  filter: LaneFilter,
  selected: number | null = null,
): readonly Track[] {
  const folded = filter.fold ? new Set([...foldedNames(model.trace.arrays).values()].flat()) : null;
  return tracks.filter((track) => {
    const { array } = track;
    if (array.id === selected || model.isSuspect(array)) return true;
    if (folded?.has(array)) return false;
    if (filter.suspectOnly) return false;
    if (array.requiresGrad) return true;
    return track.readOnly ? filter.readOnly : !filter.gradientOnly;
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
  const visit = (root: ArrayInfo): void => {
    // a stack, not a recursion: a hostile trace nests a hundred thousand views
    const stack = [{ array: root, depth: 0 }];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      if (seen.has(next.array.id)) continue;
      seen.add(next.array.id);
      order.push(next);
      const depth = Math.min(next.depth + 1, 4);
      const below = children.get(next.array.id) ?? [];
      for (let i = below.length - 1; i >= 0; i--) stack.push({ array: below[i] as ArrayInfo, depth });
    }
  };
  for (const array of arrays) if (array.parent === null) visit(array);
  for (const array of arrays) visit(array); // what only hostile data has: views that are each other's parent
  return order;
}

function readLife(model: TraceModel, track: Track): TrackHistory {
  const { versions } = model.columns;
  const { base, count, start } = track;
  const end = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    const by = versions.overwrittenBy[base + i] as number;
    end[i] = by >= 0 ? by : (start[i + 1] ?? model.launchCount);
  }
  const written = versions.writtenBy.subarray(base, base + count).filter((by) => by >= 0);
  const writes = isAscending(written) ? written : written.sort();
  return { end, writes, ...readReads(model, track), ...readClobbers(model, track), ...readAdjoints(model, track) };
}

function isAscending(values: Int32Array): boolean {
  for (let i = 1; i < values.length; i++) if ((values[i] as number) < (values[i - 1] as number)) return false;
  return true;
}

function readReads(model: TraceModel, { base, count }: Track): Pick<TrackHistory, "reads" | "neededBefore"> {
  const { versions } = model.columns;
  const from = versions.reads[base] as number;
  const size = (versions.reads[base + count] as number) - from;
  // the lowest bit: needed; so that sorting, which sound traces do not need, keeps the two together
  const coded = new Float64Array(size);
  let sorted = true;
  for (let v = base, at = 0; v < base + count; v++) {
    let need = versions.neededBy[v] as number;
    const needs = versions.neededBy[v + 1] as number;
    for (let r = versions.reads[v] as number; r < (versions.reads[v + 1] as number); r++) {
      const launch = versions.readers[r] as number;
      while (need < needs && (versions.needers[need] as number) < launch) need++;
      const needed = need < needs && versions.needers[need] === launch;
      coded[at] = 2 * launch + Number(needed);
      if (at > 0 && (coded[at] as number) < (coded[at - 1] as number)) sorted = false;
      at++;
    }
  }
  if (!sorted) coded.sort();
  const reads = new Int32Array(size);
  const neededBefore = new Int32Array(size + 1);
  for (let i = 0; i < size; i++) {
    const code = coded[i] as number;
    reads[i] = Math.floor(code / 2);
    neededBefore[i + 1] = (neededBefore[i] as number) + (code % 2);
  }
  return { reads, neededBefore };
}

function readClobbers(model: TraceModel, track: Track): Pick<TrackHistory, "lost" | "preserved"> {
  const { status } = model.columns.versions;
  const of = (wanted: number): Spans => {
    const found: [number, number, number][] = [];
    for (let i = 0; i < track.count; i++) {
      if (status[track.base + i] !== wanted) continue;
      const clobber = clobberOf(model, track.base + i);
      if (clobber) found.push([clobber[0], clobber[1], i]);
    }
    return spansOf(found);
  };
  return { lost: of(LOST), preserved: of(PRESERVED) };
}

/** The last needed read before the overwrite, and the launch that overwrote. */
function clobberOf(model: TraceModel, v: number): [reader: number, clobberer: number] | null {
  const { overwrittenBy, neededBy, needers } = model.columns.versions;
  const clobberer = overwrittenBy[v] as number;
  if (clobberer < 0) return null;
  const first = neededBy[v] as number;
  for (let n = (neededBy[v + 1] as number) - 1; n >= first; n--) {
    const reader = needers[n] as number;
    if (reader <= clobberer) return [reader, clobberer];
  }
  return null;
}

function spansOf(found: readonly [first: number, last: number, version: number][]): Spans {
  const list = [...found].sort((a, b) => a[0] - b[0]);
  const last = Int32Array.from(list, (span) => span[1]);
  let far = -1;
  return {
    first: Int32Array.from(list, (span) => span[0]),
    last,
    version: Int32Array.from(list, (span) => span[2]),
    reach: last.map((value) => {
      far = Math.max(far, value);
      return far;
    }),
  };
}

function readAdjoints(model: TraceModel, track: Track): Pick<TrackHistory, "adjoints" | "adjointState" | "bad"> {
  const { versions, summaries } = model.columns;
  const { base, count, start } = track;
  const badOf = (s: number): boolean => s >= 0 && (summaries.nan[s] as number) + (summaries.inf[s] as number) > 0;
  const found: [number, number, number][] = [];
  const bad: number[] = [];
  for (let i = 0; i < count; i++) {
    const v = base + i;
    if (badOf(versions.value[v] as number)) bad.push(Math.max(0, start[i] as number));
    if (!track.array.requiresGrad) continue;
    const reads = versions.reads[v + 1] as number;
    const read = reads > (versions.reads[v] as number);
    // an adjoint flows into a version through its readers; into the last one also from the seed of the reverse pass
    const seed = versions.adjoint[v] as number;
    const seeded = i === count - 1 && seed >= 0 && summaries.norm[seed] !== 0;
    if (read || seeded) found.push([start[i] as number, read ? (versions.readers[reads - 1] as number) : -1, i]);
  }
  // those that are never read live from the end of the tape on
  for (const span of found) if (span[1] < 0) span[1] = model.launchCount;
  const adjoints = spansOf(found);
  const adjointState = Uint8Array.from(adjoints.version, (i) => {
    const s = versions.adjoint[base + i] as number;
    if (s < 0) return ADJOINT_UNKNOWN;
    if (badOf(s)) return ADJOINT_BAD;
    return summaries.norm[s] === 0 ? ADJOINT_DEAD : ADJOINT_ALIVE;
  });
  return { adjoints, adjointState, bad: Int32Array.from(bad) };
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

/** As `lowerBound`, for a position near `from`: the cost grows with the distance, not with the length of the array. */
export function gallop(sorted: ArrayLike<number>, value: number, from: number): number {
  let low = from;
  let step = 1;
  while (low + step < sorted.length && (sorted[low + step] as number) < value) {
    low += step;
    step *= 2;
  }
  let high = Math.min(sorted.length, low + step + 1);
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] as number) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
