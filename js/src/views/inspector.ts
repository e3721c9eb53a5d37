/** The right column: details of the selected launch, or of one version of an array. */

import type { Launch } from "../trace/types.js";
import { mainArg } from "./actions.js";
import { argTable } from "./argumentTable.js";
import { codeLine, copyButton } from "./copyButton.js";
import { sourceOf, ValuesShell } from "./details/shell.js";
import { append, button, type Child, h, replace } from "./dom.js";
import { facts } from "./facts.js";
import { dim, place, seconds, short } from "./format.js";
import { historyOf } from "./history.js";
import { keepFocus } from "./keepFocus.js";
import { buildPairMatrix, jacobianOf } from "./pairMatrix.js";
import { findingLinks, provenanceView } from "./provenance.js";
import { Lifetime, type Panel, type ViewState } from "./state.js";
import { arrayFacts, fateLine, versionHistory } from "./versionDetails.js";

export function buildInspector(panel: Panel): HTMLElement {
  const { store, view, lifetime } = panel;
  const tabs = h("div", { class: "td-tabs", role: "tablist", "aria-label": "Selected" });
  const body = h("div", { class: "td-tabbody", role: "tabpanel", tabindex: 0 });
  const mask = buildPairMatrix(panel);
  jacobianOf(panel).onLoad = () => view.get("tab") === "jacobian" && render();
  let { pair } = store.get("selection");
  if (pair !== null) view.set({ tab: "jacobian" });
  const values = new ValuesShell(panel);
  historyOf(panel);
  let inner = new Lifetime();
  const render = (): void => {
    inner.end();
    inner = new Lifetime();
    const scoped: Panel = { ...panel, lifetime: inner };
    keepFocus(tabs, () => replace(tabs, ...tabButtons(panel)));
    keepFocus(body, () => {
      const shown = TABS[view.get("tab")](scoped, values);
      replace(body, ...shown.parts);
      values.show(shown.array, shown.version); // once it is on the page: it paints
    });
  };
  render();
  lifetime.add(() => inner.end());
  lifetime.add(
    store.subscribe((changed) => {
      if (!changed.has("selection")) return;
      const before = pair;
      ({ pair } = store.get("selection"));
      if (pair !== null && String(pair) !== String(before)) view.set({ tab: "jacobian" });
      if (view.get("tab") === "jacobian") keepFocus(tabs, () => replace(tabs, ...tabButtons(panel)));
      else render();
    }),
  );
  lifetime.add(view.subscribe((changed) => (changed.has("tab") || changed.has("backward")) && render()));
  return h("div", { class: "td-right", role: "group", "aria-label": "Inspector" }, tabs, body, mask);
}

const TABS: Readonly<Record<ViewState["tab"], (panel: Panel, values: ValuesShell) => Tab>> = {
  launch: launchTab,
  array: arrayTab,
  jacobian: (panel) => ({ parts: jacobianOf(panel).tab(panel), array: null, version: null }),
};

function tabButtons(panel: Panel): HTMLElement[] {
  const { model, store, view } = panel;
  const { launch, array, version, pair } = store.get("selection");
  const found = model.launch(launch);
  const picked = model.array(model.arrayId(array));
  const names = {
    launch: ["Launch", found ? `${found.index} · ${short(found.name, 40)}` : ""],
    array: ["Array", picked ? `${short(picked.label, 40)}${version === null ? "" : ` v${version}`}` : ""],
    jacobian: ["Jacobian", pair ? `${short(pair[2], 30)} by ${short(pair[1], 30)}` : ""],
  } as const;
  return (["launch", "array", "jacobian"] as const).map((tab) => {
    const chosen = view.get("tab") === tab;
    const [kind, which] = names[tab];
    const element = button(kind, () => view.set({ tab }), {
      class: "td-choice",
      title: which,
      role: "tab",
      "aria-selected": String(chosen),
      "data-key": `tab ${tab}`,
    });
    if (which !== "") append(element, [" ", h("span", {}, which)]);
    return element;
  });
}

/** The content of a tab, and the version whose values it shows. */
interface Tab {
  readonly parts: readonly Child[];
  readonly array: number | null;
  readonly version: number | null;
}

function hint(text: string): Tab {
  return { parts: [h("p", { class: "td-hint" }, text)], array: null, version: null };
}

function launchTab(panel: Panel, values: ValuesShell): Tab {
  const { model, store, view } = panel;
  const launch = model.launch(store.get("selection").launch);
  if (!launch) return hint("Select a launch: click a finding or a mark in the lanes, or press ← and →.");
  const kernel = model.kernel(launch);
  const scopes = model.scopesOf(launch).map((scope) => short(scope.name, 40));
  const shown = valuesOf(panel, launch);
  const parts = [
    facts(
      launch.kind === "kernel" ? ["dim", dim(launch.dim)] : ["kind", launch.kind],
      ["called at", ...callSite(panel, launch)],
      scopes.length > 0 ? ["scope", scopes.join(" › ")] : null,
      ["time", times(launch)],
    ),
    provenanceView(panel),
    findingLinks(panel, model.findingsOf(launch.index)),
    argTable(panel, launch, view.get("backward"), shown?.array ?? null),
    kernel ? sourceOf(panel, launch, kernel) : null,
    values.element,
    codeLine(panel, "Panel", selectionCode(panel, launch.index)),
  ];
  return { parts, array: shown?.array ?? null, version: shown?.version ?? null };
}

function times({ seconds: forward, backwardSeconds: backward }: Launch): string {
  const parts = [
    forward === null ? "" : `${seconds(forward)} forward`,
    backward === null ? "" : `${seconds(backward)} backward`,
  ];
  return parts.filter(Boolean).join(", ") || "–";
}

function callSite(panel: Panel, launch: Launch): Child[] {
  const site = launch.callSite;
  if (!site) return ["–"];
  const text = `${place(site)}${site.function ? ` in ${short(site.function, 40)}` : ""}`;
  const copied = `${site.file}:${site.line}`;
  return [h("span", { title: short(site.file, 300) }, text), " ", copyButton(panel, copied, `copy ${place(site)}`)];
}

/** The array of a launch whose values are shown: the selected one, else one that it wrote, else one that it read. */
function valuesOf(panel: Panel, launch: Launch): { array: number; version: number } | null {
  const { model, store } = panel;
  const { array, version } = store.get("selection");
  const id = model.arrayId(array);
  if (id !== null) {
    const found = model.version(id, version) ?? model.versionAt(id, launch.index);
    return found ? { array: id, version: found.version } : null;
  }
  const written = launch.args.filter((arg) => arg.array !== null && arg.writes);
  const arg = written.find((one) => model.array(one.array)?.requiresGrad) ?? written[0] ?? mainArg(panel, launch);
  const at = arg?.writeVersion ?? arg?.readVersion;
  return arg?.array == null || at == null ? null : { array: arg.array, version: at };
}

/** The trait of the widget that shows the same. */
function selectionCode(panel: Panel, launch: number | null): string {
  const { array, version } = panel.store.get("selection");
  const found = panel.model.array(panel.model.arrayId(array));
  const parts: Record<string, unknown> = launch === null ? {} : { launch };
  if (found) parts.array = found.label.length <= 60 ? found.label : found.id;
  if (found && version !== null) parts.version = version;
  return `dbg.selection = ${JSON.stringify(parts).replaceAll('":', '": ').replaceAll(',"', ', "')}`;
}

function arrayTab(panel: Panel, values: ValuesShell): Tab {
  const { model, store } = panel;
  const { array: key, version: number } = store.get("selection");
  const array = model.array(model.arrayId(key));
  if (!array) return hint("Select a version of an array: click a bar in the lanes.");
  const version = model.version(array.id, number) ?? model.latest(array.id);
  const about = model.findings.filter((finding) => finding.arrays.includes(array.label));
  const parts: Child[] = [arrayFacts(panel, array, version), provenanceView(panel), findingLinks(panel, about)];
  if (!version) parts.push(h("p", { class: "td-empty" }, "No version of it was recorded."));
  else parts.push(fateLine(panel, version), values.element, versionHistory(panel, version));
  parts.push(codeLine(panel, "Panel", selectionCode(panel, null)));
  return { parts, array: array.id, version: version?.version ?? null };
}
