/** Regions of memory, and the bytes that a tape needs to have overwritten values again in the reverse pass. Pure. */
import { LOST, VERSION_PRESERVED, VERSION_RECOMPUTED } from "../../trace/columns.js";
import type { TraceModel } from "../../trace/model.js";
import { byteSize } from "../format.js";

/**
 * How the reverse pass gets values that an adjoint needs and a launch overwrites: from a copy; by running launches again, to
 * keep to a `memory_budget`; or not at all.
 */
export type Recovery = "copied" | "recomputed" | "lost";
export const RECOVERIES: readonly Recovery[] = ["copied", "recomputed", "lost"];

export type Bytes = Readonly<Record<Recovery, number>>;

/** A version that an adjoint needs and a launch overwrites. */
export interface Overwrite {
  /** Position in the columns of versions. */
  readonly version: number;
  /** The launch that overwrites it. */
  readonly launch: number;
  readonly bytes: number;
  readonly recovery: Recovery;
}

/** One buffer, with all arrays in it. */
export interface Region {
  /** The array that owns the memory, else the largest view of it. */
  readonly array: number;
  readonly views: number;
  /** From the first byte of its arrays to the last. */
  readonly bytes: number;
  /** Versions of the array. */
  readonly versions: number;
  /** In the order of the launches. */
  readonly overwrites: readonly Overwrite[];
  readonly total: Bytes;
}

/** Bytes after each launch that overwrites needed values; between two of them, they stay the same. */
export interface Growth {
  readonly launches: readonly number[];
  readonly bytes: readonly Bytes[];
}

export interface MemoryUse {
  /** Those that cost most first, then in the order of the arrays. */
  readonly regions: readonly Region[];
  readonly growth: Growth;
  /** Of all regions together. */
  readonly bytes: number;
  readonly total: Bytes;
}

const NOTHING: Bytes = { copied: 0, recomputed: 0, lost: 0 };

export function sum(bytes: Bytes): number {
  return bytes.copied + bytes.recomputed + bytes.lost;
}

export function readMemoryUse(model: TraceModel): MemoryUse {
  const buffers = new Map<number, number[]>();
  for (const { id, buffer } of model.trace.arrays) {
    const arrays = buffers.get(buffer);
    if (arrays) arrays.push(id);
    else buffers.set(buffer, [id]);
  }
  const regions = [...buffers.values()].map((arrays) => readRegion(model, arrays));
  return {
    regions: regions.sort((a, b) => sum(b.total) - sum(a.total)), // stable: equal ones stay in the order of the arrays
    growth: growthOf(regions.flatMap(({ overwrites }) => overwrites)),
    bytes: regions.reduce((bytes, region) => bytes + region.bytes, 0),
    total: regions.reduce((total, region) => added(total, region.total), NOTHING),
  };
}

/** The bytes after a launch. */
export function bytesAfter({ launches, bytes }: Growth, launch: number): Bytes {
  let low = 0;
  let high = launches.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((launches[middle] as number) <= launch) low = middle + 1;
    else high = middle;
  }
  return bytes[low - 1] ?? NOTHING;
}

function added(a: Bytes, b: Bytes): Bytes {
  return { copied: a.copied + b.copied, recomputed: a.recomputed + b.recomputed, lost: a.lost + b.lost };
}

function only(recovery: Recovery, bytes: number): Bytes {
  return { ...NOTHING, [recovery]: bytes };
}

function readRegion(model: TraceModel, arrays: readonly number[]): Region {
  const size = (id: number): number => {
    const array = model.array(id);
    return array === null ? 0 : byteSize(array);
  };
  const owner = arrays.find((id) => model.array(id)?.parent === null);
  const array = owner ?? arrays.reduce((largest, id) => (size(id) > size(largest) ? id : largest));
  const { start, stop } = extent(model, arrays);
  const found = arrays.flatMap((id) => overwritesOf(model, id, size(id)));
  const overwrites = found.length > 0 && arrays.length > 1 ? withoutShared(model, found) : found;
  return {
    array,
    views: arrays.length - 1,
    bytes: Math.max(0, stop - start),
    versions: model.versionCount(array),
    overwrites: overwrites.sort((a, b) => a.launch - b.launch),
    total: overwrites.reduce((total, { recovery, bytes }) => added(total, only(recovery, bytes)), NOTHING),
  };
}

function extent(model: TraceModel, arrays: readonly number[]): { readonly start: number; readonly stop: number } {
  let [start, stop] = [Number.POSITIVE_INFINITY, 0];
  for (const array of arrays.map((id) => model.array(id))) {
    start = Math.min(start, array?.start ?? start);
    stop = Math.max(stop, array?.stop ?? stop);
  }
  return { start, stop };
}

function overwritesOf(model: TraceModel, array: number, bytes: number): Overwrite[] {
  const { of, status, flags, overwrittenBy, since } = model.columns.versions;
  const found: Overwrite[] = [];
  const end = of[array + 1] as number;
  for (let v = of[array] as number; v < end; v++) {
    const flag = flags[v] as number;
    const recovery =
      (flag & VERSION_RECOMPUTED) !== 0
        ? "recomputed"
        : status[v] === LOST // with on_overwrite="warn", a copy is kept as evidence, and not used
          ? "lost"
          : (flag & VERSION_PRESERVED) !== 0
            ? "copied"
            : null;
    if (recovery === null) continue;
    // a write from outside the tape is not a launch: the next version appears at the first launch that reads it
    const by = overwrittenBy[v] as number;
    const launch = by >= 0 ? by : v + 1 < end ? (since[v + 1] as number) : model.launchCount - 1;
    found.push({ version: v, launch: Math.max(0, launch), bytes, recovery });
  }
  return found;
}

/** Leaves out overwrites of memory that a larger array of the region lost in the same launch: one copy contains both. */
function withoutShared(model: TraceModel, overwrites: readonly Overwrite[]): Overwrite[] {
  const byLaunch = new Map<number, Overwrite[]>();
  const ofVersion = ({ version }: Overwrite) => model.array(model.columns.versions.array[version] ?? null);
  for (const overwrite of [...overwrites].sort((a, b) => b.bytes - a.bytes)) {
    const kept = byLaunch.get(overwrite.launch) ?? [];
    const own = ofVersion(overwrite);
    const held = kept.some((other) => {
      const around = ofVersion(other);
      return own !== null && around !== null && around.start <= own.start && own.stop <= around.stop;
    });
    if (!held) byLaunch.set(overwrite.launch, [...kept, overwrite]);
  }
  return [...byLaunch.values()].flat();
}

function growthOf(overwrites: readonly Overwrite[]): Growth {
  const launches: number[] = [];
  const bytes: Bytes[] = [];
  let now = NOTHING;
  for (const overwrite of [...overwrites].sort((a, b) => a.launch - b.launch)) {
    now = added(now, only(overwrite.recovery, overwrite.bytes));
    if (launches.at(-1) === overwrite.launch) bytes.pop();
    else launches.push(overwrite.launch);
    bytes.push(now);
  }
  return { launches, bytes };
}
