/** The provenance of the selected value as a row of links, and links to the findings about the selection. */
import type { Finding } from "../trace/types.js";
import { goToStep, selectFinding } from "./actions.js";
import { type Child, h, link } from "./dom.js";
import { short } from "./format.js";
import { historyOf, type Step } from "./history.js";
import { SEVERITY_SIGNS } from "./phrases.js";
import type { Panel } from "./state.js";

/** The most steps that are shown: the provenance may go back through a whole tape. */
const MOST_STEPS = 6;
const MOST_FINDINGS = 5;

/** The steps that led to the selection; nothing if the selection is not one of them. */
export function provenanceView(panel: Panel): Child {
  const { provenance } = historyOf(panel);
  if (!provenance) return null;
  const here = historyOf(panel).position(provenance);
  if (here < 0) return null;
  const items: HTMLElement[] = [];
  if (provenance.from !== null) items.push(item(panel, `launch ${provenance.from}`, 0, here));
  const hidden = Math.max(0, provenance.steps.length - MOST_STEPS);
  if (hidden > 0) items.push(h("li", { class: "td-empty" }, `… ${hidden} more`));
  provenance.steps.slice(hidden).forEach((step, i) => {
    items.push(item(panel, words(panel, step), hidden + i + 1, here));
  });
  return h(
    "div",
    { class: "td-provenance", role: "group", "aria-label": "Writers of this value" },
    h("ol", {}, ...items),
    h("span", { class: "td-hint" }, "w continues, Shift+W goes back"),
  );
}

function words(panel: Panel, step: Step): string {
  const label = `${short(panel.model.array(step.array)?.label ?? "array", 24)} v${step.version}`;
  if (step.launch !== null) return `${label} by launch ${step.launch}`;
  return `${label} ${step.version === 0 ? "before the tape" : "outside the tape"}`;
}

function item(panel: Panel, text: string, index: number, here: number): HTMLElement {
  const element = link(text, () => goToStep(panel, index));
  element.dataset.key = `provenance ${index}`;
  if (index === here) element.setAttribute("aria-current", "step");
  return h("li", {}, element);
}

/** Links to the findings that concern what is selected. */
export function findingLinks(panel: Panel, findings: readonly Finding[]): Child {
  if (findings.length === 0) return null;
  const chosen = panel.store.get("selection").finding;
  const items = findings.slice(0, MOST_FINDINGS).map((finding) => {
    const text = `${finding.rule}${finding.arrays.length > 0 ? ` · ${short(finding.arrays.join(", "), 40)}` : ""}`;
    const element = link(text, () => selectFinding(panel, finding), short(finding.message, 300));
    if (finding.id === chosen) element.setAttribute("aria-current", "true");
    return h(
      "li",
      { class: `td-${finding.severity}` },
      h("span", { class: "td-sign", role: "img", "aria-label": finding.severity }, SEVERITY_SIGNS[finding.severity]),
      element,
    );
  });
  const more = findings.length - items.length;
  return h(
    "ul",
    { class: "td-concerned", "aria-label": "Findings about it" },
    ...items,
    more > 0 ? h("li", { class: "td-empty" }, `and ${more} more`) : null,
  );
}
