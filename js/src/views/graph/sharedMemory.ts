/** Which arrays share memory, and which the filters of the panel hide. */
import type { TraceModel } from "../../trace/model.js";
import type { Arg, ArrayInfo, Launch } from "../../trace/types.js";
import type { ViewState } from "../state.js";

/** A buffer may be cut into thousands of pieces. */
const MOST_VIEWS = 64;

export class SharedMemory {
  private readonly byBuffer = new Map<number, number[]>();

  constructor(private readonly model: TraceModel) {
    for (const { id, buffer } of model.trace.arrays) {
      const list = this.byBuffer.get(buffer);
      if (list) list.push(id);
      else this.byBuffer.set(buffer, [id]);
    }
  }

  /** Other arrays with memory of this one: views of it, what it is a view of. */
  overlapping(array: number): number[] {
    const info = this.model.array(array);
    if (!info) return [];
    const others = (this.byBuffer.get(info.buffer) ?? []).filter((id) => id !== array);
    return others.filter((id) => overlap(info, this.model.array(id))).slice(0, MOST_VIEWS);
  }

  /** The argument through which a launch wrote an array, if need be by way of a view. */
  writer(launch: Launch, array: number): { index: number; view: boolean } | null {
    const direct = launch.args.findIndex((arg) => arg.writes && arg.array === array);
    if (direct >= 0) return { index: direct, view: false };
    const info = this.model.array(array);
    const index = launch.args.findIndex(
      (arg) => arg.writes && info !== null && arg.array !== null && overlap(info, this.model.array(arg.array)),
    );
    return index < 0 ? null : { index, view: true };
  }
}

function overlap(one: ArrayInfo, other: ArrayInfo | null): boolean {
  return other !== null && one.buffer === other.buffer && one.start < other.stop && other.start < one.stop;
}

/** Arrays have ports; fields of a struct that the kernel does not touch have none. */
export function hasPort(arg: Arg): arg is Arg & { readonly array: number } {
  return arg.array !== null && (arg.reads || arg.writes || !arg.name.includes("."));
}

/** The same choice of arrays as in the lanes. */
export function isHidden(
  model: TraceModel,
  array: number,
  filter: Pick<ViewState, "gradientOnly" | "readOnly"> & { readonly suspectOnly?: boolean },
): boolean {
  const info = model.array(array);
  if (!info) return true;
  if (model.isSuspect(info)) return false;
  if (filter.suspectOnly) return true;
  if (info.requiresGrad) return false;
  const { of, writtenBy } = model.columns.versions;
  const first = of[array] as number;
  const count = model.versionCount(array);
  const readOnly = count === 0 || (count === 1 && (writtenBy[first] as number) < 0);
  return readOnly ? !filter.readOnly : filter.gradientOnly;
}
