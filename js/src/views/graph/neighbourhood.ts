/** The launches around one: those that feed it and those that it feeds, through versions of arrays. */
import type { ViewState } from "../state.js";
import type { Folding, Unit } from "./folding.js";
import { hasPort, isHidden, type SharedMemory } from "./sharedMemory.js";
import { type VersionFacts, versionFacts, versionFactsAt } from "./versionLookup.js";

/** Launches that read one version: of thousands the nearest are drawn. */
const MOST_READERS = 12;

interface Neighbourhood {
  readonly units: readonly Unit[];
  /** There are more within as many hops than are drawn. */
  readonly cut: boolean;
}

/** At most `most` boxes within `hops` of any of `centres`, the nearest first; in launch order. */
export function neighbourhood(
  folding: Folding,
  memory: SharedMemory,
  centres: readonly number[],
  hops: number,
  most: number,
  filter: Pick<ViewState, "gradientOnly" | "readOnly"> & { readonly suspectOnly?: boolean },
): Neighbourhood {
  const found = new Map<string, Unit>();
  const centre = centres[0] ?? 0;
  let cut = false;
  const take = (units: Iterable<Unit>): Unit[] => {
    const fresh = [...units].filter((unit) => !found.has(unit.key));
    fresh.sort((a, b) => Math.abs(a.first - centre) - Math.abs(b.first - centre) || a.first - b.first);
    const room = Math.max(0, most - found.size);
    cut ||= fresh.length > room;
    const taken = fresh.slice(0, room);
    for (const unit of taken) found.set(unit.key, unit);
    return taken;
  };
  let rim = take(unique(centres.map((at) => folding.unitOf(at))));
  for (let hop = 0; hop < hops && rim.length > 0 && !cut; hop++) {
    rim = take(unique(rim.flatMap((unit) => around(folding, memory, unit, filter).map((at) => folding.unitOf(at)))));
  }
  return { units: [...found.values()].sort((a, b) => a.first - b.first || a.last - b.last), cut };
}

function unique(units: readonly Unit[]): Iterable<Unit> {
  return new Map(units.map((unit) => [unit.key, unit])).values();
}

/**
 * Launches one hop away: writers of what it reads, readers of what it writes, and launches that overwrite what an adjoint
 * needs.
 */
function around(
  folding: Folding,
  memory: SharedMemory,
  unit: Unit,
  filter: Pick<ViewState, "gradientOnly" | "readOnly"> & { readonly suspectOnly?: boolean },
): number[] {
  const { model } = folding;
  const found: number[] = [];
  const add = (at: number | null | undefined): void => {
    if (at !== null && at !== undefined && model.launch(at)) found.push(at);
  };
  for (const index of folding.samples(unit)) {
    for (const arg of model.launch(index)?.args ?? []) {
      if (!hasPort(arg) || isHidden(model, arg.array, filter)) continue;
      const read = arg.reads ? versionFacts(model, arg.array, arg.readVersion) : null;
      add(read?.writtenBy);
      if (read && clobbered(read)) add(read.overwrittenBy);
      if (!arg.writes || arg.writeVersion === null) continue;
      for (const version of writtenBy(folding, memory, arg.array, arg.writeVersion, index)) {
        for (const reader of version.reads.slice(0, MOST_READERS)) add(reader);
      }
      const before = versionFacts(model, arg.array, arg.writeVersion - 1);
      if (before?.overwrittenBy === index && clobbered(before)) before.neededBy.slice(-MOST_READERS).forEach(add);
    }
  }
  return found;
}

function clobbered(version: VersionFacts): boolean {
  return version.status === "lost" || version.status === "preserved";
}

/** The version that a launch wrote, of the array itself and of those that share memory with it. */
function writtenBy(
  folding: Folding,
  memory: SharedMemory,
  array: number,
  version: number,
  launch: number,
): VersionFacts[] {
  const own = versionFacts(folding.model, array, version);
  const others = memory.overlapping(array).map((id) => versionFactsAt(folding.model, id, launch));
  return [own, ...others].filter(
    (found): found is VersionFacts => found !== null && (found === own || found.writtenBy === launch),
  );
}

/** The launches around a version: its writer, and its first readers. */
export function aroundVersion(version: VersionFacts): number[] {
  return [...(version.writtenBy === null ? [] : [version.writtenBy]), ...version.reads.slice(0, MOST_READERS)];
}
