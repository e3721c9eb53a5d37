/** Folds: the later repetitions of a sequence, and collapsed scopes. */
import type { TraceModel } from "../../trace/model.js";
import type { Scope, Sequence } from "../../trace/types.js";
import { short } from "../format.js";
import type { ViewState } from "../state.js";
import { type Fold, LaunchAxis } from "./launchAxis.js";
import { foldedNames } from "./tracks.js";

/** Below this a tape is readable as it is, and folding would only hide. */
const WORTH_FOLDING = 40;

export function sequenceKey(sequence: Sequence): string {
  return `sequence ${sequence.first} ${sequence.length}`;
}

export function scopeKey(scope: Scope): string {
  return `scope ${scope.id}`;
}

/** True if something repeats: a sequence of launches, or arrays that a loop creates in each round. */
export function canFold(model: TraceModel): boolean {
  return model.trace.sequences.length > 0 || foldedNames(model.trace.arrays).size > 0;
}

export function foldsByDefault(model: TraceModel): boolean {
  return model.launchCount > WORTH_FOLDING && canFold(model);
}

export function isFolded(sequence: Sequence, view: Pick<ViewState, "fold" | "unfolded">): boolean {
  return view.fold && !view.unfolded.has(sequenceKey(sequence));
}

export function buildLaunchAxis(
  model: TraceModel,
  view: Pick<ViewState, "fold" | "unfolded" | "collapsed">,
): LaunchAxis {
  const folds: Fold[] = [];
  for (const sequence of model.trace.sequences) {
    const fold = isFolded(sequence, view) ? foldOf(sequence) : null;
    if (fold) folds.push(fold);
  }
  for (const id of view.collapsed) {
    const scope = model.trace.scopes[id];
    if (scope) folds.push({ key: scopeKey(scope), first: scope.first, last: scope.last, label: short(scope.name, 24) });
  }
  return new LaunchAxis(model.launchCount, folds, model.trace.backward.ran);
}

/** Of short sequences several rounds are shown: so that data passed from round to round (ping-pong buffers) is in view. */
const SHOWN = 6;

function foldOf(sequence: Sequence): Fold | null {
  const { first, length, count } = sequence;
  const shown = Math.ceil(SHOWN / length);
  if (count <= shown) return null;
  const key = sequenceKey(sequence);
  return { key, first: first + length * shown, last: first + length * count - 1, label: `+${count - shown}×` };
}

/** The launches from `first` to `last` that share a place in the lanes with this one; null where it has its own. */
export function foldAround(
  model: TraceModel,
  view: Pick<ViewState, "fold" | "unfolded" | "collapsed">,
  launch: number,
): { first: number; last: number } | null {
  let widest: { first: number; last: number } | null = null;
  const consider = (fold: { first: number; last: number } | null | undefined): void => {
    if (!fold || launch < fold.first || launch > fold.last) return;
    if (!widest || fold.first < widest.first || fold.last > widest.last) widest = fold;
  };
  for (const sequence of model.trace.sequences) if (isFolded(sequence, view)) consider(foldOf(sequence));
  for (const id of view.collapsed) consider(model.trace.scopes[id]);
  return widest;
}

/** The change of view that makes a launch visible; null where it is visible already. */
export function unfolding(columns: LaunchAxis, launch: number, view: ViewState): Partial<ViewState> | null {
  const fold = columns.foldHiding(launch);
  if (!fold) return null;
  const scope = fold.key.startsWith("scope ") ? Number(fold.key.slice(6)) : null;
  if (scope === null) return { unfolded: new Set([...view.unfolded, fold.key]) };
  return { collapsed: new Set([...view.collapsed].filter((id) => id !== scope)) };
}

type Change = Pick<ViewState, "collapsed"> | Pick<ViewState, "unfolded"> | Pick<ViewState, "unfolded" | "fold">;

export function toggledScope(scope: Scope, view: ViewState): Change {
  const collapsed = new Set(view.collapsed);
  if (!collapsed.delete(scope.id)) collapsed.add(scope.id);
  return { collapsed };
}

/** Where folding is off as a whole, one sequence is folded and the others stay as they are. */
export function toggledSequence(model: TraceModel, sequence: Sequence, view: ViewState): Change {
  const unfolded = new Set(view.fold ? view.unfolded : model.trace.sequences.map(sequenceKey));
  const key = sequenceKey(sequence);
  if (!unfolded.delete(key)) unfolded.add(key);
  return view.fold ? { unfolded } : { unfolded, fold: true };
}
