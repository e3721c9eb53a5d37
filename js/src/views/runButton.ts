/** The button that runs the checks of the mask: the same in the bar on top and under the matrix. */
import { button, replace } from "./dom.js";
import { plural } from "./format.js";
import { entryKey } from "./pairs.js";
import type { Panel } from "./state.js";

export const NEEDS_KERNEL = "needs the kernel that recorded this tape";

export function runButton(panel: Panel, name: string): HTMLButtonElement {
  const { store, lifetime } = panel;
  const run = button("", () => (store.get("running") ? store.cancel() : store.run()), {
    class: `td-button td-primary ${name}`,
  });
  const update = (): void => {
    const { canRun, running, progress, asked, mask } = store.value;
    const chosen = new Set(mask.map(entryKey)).size;
    const waiting = asked !== null && !running;
    run.classList.toggle(name === "td-run" ? "td-cancel" : "td-cancel-head", running);
    run.disabled = !canRun || (!running && (chosen === 0 || waiting));
    run.title = titleOf(canRun, running, chosen);
    replace(run, running ? `Cancel · ${Math.round(progress * 100)} %` : waiting ? "Asking the kernel …" : "Run checks");
  };
  update();
  lifetime.add(store.subscribe(update));
  return run;
}

function titleOf(canRun: boolean, running: boolean, chosen: number): string {
  if (!canRun) return NEEDS_KERNEL;
  if (running) return "stops the checks; results so far stay";
  if (chosen === 0) return "no pair is switched on in the input–output mask";
  return `compares gradients with finite differences, for the ${plural(chosen, "pair")} switched on in the mask`;
}
