/** Where a finding is on the tape: the launch to select, and the array to show there. Pure. */
import { evidenceLaunch, type TraceModel } from "../trace/model.js";
import type { Finding, Launch, Place } from "../trace/types.js";

interface FindingPlace {
  readonly launch: number | null;
  readonly array: number | null;
  /** The launches that read and overwrote values, if the finding is about such a pair. */
  readonly pair: readonly [reader: number, overwriter: number] | null;
}

/**
 * The first place that a finding names: of its launches the one whose kernel has the line, launched from the line that it names.
 * Where a finding names no launch, the first one that fits; without any, the first that has to do with its array.
 */
export function findingPlace(model: TraceModel, finding: Finding): FindingPlace {
  const reader = evidenceLaunch(finding, "reader");
  const overwriter = evidenceLaunch(finding, "clobberer");
  const known = (index: number | null): index is number => model.launch(index) !== null;
  const named = [overwriter, reader, ...finding.launches].filter(known);
  const launch = named.length > 0 ? best(model, finding, named) : anywhere(model, finding);
  return {
    launch,
    array: arrayAt(model, finding, launch),
    pair: known(reader) && known(overwriter) ? [reader, overwriter] : null,
  };
}

function best(model: TraceModel, finding: Finding, launches: readonly number[]): number | null {
  const score = (index: number): number => fits(model, finding, model.launch(index) as Launch);
  return launches.reduce((first, next) => (score(next) > score(first) ? next : first), launches[0] as number);
}

/** 3: it has the line, and was launched where the finding says; 2 and 1: one of both. */
function fits(model: TraceModel, { location, callSite }: Finding, launch: Launch): number {
  const kernel = model.kernel(launch);
  const has =
    kernel !== null &&
    location !== null &&
    [kernel, ...kernel.functions].some(
      (code) =>
        code.file === location.file && location.line >= code.line && location.line < code.line + code.lines.length,
    );
  return (has ? 2 : 0) + (callSite !== null && samePlace(launch.callSite, callSite) ? 1 : 0);
}

function samePlace(one: Place | null, other: Place): boolean {
  return one !== null && one.file === other.file && one.line === other.line;
}

/** Launches that are searched at most, if the finding names none. */
const MOST_SEARCHED = 500;

function anywhere(model: TraceModel, finding: Finding): number | null {
  const arrays = new Set(finding.arrays.map((label) => model.arrayId(label)));
  let found: number | null = null;
  let most = 0;
  for (let index = 0; index < Math.min(MOST_SEARCHED, model.launchCount); index++) {
    const launch = model.launch(index) as Launch;
    const touches = launch.args.some((arg) => arg.array !== null && arrays.has(arg.array));
    const score = 2 * fits(model, finding, launch) + (touches ? 1 : 0);
    if (score <= most) continue;
    most = score;
    found = index;
  }
  return found;
}

/** The first of a finding's arrays that the launch has to do with; its first one where it has to do with none. */
function arrayAt(model: TraceModel, finding: Finding, launch: number | null): number | null {
  const ids = finding.arrays.map((label) => model.arrayId(label)).filter((id) => id !== null);
  const touched = new Set(model.launch(launch)?.args.map((arg) => arg.array));
  return ids.find((id) => touched.has(id)) ?? ids[0] ?? null;
}
