/** The middle of the panel: lanes or graph, behind two tabs; the scrubber below belongs to both. */
import { button, h } from "./dom.js";
import type { GraphShell } from "./graph/shell.js";
import type { LanesView } from "./lanes/view.js";
import type { Panel, ViewState } from "./state.js";

type Main = ViewState["main"];
const NAMES: Readonly<Record<Main, string>> = { lanes: "Lanes", graph: "Graph" };
const TABS = Object.keys(NAMES) as Main[];
let panels = 0;

export function buildStage(panel: Panel, lanes: LanesView, graph: GraphShell): HTMLElement[] {
  const { view, lifetime } = panel;
  const id = `td-stage-${++panels}`;
  const bodies: Readonly<Record<Main, HTMLElement>> = { lanes: lanes.element, graph: graph.element };
  const tabs = TABS.map((main) => {
    const body = bodies[main];
    body.id = `${id}-${main}`;
    body.setAttribute("role", "tabpanel");
    const tab = button(NAMES[main], () => view.set({ main }), {
      class: "td-stagetab",
      role: "tab",
      id: `${id}-${main}-tab`,
      "aria-controls": body.id,
      title: `${NAMES[main].toLowerCase()} (g switches)`,
    });
    body.setAttribute("aria-labelledby", tab.id);
    return tab;
  });
  const update = (): void => {
    for (const [i, main] of TABS.entries()) {
      const chosen = view.get("main") === main;
      tabs[i]?.setAttribute("aria-selected", String(chosen));
      tabs[i]?.setAttribute("tabindex", chosen ? "0" : "-1");
      bodies[main].hidden = !chosen;
    }
  };
  update();
  lifetime.add(view.subscribe((changed) => changed.has("main") && update()));
  const list = h("div", { class: "td-tabs td-stage-tabs", role: "tablist", "aria-label": "View of the tape" }, ...tabs);
  lifetime.listen(list, "keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -TABS.length, End: TABS.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(TABS.length - 1, TABS.indexOf(view.get("main")) + step));
    view.set({ main: TABS[next] as Main });
    tabs[next]?.focus();
  });
  return [list, lanes.element, graph.element];
}
