/** The history of selections, with back and forward, and the provenance of the selected value. */
import type { Selection } from "../trace/store.js";
import type { Version } from "../trace/types.js";
import type { CodeLine, Panel, ViewState } from "./state.js";

const MOST = 100;
/** Milliseconds between two steps of a walk along the launches; a walk is one entry. */
const WALK = 700;

interface Entry {
  readonly selection: Selection;
  readonly tab: ViewState["tab"];
  readonly backward: boolean;
  readonly line: CodeLine | null;
}

/** One step of the chain: a version that a launch read, and its writer (null: it was not written on the tape). */
export interface Step {
  readonly array: number;
  readonly version: number;
  readonly launch: number | null;
}

interface Provenance {
  /** The launch whose values are traced back; null if it was a version by itself. */
  readonly from: number | null;
  readonly steps: readonly Step[];
}

class SelectionHistory {
  /** The last walk back through the writers. */
  provenance: Provenance | null = null;
  private entries: Entry[];
  private at = 0;
  private last = 0;
  private scheduled = false;
  private going = false;

  constructor(private readonly panel: Panel) {
    this.entries = [this.now()];
    panel.lifetime.add(panel.store.subscribe((changed) => changed.has("selection") && this.note()));
  }

  get canGoBack(): boolean {
    return this.at > 0;
  }

  get canGoForward(): boolean {
    return this.at < this.entries.length - 1;
  }

  /** Goes back (-1) or forward (1) through the selections. */
  go(step: -1 | 1): void {
    this.settle();
    const entry = this.entries[this.at + step];
    if (!entry) {
      this.panel.announce(step < 0 ? "no earlier selection" : "no later selection");
      return;
    }
    this.at += step;
    this.going = true;
    const { selection, tab, backward, line } = entry;
    this.panel.view.set({ tab, backward, line, adjoint: false });
    this.panel.store.set({ selection });
    this.going = false;
    const { launch } = selection;
    this.panel.announce(launch === null ? "nothing selected" : `launch ${launch}${backward ? ", backward pass" : ""}`);
  }

  /** Adds a step; it continues the chain if the selection is on it, else it begins a new one at the selected launch. */
  wrote(version: Version): void {
    const from = this.panel.view.get("tab") === "array" ? null : this.panel.store.get("selection").launch;
    const step: Step = { array: version.array, version: version.version, launch: version.writtenBy };
    const here = this.provenance ? this.position(this.provenance) : -1;
    const steps = this.provenance && here >= 0 ? this.provenance.steps.slice(0, here) : [];
    this.provenance = { from: this.provenance && here >= 0 ? this.provenance.from : from, steps: [...steps, step] };
  }

  /** Return the number of steps from the start of a chain to the selection; -1 if the selection is not on it. */
  position(provenance: Provenance): number {
    const { launch, array, version } = this.panel.store.get("selection");
    const key = this.panel.model.arrayId(array);
    const onTab = this.panel.view.get("tab") === "array";
    for (let i = provenance.steps.length; i > 0; i--) {
      const step = provenance.steps[i - 1] as Step;
      const same = step.array === key && step.version === version;
      if (step.launch === null ? same && onTab : step.launch === launch) return i;
    }
    return provenance.from !== null && launch === provenance.from && !onTab ? 0 : -1;
  }

  private now(): Entry {
    const { tab, backward, line } = this.panel.view.value;
    return { selection: this.panel.store.get("selection"), tab, backward, line };
  }

  /** Changes within one task are one entry. */
  private note(): void {
    if (this.going || this.scheduled) return;
    this.scheduled = true;
    queueMicrotask(() => this.settle());
  }

  private settle(): void {
    if (!this.scheduled) return;
    this.scheduled = false;
    const entry = this.now();
    const before = this.entries[this.at];
    const time = performance.now();
    const walking = before !== undefined && this.at > 0 && time - this.last < WALK && isWalk(before, entry);
    this.last = time;
    this.entries = this.entries.slice(0, walking ? this.at : this.at + 1);
    this.entries.push(entry);
    if (this.entries.length > MOST) this.entries.shift();
    this.at = this.entries.length - 1;
  }
}

/** One launch on, or back: what the arrows, the slider and the play button do. */
function isWalk(before: Entry, after: Entry): boolean {
  const { launch: _, version: __, ...old } = before.selection;
  const { launch: ___, version: ____, ...now } = after.selection;
  return before.tab === after.tab && JSON.stringify(old) === JSON.stringify(now);
}

const histories = new WeakMap<Panel["view"], SelectionHistory>();

/** The history of a panel; begun when it is first asked for. */
export function historyOf(panel: Panel): SelectionHistory {
  let history = histories.get(panel.view);
  if (!history) {
    history = new SelectionHistory(panel);
    histories.set(panel.view, history);
  }
  return history;
}
