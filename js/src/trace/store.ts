/**
 * What a panel shares with its surroundings. A notebook widget, a side bar and a report fill the same fields; only the widget
 * has a kernel behind it (`canRun`).
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
}

export const NOTHING: Selection = { launch: null, array: null, version: null, finding: null };

export interface PanelState {
  /** Trace JSON, not yet checked. */
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
}

export interface PanelActions {
  run(): void;
  cancel(): void;
  exportReport(): void;
}

const NO_KERNEL: PanelActions = { run() {}, cancel() {}, exportReport() {} };

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
      ...initial,
    });
    this.actions = { ...NO_KERNEL, ...actions };
  }

  select(patch: Partial<Selection>): void {
    const before = this.get("selection");
    const after = { ...before, ...patch };
    const same = (Object.keys(after) as (keyof Selection)[]).every((key) => before[key] === after[key]);
    if (!same) this.set({ selection: after });
  }

  /** Recomputes the pairs of the mask; nothing without a kernel, or while a run is under way. */
  run(): void {
    if (this.get("canRun") && !this.get("running")) this.actions.run();
  }

  cancel(): void {
    if (this.get("running")) this.actions.cancel();
  }

  exportReport(): void {
    if (this.get("canRun")) this.actions.exportReport();
  }
}
