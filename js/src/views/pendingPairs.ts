/** Which pairs of a run that is under way have no result yet. */
import type { CheckKey } from "../trace/model.js";
import type { MaskEntry } from "../trace/store.js";
import { allChecks, checkOf, entryKey } from "./pairs.js";
import type { Panel } from "./state.js";

interface Run {
  readonly asked: ReadonlySet<CheckKey>;
  /** The check of each pair when the run began. */
  readonly before: ReadonlyMap<CheckKey, string>;
}

const RUNS = new WeakMap<object, Run>();

function known(panel: Panel, pair: MaskEntry): string {
  return JSON.stringify(checkOf(allChecks(panel.model, panel.store.get("checks")), pair));
}

/** Follows the runs of a panel; call once, when it is made. */
export function followRuns(panel: Panel): void {
  const { store, view, lifetime } = panel;
  const begin = (): void => {
    const pairs = store.get("asked") ?? store.get("mask");
    RUNS.set(view, {
      asked: new Set(pairs.map(entryKey)),
      before: new Map(pairs.map((pair) => [entryKey(pair), known(panel, pair)])),
    });
  };
  if (store.get("running")) begin();
  lifetime.add(
    store.subscribe((changed) => {
      if (!changed.has("running")) return;
      if (store.get("running")) begin();
      else {
        RUNS.delete(view);
        store.set({ asked: null });
      }
    }),
  );
}

/** True if a pair is part of the run and has no result of it yet. */
export function isPending(panel: Panel, pair: MaskEntry): boolean {
  const run = panel.store.get("running") ? RUNS.get(panel.view) : undefined;
  const key = entryKey(pair);
  return run?.asked.has(key) === true && run.before.get(key) === known(panel, pair);
}
