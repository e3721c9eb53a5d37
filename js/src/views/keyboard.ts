/**
 * Keys that work anywhere in the panel, unless a field takes the text; on a page that is all the panel's, also while nothing
 * has the focus.
 */

import { NOTHING } from "../trace/store.js";
import { selectFinding, selectReader, selectWriter, stepFinding, stepShown } from "./actions.js";
import { visibleFindings } from "./findings.js";
import { historyOf } from "./history.js";
import { type Stage, VIEWS } from "./stage.js";
import type { Panel } from "./state.js";

export function bindKeyboard(panel: Panel, stage: Stage, focusSearch: () => void, isPage: boolean): void {
  const { view } = panel;
  const keys: Readonly<Record<string, () => void>> = {
    "/": focusSearch,
    "?": () => panel.view.set({ help: !panel.view.get("help") }),
    f: () => stage.shown.fit(),
    p: () => panel.root.querySelector<HTMLElement>(".td-play")?.click(),
    j: () => stepFinding(panel, 1, visibleFindings(panel)),
    k: () => stepFinding(panel, -1, visibleFindings(panel)),
    w: () => selectWriter(panel),
    W: () => selectReader(panel),
    "[": () => historyOf(panel).go(-1),
    "]": () => historyOf(panel).go(1),
    "+": () => stage.shown.zoom(1.5),
    "=": () => stage.shown.zoom(1.5),
    "-": () => stage.shown.zoom(1 / 1.5),
    ArrowLeft: () => stepShown(panel, -1),
    ArrowRight: () => stepShown(panel, 1),
    Escape: () => clear(panel),
    ...Object.fromEntries(VIEWS.map(({ key, shortcut }) => [shortcut, () => stage.toggle(key)])),
  };
  const onKey = (event: KeyboardEvent): void => {
    const isFree = isPage && event.target === document.body && panel.root.closest("[hidden]") === null;
    if (!isFree && !(event.target instanceof Node && panel.root.contains(event.target))) return;
    if (event.ctrlKey || event.metaKey || event.altKey || takesText(event.target, event.key)) return;
    if (handlesKey(event.target, event.key) || ownTabs(event.target, event.key)) return;
    if (scrolls(event.target, event.key)) return;
    if (view.get("help") && event.key !== "Escape" && event.key !== "?") return; // the dialog is in front
    const act = keys[event.key];
    const taken = stage.shown.key(event);
    if (!taken && !act) return;
    event.preventDefault();
    event.stopPropagation();
    if (!taken) act?.();
  };
  // JupyterLab listens in the capture phase, with commands on j, k and f: the window's listener runs before it
  window.addEventListener("keydown", onKey, true);
  panel.lifetime.add(() => window.removeEventListener("keydown", onKey, true));
}

function clear(panel: Panel): void {
  const checked = panel.root.querySelector<HTMLDetailsElement>(".td-checked[open]");
  if (panel.view.get("help")) panel.view.set({ help: false });
  else if (checked) {
    checked.open = false;
    checked.querySelector("summary")?.focus();
  } else if (panel.store.get("selection").finding !== null) selectFinding(panel, null);
  else panel.store.set({ selection: NOTHING });
}

/** Elements with keys of their own, such as grids and maps, list them in `data-td-keys`. */
function handlesKey(target: EventTarget | null, key: string): boolean {
  const owner = target instanceof Element ? target.closest("[data-td-keys]") : null;
  return owner?.getAttribute("data-td-keys")?.split(" ").includes(key) ?? false;
}

/** Arrows within a list of tabs go from tab to tab. */
function ownTabs(target: EventTarget | null, key: string): boolean {
  return key.startsWith("Arrow") && target instanceof Element && target.closest("[role=tablist]") !== null;
}

/** Left and right scroll a box whose content is too wide, if the box itself has the focus. */
function scrolls(target: EventTarget | null, key: string): boolean {
  if (key !== "ArrowLeft" && key !== "ArrowRight") return false;
  const box = target instanceof HTMLElement && target.matches(".td-code, .td-snippet") ? target : null;
  return box !== null && box.scrollWidth > box.clientWidth;
}

function takesText(target: EventTarget | null, key: string): boolean {
  if (target instanceof HTMLSelectElement) return true;
  if (!(target instanceof HTMLInputElement)) return target instanceof HTMLTextAreaElement;
  if (target.type === "range") return key.startsWith("Arrow");
  return target.type !== "checkbox";
}
