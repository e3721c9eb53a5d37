/** A version read from the columns, without copying its readers: a parameter of a long tape has 100,000 of them. */
import { STATUSES } from "../../trace/columns.js";
import type { TraceModel } from "../../trace/model.js";
import type { VersionStatus } from "../../trace/types.js";

export interface VersionFacts {
  readonly array: number;
  readonly version: number;
  readonly writtenBy: number | null;
  readonly overwrittenBy: number | null;
  readonly status: VersionStatus;
  /** Launches in ascending order, not to be kept or changed. */
  readonly reads: Int32Array;
  readonly neededBy: Int32Array;
}

export function versionFacts(model: TraceModel, array: number | null, version: number | null): VersionFacts | null {
  return at(model, model.versionIndex(array, version));
}

/** The version of an array that a launch read, or wrote. */
export function versionFactsAt(model: TraceModel, array: number, launch: number): VersionFacts | null {
  return at(model, model.versionIndexAt(array, launch));
}

function at(model: TraceModel, index: number): VersionFacts | null {
  if (index < 0) return null;
  const { versions } = model.columns;
  const orNull = (value: number | undefined): number | null => (value === undefined || value < 0 ? null : value);
  return {
    array: versions.array[index] as number,
    version: versions.number[index] as number,
    writtenBy: orNull(versions.writtenBy[index]),
    overwrittenBy: orNull(versions.overwrittenBy[index]),
    status: STATUSES[versions.status[index] as number] ?? "kept",
    reads: versions.readers.subarray(versions.reads[index], versions.reads[index + 1]),
    neededBy: versions.needers.subarray(versions.neededBy[index], versions.neededBy[index + 1]),
  };
}
