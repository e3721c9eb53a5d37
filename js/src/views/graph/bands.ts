/** The boxes around launches, with the words of `Tape.visualize`: scopes, and sequences that are drawn once. */
import type { TraceModel } from "../../trace/model.js";
import type { Scope, Sequence } from "../../trace/types.js";
import { short } from "../format.js";
import { scopeKey, sequenceKey } from "../lanes/folds.js";
import type { Unit } from "./folding.js";
import type { Band } from "./picture.js";

/** The most nested boxes that are drawn; the tooltip names them all. */
const DEEPEST = 3;

/** The bands around a box, outermost first; a repetition is inside the scopes that hold it. */
export function bandsOf(model: TraceModel, unit: Unit): readonly Band[] {
  const launch = model.launch(unit.first);
  const path = launch ? model.scopesOf(launch) : [];
  const scopes = unit.scope ? path.slice(0, path.indexOf(unit.scope)) : path;
  const bands: Band[] = scopes.map(scopeBand);
  const { sequence } = unit;
  if (sequence) {
    const last = sequence.first + sequence.length * sequence.count - 1;
    const inside = scopes.findIndex((scope) => scope.first > sequence.first || scope.last < last);
    const at = inside < 0 ? scopes.length : inside;
    const inner = scopes[at] ?? null;
    // One round is just one scope: then one box shows both.
    const merges =
      inner !== null && inner.first === sequence.first && inner.last === sequence.first + sequence.length - 1;
    bands.splice(at, merges ? 1 : 0, sequenceBand(model, sequence, merges ? inner : null));
  }
  return bands.slice(0, DEEPEST);
}

function scopeBand(scope: Scope): Band {
  return { key: scopeKey(scope), label: short(scope.name, 48), scope, sequence: null };
}

function sequenceBand(model: TraceModel, sequence: Sequence, scope: Scope | null): Band {
  const repeated = `repeated ×${sequence.count}`;
  const key = sequenceKey(sequence);
  if (!scope) return { key, label: repeated, scope: null, sequence };
  const last = model.launch(sequence.first + sequence.length * (sequence.count - 1));
  const end = last ? model.scopesOf(last).find((at) => at.first === last.index && at.name !== scope.name) : undefined;
  const name = end ? `${short(scope.name, 32)} … ${short(end.name, 32)}` : short(scope.name, 48);
  return { key, label: `${name}: ${repeated}`, scope: null, sequence };
}
