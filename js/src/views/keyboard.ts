/** Keys that work anywhere in the panel, unless a field takes the text. */

import { NOTHING } from "../trace/store.js";
import { selectFinding, stepFinding, stepLaunch, whoWroteThis } from "./actions.js";
import type { LanesView } from "./lanes/view.js";
import type { Panel } from "./state.js";

export function bindKeyboard(panel: Panel, lanes: LanesView, focusSearch: () => void): void {
  const keys: Readonly<Record<string, () => void>> = {
    "/": focusSearch,
    "?": () => panel.view.set({ help: !panel.view.get("help") }),
    f: () => lanes.fit(),
    j: () => stepFinding(panel, 1),
    k: () => stepFinding(panel, -1),
    w: () => whoWroteThis(panel),
    "+": () => lanes.zoom(1.5),
    "=": () => lanes.zoom(1.5),
    "-": () => lanes.zoom(1 / 1.5),
    ArrowLeft: () => stepLaunch(panel, -1),
    ArrowRight: () => stepLaunch(panel, 1),
    Escape: () => clear(panel),
  };
  const onKey = (event: KeyboardEvent): void => {
    if (!(event.target instanceof Node) || !panel.root.contains(event.target)) return;
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target, event.key)) return;
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  };
  // JupyterLab listens on the document while the event goes down, and has commands on j, k and f: be there before it.
  window.addEventListener("keydown", onKey, true);
  panel.lifetime.add(() => window.removeEventListener("keydown", onKey, true));
}

function clear(panel: Panel): void {
  if (panel.view.get("help")) panel.view.set({ help: false });
  else if (panel.store.get("selection").finding !== null) selectFinding(panel, null);
  else panel.store.set({ selection: NOTHING });
}

function takesText(target: EventTarget | null, key: string): boolean {
  if (target instanceof HTMLSelectElement) return true;
  if (!(target instanceof HTMLInputElement)) return target instanceof HTMLTextAreaElement;
  if (target.type === "range") return key.startsWith("Arrow");
  return target.type !== "checkbox";
}
