/**
 * Units that are drawn as one box: a launch, a launch of a repeated sequence with all of its rounds, or a collapsed scope.
 * Everything is looked up on demand, so that the cost depends on what is drawn, not on the length of the tape.
 */
import type { TraceModel } from "../../trace/model.js";
import type { Launch, Scope, Sequence } from "../../trace/types.js";
import { isFolded } from "../lanes/folds.js";
import type { ViewState } from "../state.js";

export interface Unit {
  readonly key: string;
  /** The launch that is drawn; of a scope its first. */
  readonly first: number;
  /** Of a scope its last launch, else `first`. */
  readonly last: number;
  /** The scope that is collapsed into this box. */
  readonly scope: Scope | null;
  /** The sequence whose rounds this box stands for. */
  readonly sequence: Sequence | null;
}

type FoldState = Pick<ViewState, "fold" | "unfolded" | "collapsed">;

/** A collapsed scope may contain a whole tape; at most this many of its launches are examined for inputs and outputs. */
const MOST_IN_SCOPE = 500;

export class Folding {
  private readonly sequences: readonly Sequence[];
  private readonly units = new Map<string, Unit>();

  constructor(
    readonly model: TraceModel,
    readonly view: FoldState,
  ) {
    const folded = model.trace.sequences.filter((sequence) => isFolded(sequence, view));
    this.sequences = [...folded].sort((a, b) => a.first - b.first);
  }

  /** The folded sequence that a launch is in. */
  sequenceOf(launch: number): Sequence | null {
    let low = 0;
    let high = this.sequences.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.sequences[middle] as Sequence).first <= launch) low = middle + 1;
      else high = middle;
    }
    const found = this.sequences[low - 1];
    return found && launch < found.first + found.length * found.count ? found : null;
  }

  /** The launch that is drawn in place of this one: that of the first round. */
  drawn(launch: number): number {
    const sequence = this.sequenceOf(launch);
    return sequence ? sequence.first + ((launch - sequence.first) % sequence.length) : launch;
  }

  unitOf(launch: number): Unit {
    const first = this.drawn(launch);
    const found = this.model.launch(first);
    const scope = found ? this.outermostCollapsed(found) : null;
    const key = scope ? `s${scope.id}` : `l${first}`;
    const known = this.units.get(key);
    if (known) return known;
    const at = scope ? Math.min(scope.first, first) : first;
    const last = scope ? Math.max(scope.last, first) : first;
    const sequence = this.sequenceOf(first);
    const within = sequence !== null && (!scope || (at >= sequence.first && last < sequence.first + sequence.length));
    const unit: Unit = { key, first: at, last, scope, sequence: within ? sequence : null };
    this.units.set(key, unit);
    return unit;
  }

  private outermostCollapsed(launch: Launch): Scope | null {
    if (this.view.collapsed.size === 0) return null;
    return this.model.scopesOf(launch).find((scope) => this.view.collapsed.has(scope.id)) ?? null;
  }

  /** The boxes of the whole tape in launch order; null if there are more than `most`. */
  all(most: number): Unit[] | null {
    const units = new Map<string, Unit>();
    for (let at = 0; at < this.model.launchCount; ) {
      const sequence = this.sequenceOf(at);
      if (sequence && at >= sequence.first + sequence.length) {
        at = sequence.first + sequence.length * sequence.count;
        continue;
      }
      const unit = this.unitOf(at);
      units.set(unit.key, unit);
      if (units.size > most) return null;
      at = unit.scope ? Math.max(at, unit.last) + 1 : at + 1;
    }
    return [...units.values()];
  }

  /**
   * The launches to look at for what a box reads and writes. Rounds of a sequence have the same data flow, from the same or the
   * previous round, so the first two and the last say what there is to say.
   */
  samples(unit: Unit): number[] {
    const base = unit.scope ? this.inScope(unit) : [unit.first];
    if (!unit.sequence) return base;
    const { length, count } = unit.sequence;
    const rounds = [...new Set([0, 1, count - 1])];
    return rounds.flatMap((round) => base.map((launch) => launch + round * length));
  }

  private inScope(unit: Unit): number[] {
    const found: number[] = [];
    for (let at = unit.first; at <= unit.last && found.length < MOST_IN_SCOPE; ) {
      const sequence = unit.sequence ? null : this.sequenceOf(at);
      if (sequence && at >= sequence.first + 2 * sequence.length) {
        const lastRound = sequence.first + sequence.length * (sequence.count - 1);
        if (at < lastRound) at = lastRound;
      }
      found.push(at++);
    }
    return found;
  }

  /** The number of launches that a box stands for. */
  count(unit: Unit): number {
    return (unit.last - unit.first + 1) * (unit.sequence?.count ?? 1);
  }
}
