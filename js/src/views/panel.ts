/** The panel: one renderer for the widget, JupyterLab, saved notebooks and reports. */
import { Observable } from "../trace/observable.js";
import { openTrace } from "../trace/open.js";
import { TraceError } from "../trace/reader.js";
import type { PanelStore } from "../trace/store.js";
import type { Finding } from "../trace/types.js";
import { selectFinding } from "./actions.js";
import { h, replace } from "./dom.js";
import { findingPlace } from "./findingPlace.js";
import { buildFindings } from "./findings.js";
import { buildHeader, buildStatus } from "./header.js";
import { buildHelp } from "./help.js";
import { buildInspector } from "./inspector.js";
import { bindKeyboard } from "./keyboard.js";
import { foldsByDefault } from "./lanes/folds.js";
import { jacobianOf } from "./pairMatrix.js";
import { buildScrubber } from "./scrubber.js";
import { Stage } from "./stage.js";
import { INITIAL_VIEW, Lifetime, type Panel, type ViewState } from "./state.js";
import { watchTheme } from "./theme.js";

/** Below this the columns are stacked. */
const NARROW = 980;
const TIGHT = 560;

interface PanelOptions {
  /** Take the host's height instead of one of its own. */
  readonly fill?: boolean;
  /** The page has nothing else that takes keys. */
  readonly page?: boolean;
  /** Called with each panel that was made: once for every trace that is shown. */
  readonly ready?: (panel: Panel) => void;
}

/** Shows a store in `host`; the function returned takes everything down again. */
export function mountPanel(host: HTMLElement, store: PanelStore, options: PanelOptions = {}): () => void {
  const root = h("div", { class: `tapedebug${options.fill ? " td-fill" : ""}`, tabindex: -1 });
  host.append(root);
  // Before the lanes are made: they fit what they show into the width that they find.
  const stack = (): void => {
    const width = root.clientWidth;
    if (width === 0) return;
    root.classList.toggle("td-narrow", width < NARROW);
    root.classList.toggle("td-tight", width < TIGHT);
  };
  stack();
  const resize = new ResizeObserver(stack);
  resize.observe(root);
  let content = new Lifetime();
  const show = (): void => {
    content.end();
    content = new Lifetime();
    try {
      fill(root, store, content, options);
    } catch (error) {
      content.end();
      replace(root, failure(error));
    }
  };
  show();
  const unsubscribe = store.subscribe((changed) => changed.has("trace") && show());
  return () => {
    unsubscribe();
    resize.disconnect();
    content.end();
    root.remove();
  };
}

/** A message in place of the panel; nothing that a trace holds may break the page around it. */
function failure(error: unknown): HTMLElement {
  const known = error instanceof TraceError;
  const text = error instanceof Error ? error.message : String(error);
  if (!known) console.error(error);
  return h(
    "div",
    { class: "td-failure", role: "alert" },
    h("h2", {}, known ? "This trace cannot be shown" : "The panel failed on this trace"),
    h("p", {}, text.slice(0, 1000)),
  );
}

function fill(root: HTMLElement, store: PanelStore, lifetime: Lifetime, options: PanelOptions): void {
  const data = store.get("trace");
  if (data === null || data === undefined || isEmpty(data)) {
    replace(root, h("p", { class: "td-hint" }, "No tape yet."));
    return;
  }
  const model = openTrace(data);
  const view = new Observable<ViewState>({ ...INITIAL_VIEW, fold: foldsByDefault(model) });
  const live = h("div", { class: "td-sr", "aria-live": "polite" });
  const announce = (text: string): void => replace(live, text);
  const panel: Panel = { root, store, view, model, lifetime, announce };
  const stage = new Stage(panel);
  const header = buildHeader(panel, () => view.set({ help: !view.get("help") }));
  const middle = h("div", { class: "td-middle" }, ...stage.elements, buildScrubber(panel), jacobianOf(panel).stage);
  const columns = h("div", { class: "td-columns" }, buildFindings(panel, stage), middle, buildInspector(panel));
  replace(root, header.element, buildStatus(panel), columns, buildHelp(panel), live);
  bindKeyboard(panel, stage, header.focusSearch, options.page ?? false);
  lifetime.add(watchTheme(root, (now) => stage.recolour(now)));
  lifetime.add(store.subscribe((changed) => changed.has("selection") && follow(panel, stage)));
  if (store.get("selection").finding !== null) follow(panel, stage);
  options.ready?.(panel);
}

function isEmpty(data: unknown): boolean {
  return typeof data === "object" && data !== null && !Array.isArray(data) && Object.keys(data).length === 0;
}

/** Brings a newly chosen finding, launch or array into view, wherever it was chosen. */
const followed = new WeakMap<Stage, Finding>();

function follow(panel: Panel, stage: Stage): void {
  const { launch, array, finding } = panel.store.get("selection");
  const focused = panel.model.finding(finding);
  if (focused && launch === null && findingPlace(panel.model, focused).launch !== null) {
    selectFinding(panel, focused); // it was set from outside, by its id alone
    return;
  }
  const id = panel.model.arrayId(array);
  if (focused && followed.get(stage) !== focused) {
    followed.set(stage, focused);
    stage.reveal(launchesOf(panel, focused, launch), id);
    return;
  }
  if (!focused) followed.delete(stage);
  if (launch !== null) stage.follow(launch);
}

/** A finding may name hundreds of launches: its first place is brought into view, with the reader of the overwritten values. */
function launchesOf({ model }: Panel, finding: Finding, launch: number | null): number[] {
  const { pair } = findingPlace(model, finding);
  const found = [...(pair ?? []), launch].filter((at) => at !== null);
  return found.length > 0 ? found : finding.launches.slice(0, 2);
}
