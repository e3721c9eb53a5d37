/**
 * The state that a panel shares with its host. A notebook widget, a side bar and a report fill the same fields; only the widget
 * has a kernel (`canRun`).
 */
import { Observable } from "./observable.js";

/** One pair of the mask that is switched on: launch (null: the whole tape), input, output. */
export type MaskEntry = readonly [launch: number | null, input: string, output: string];

export interface Selection {
  readonly launch: number | null;
  /** The id of an array, or its label. */
  readonly array: number | string | null;
  readonly version: number | null;
  readonly finding: number | null;
  /** The pair whose Jacobian is shown. */
  readonly pair: MaskEntry | null;
}

export const NOTHING: Selection = { launch: null, array: null, version: null, finding: null, pair: null };

/**
 * Data that a panel requests when it is first shown. A kernel computes the answer; reports and saved notebooks contain the
 * answers that were requested before they were written.
 */
export type Question = { readonly type: string } & Readonly<Record<string, unknown>>;

export interface Answer {
  readonly data: Readonly<Record<string, unknown>>;
  /** Bulk data; `data` describes the buffers. Little-endian. */
  readonly buffers: readonly DataView[];
}

export interface PanelState {
  /** A trace, as JSON or packed (`{head, columns}`), not yet checked. */
  trace: unknown;
  mask: readonly MaskEntry[];
  /** Results of checks as JSON, newer than those in the trace; not yet checked. */
  checks: readonly unknown[];
  selection: Selection;
  running: boolean;
  /** 0 to 1. */
  progress: number;
  status: string;
  canRun: boolean;
  /** Number of reverse passes of the tape, if one has run since the trace was drawn: the adjoints have changed since. Otherwise 0. */
  passes: number;
  /** Counts up every second while checks run: a panel is not notified when its kernel dies. */
  beat: number;
  /** The pairs that this panel has asked to run, until the kernel is done with them; null where it has asked for none. */
  asked: readonly MaskEntry[] | null;
}

export interface PanelActions {
  /** Runs these pairs, or those of the mask. */
  run(only?: readonly MaskEntry[]): void;
  cancel(): void;
  exportReport(): void;
  ask(question: Question): Promise<Answer>;
}

/** Why a question has no answer, in words for the user. */
export class Unanswered extends Error {
  override readonly name = "Unanswered";
}

/** True if an error is an `Unanswered`, of this bundle or of another: chunks have their own copy of the class. */
export function isUnanswered(error: unknown): error is Unanswered {
  return error instanceof Error && error.name === "Unanswered";
}

const NO_KERNEL: PanelActions = {
  run() {},
  cancel() {},
  exportReport() {},
  ask: () => Promise.reject(new Unanswered("This needs the kernel that recorded the tape.")),
};

export class PanelStore extends Observable<PanelState> {
  private readonly actions: PanelActions;

  constructor(initial: Partial<PanelState> = {}, actions: Partial<PanelActions> = {}) {
    super({
      trace: null,
      mask: [],
      checks: [],
      selection: NOTHING,
      running: false,
      progress: 0,
      status: "",
      canRun: false,
      beat: 0,
      passes: 0,
      asked: null,
      ...initial,
    });
    this.actions = { ...NO_KERNEL, ...actions };
  }

  select(patch: Partial<Selection>): void {
    const before = this.get("selection");
    const after = { ...before, ...patch };
    const same = (Object.keys(after) as (keyof Selection)[]).every((key) => equal(before[key], after[key]));
    if (!same) this.set({ selection: after });
  }

  /** Requests data that is not in the trace. Rejects with an `Unanswered`, whose message is for the user. */
  ask(question: Question): Promise<Answer> {
    return this.actions.ask(question);
  }

  /** Recomputes the pairs of the mask, or others; nothing without a kernel, or while a run is under way. */
  run(only?: readonly MaskEntry[]): void {
    if (!this.get("canRun") || this.get("running")) return;
    this.set({ asked: only ?? this.get("mask") });
    try {
      this.actions.run(only);
    } catch {
      this.set({ asked: null, status: "The kernel cannot be reached." });
    }
  }

  cancel(): void {
    if (this.get("running")) this.actions.cancel();
  }

  exportReport(): void {
    if (this.get("canRun")) this.actions.exportReport();
  }
}

function equal(a: Selection[keyof Selection], b: Selection[keyof Selection]): boolean {
  return Array.isArray(a) && Array.isArray(b) ? a.every((item, i) => item === b[i]) : a === b;
}
