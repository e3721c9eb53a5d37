/** The left column: findings, what is shown, and what the signs mean. */

import type { Finding } from "../trace/types.js";
import { selectFinding } from "./actions.js";
import { button, checkbox, h, replace, scrollWithin } from "./dom.js";
import { place, plural, short } from "./format.js";
import type { LanesView } from "./lanes/view.js";
import { legend } from "./legend.js";
import type { Panel } from "./state.js";
import { SEVERITY_SIGNS } from "./words.js";

/** More than this in one list is not read; the rest is counted. */
const MOST = 200;

export function buildFindings(panel: Panel, lanes: LanesView): HTMLElement {
  return h(
    "aside",
    { class: "td-left", "aria-label": "Findings and display" },
    findingList(panel),
    showOptions(panel, lanes),
    legend(panel),
  );
}

function findingList(panel: Panel): HTMLElement {
  const { model, store, lifetime } = panel;
  const shown = model.findings.slice(0, MOST);
  const cards = shown.map((finding) => card(panel, finding));
  const mark = (): void => {
    const { finding } = store.get("selection");
    for (const [i, element] of cards.entries()) {
      const chosen = shown[i]?.id === finding;
      element.setAttribute("aria-pressed", String(chosen));
      const box = element.closest<HTMLElement>(
        panel.root.classList.contains("td-narrow") ? ".td-findings" : ".td-left",
      );
      if (chosen && box) scrollWithin(box, element);
    }
  };
  mark();
  lifetime.add(store.subscribe((changed) => changed.has("selection") && mark()));
  const empty =
    model.trace.verdict === "NOT CHECKED" ? "None, but no check has run." : "None: nothing wrong was found.";
  return h(
    "section",
    { class: "td-findings" },
    h("h2", {}, "Findings"),
    shown.length === 0 ? h("p", { class: "td-empty" }, empty) : null,
    ...cards,
    model.findings.length > MOST
      ? h("p", { class: "td-empty" }, `and ${model.findings.length - MOST} more, not listed`)
      : null,
    ...model.trace.coverage.notes.slice(0, 5).map((note) => h("p", { class: "td-empty" }, note)),
  );
}

function card(panel: Panel, finding: Finding): HTMLButtonElement {
  const element = button("", () => {
    const same = panel.store.get("selection").finding === finding.id;
    selectFinding(panel, same ? null : finding);
  });
  element.className = `td-card td-${finding.severity}`;
  const at = finding.callSite ?? finding.location;
  const heading = `${finding.rule}${finding.arrays.length > 0 ? ` · ${short(finding.arrays.join(", "), 60)}` : ""}`;
  replace(
    element,
    h(
      "span",
      { class: "td-card-title" },
      h("span", { class: "td-sign", "aria-label": finding.severity }, SEVERITY_SIGNS[finding.severity]),
      heading,
    ),
    h("span", { class: "td-card-text" }, finding.message),
    finding.fix ? h("span", { class: "td-card-fix" }, `→ ${finding.fix}`) : null,
    at
      ? h("span", { class: "td-card-place" }, `${place(at)}${at.function ? ` in ${short(at.function, 40)}` : ""}`)
      : null,
  );
  return element;
}

function showOptions(panel: Panel, lanes: LanesView): HTMLElement {
  const { view, lifetime, model } = panel;
  const count = h("p", { class: "td-empty", role: "status" });
  const sequences = model.trace.sequences.length;
  const gradient = checkbox("gradient-carrying only", view.get("gradientOnly"), (on) => view.set({ gradientOnly: on }));
  const constants = checkbox("read-only arrays", view.get("readOnly"), (on) => view.set({ readOnly: on }));
  const fold = checkbox("fold repeated sequences ×N", view.get("fold") && sequences > 0, (on) =>
    view.set({ fold: on, unfolded: new Set() }),
  );
  const box = fold.querySelector("input");
  if (box) box.disabled = sequences === 0;
  const update = (): void => {
    if (box) box.checked = view.get("fold") && sequences > 0;
    count.hidden = lanes.hidden === 0;
    replace(count, `${plural(lanes.hidden, "array")} hidden`);
  };
  update();
  lifetime.add(view.subscribe(update));
  return h("section", { class: "td-show" }, h("h2", {}, "Show"), gradient, constants, fold, count);
}
