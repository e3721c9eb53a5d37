/** The left column: findings, display options and the legend. */

import type { TraceModel } from "../trace/model.js";
import type { Finding, Severity } from "../trace/types.js";
import { selectFinding, selectLaunch, selectVersion } from "./actions.js";
import { copyButton } from "./copyButton.js";
import { button, type Child, checkbox, h, link, replace, scrollWithin } from "./dom.js";
import { evidenceView } from "./evidence.js";
import { place, plural, short, whole } from "./format.js";
import { canFold } from "./lanes/folds.js";
import { foldedNames } from "./lanes/tracks.js";
import { legend } from "./legend.js";
import { messageParts, SEVERITY_SIGNS } from "./phrases.js";
import type { Stage } from "./stage.js";
import type { Panel } from "./state.js";

/** The most findings in one list; the rest is counted. */
const MOST = 200;
/** A rule with more findings than this is folded. */
const MOST_OF_A_RULE = 8;
/** From so many findings on the list can be filtered. */
const FILTERED_FROM = 4;
const MOST_LINKS = 12;
const SEVERITIES: readonly Severity[] = ["error", "warning", "info"];
const NAMES: Readonly<Record<Severity, string>> = { error: "error", warning: "warning", info: "info" };

export function buildFindings(panel: Panel, stage: Stage): HTMLElement {
  return h(
    "div",
    { class: "td-left", role: "group", "aria-label": "Findings and display" },
    findingList(panel),
    showOptions(panel, stage),
    legend(panel),
  );
}

/** The findings that the list shows, in its order: what `j` and `k` walk through. */
export function visibleFindings(panel: Panel): readonly Finding[] {
  const without = panel.view.get("without");
  const rule = panel.view.get("rule");
  const left = panel.model.findings.filter((f) => !without.has(f.severity) && (rule === null || f.rule === rule));
  return grouped(left).flat();
}

/** Worst first; those of a rule that has many stand together, where its worst one is. */
function grouped(findings: readonly Finding[]): readonly (readonly Finding[])[] {
  const byRule = new Map<string, Finding[]>();
  for (const finding of findings) {
    const all = byRule.get(finding.rule);
    if (all) all.push(finding);
    else byRule.set(finding.rule, [finding]);
  }
  const groups: Finding[][] = [];
  const done = new Set<string>();
  for (const finding of findings) {
    const all = byRule.get(finding.rule) ?? [];
    if (all.length <= MOST_OF_A_RULE) groups.push([finding]);
    else if (!done.has(finding.rule)) groups.push(all);
    done.add(finding.rule);
  }
  return groups;
}

class List {
  readonly element = h("div", { class: "td-finding-list" });
  private cards = new Map<number, { element: HTMLElement; head: HTMLButtonElement; more: HTMLElement }>();
  private folds: { element: HTMLDetailsElement; findings: readonly Finding[]; fill(): void }[] = [];
  private opened: number | null = null;

  constructor(private readonly panel: Panel) {
    this.render();
  }

  render(): void {
    this.cards = new Map();
    this.folds = [];
    this.opened = null;
    const shown = visibleFindings(this.panel);
    const groups = grouped(shown);
    const rows = groups.slice(0, MOST).map((group) => (group.length > 1 ? this.fold(group) : this.card(group[0])));
    const more = groups.length - rows.length;
    replace(
      this.element,
      ...rows,
      shown.length === 0 ? h("p", { class: "td-empty" }, emptyText(this.panel)) : null,
      more > 0 ? h("p", { class: "td-empty" }, `and ${whole(more)} more, not listed`) : null,
    );
    this.mark();
  }

  /** Opens the chosen finding, and brings it into view. */
  mark(): void {
    const { finding } = this.panel.store.get("selection");
    for (const { element, findings, fill } of this.folds) {
      if (!findings.some((one) => one.id === finding)) continue;
      fill();
      element.open = true;
    }
    for (const [id, { element, head, more }] of this.cards) {
      const chosen = id === finding;
      head.setAttribute("aria-pressed", String(chosen));
      element.classList.toggle("td-open", chosen);
      more.hidden = !chosen;
      if (!chosen) continue;
      if (this.opened !== id) replace(more, ...details(this.panel, this.panel.model.finding(id)));
      const narrow = this.panel.root.classList.contains("td-narrow");
      const box = head.closest<HTMLElement>(narrow ? ".td-findings" : ".td-left");
      if (box && this.opened !== id) scrollWithin(box, head);
    }
    this.opened = finding;
  }

  private card(finding: Finding | undefined): HTMLElement | null {
    if (!finding) return null;
    const head = headOf(this.panel, finding);
    const more = h("div", { class: "td-card-more", hidden: true });
    const element = h("div", { class: `td-finding td-${finding.severity}` }, head, more);
    this.cards.set(finding.id, { element, head, more });
    return element;
  }

  /** Several findings of one rule, built when the list is opened. */
  private fold(findings: readonly Finding[]): HTMLElement {
    const worst = findings[0]?.severity ?? "info";
    const body = h("div", { class: "td-fold-body" });
    const fill = (): void => {
      if (body.childElementCount > 0) return;
      const more = findings.length - MOST;
      replace(
        body,
        ...findings.slice(0, MOST).map((finding) => this.card(finding)),
        more > 0 ? h("p", { class: "td-empty" }, `and ${whole(more)} more, not listed`) : null,
      );
    };
    const element = h(
      "details",
      { class: `td-fold td-${worst}` },
      h("summary", {}, sign(worst), `${short(findings[0]?.rule ?? "", 40)} ×${whole(findings.length)}`),
      body,
    );
    element.addEventListener("toggle", () => {
      if (element.open) fill();
    });
    this.folds.push({ element, findings, fill });
    return element;
  }
}

function findingList(panel: Panel): HTMLElement {
  const { model, store, view, lifetime } = panel;
  const list = new List(panel);
  lifetime.add(store.subscribe((changed) => changed.has("selection") && list.mark()));
  lifetime.add(view.subscribe((changed) => (changed.has("without") || changed.has("rule")) && list.render()));
  return h(
    "section",
    { class: "td-findings" },
    h("h2", {}, "Findings"),
    model.findings.length >= FILTERED_FROM ? filters(panel) : null,
    list.element,
    ...[...model.trace.coverage.notes, ...model.trace.notes]
      .slice(0, 5)
      .map((note) => h("p", { class: "td-empty" }, note)),
  );
}

function emptyText({ model }: Panel): string {
  if (model.findings.length > 0) return "None with the filters above.";
  if (model.launchCount === 0) return "None: this tape has no launch.";
  if (model.trace.coverage.partial) return "None so far: not every rule has run.";
  return model.trace.verdict === "NOT CHECKED"
    ? "None, but the tape was not checked end to end."
    : "None: nothing wrong was found.";
}

function filters(panel: Panel): HTMLElement {
  const { model, view } = panel;
  const boxes = SEVERITIES.map((severity) => {
    const count = model.findings.filter((finding) => finding.severity === severity).length;
    if (count === 0) return null;
    return checkbox(`${SEVERITY_SIGNS[severity]} ${plural(count, NAMES[severity])}`, true, (on) => {
      const without = new Set(view.get("without"));
      if (on) without.delete(severity);
      else without.add(severity);
      view.set({ without });
    });
  });
  const rules = [...new Set(model.findings.map((finding) => finding.rule))].slice(0, 100);
  const select = h("select", { class: "td-button", "aria-label": "Findings of one rule" });
  select.append(h("option", { value: "" }, "all rules"));
  rules.forEach((rule, i) => {
    select.append(h("option", { value: i }, short(rule, 40)));
  });
  select.addEventListener("change", () => {
    view.set({ rule: select.value === "" ? null : (rules[Number(select.value)] ?? null) });
  });
  return h(
    "div",
    { class: "td-filters", role: "group", "aria-label": "Filter findings" },
    ...boxes,
    rules.length > 1 ? select : null,
  );
}

function sign(severity: Severity): HTMLElement {
  return h("span", { class: "td-sign", role: "img", "aria-label": severity }, SEVERITY_SIGNS[severity]);
}

function headOf(panel: Panel, finding: Finding): HTMLButtonElement {
  const element = button("", () => {
    const same = panel.store.get("selection").finding === finding.id;
    selectFinding(panel, same ? null : finding);
  });
  element.className = `td-card td-${finding.severity}`;
  const at = finding.callSite ?? finding.location;
  const { cause, effect } = messageParts(finding.message);
  const heading = `${finding.rule}${finding.arrays.length > 0 ? ` · ${short(finding.arrays.join(", "), 60)}` : ""}`;
  replace(
    element,
    h("span", { class: "td-card-title" }, sign(finding.severity), heading),
    h("span", { class: "td-card-cause" }, cause),
    effect ? h("span", { class: "td-card-effect" }, effect) : null,
    finding.fix ? h("span", { class: "td-card-fix" }, h("b", {}, "Fix: "), finding.fix) : null,
    at
      ? h("span", { class: "td-card-place" }, `${place(at)}${at.function ? ` in ${short(at.function, 40)}` : ""}`)
      : null,
  );
  return element;
}

/** Details of the selected finding: its evidence, and links to everything it names. */
function details(panel: Panel, finding: Finding | null): Child[] {
  if (!finding) return [];
  const evidence = evidenceView(panel, finding);
  const launches = finding.launches.filter((index) => panel.model.launch(index) !== null);
  return [
    finding.fix ? copyButton(panel, finding.fix, "copy the fix") : null,
    named(
      "launches",
      launches.slice(0, MOST_LINKS).map((index) => launchLink(panel, index)),
      launches.length,
    ),
    named("arrays", arrayLinks(panel, finding), finding.arrays.length),
    named("source", finding.location ? [link(place(finding.location), () => selectFinding(panel, finding))] : [], 1),
    named("called at", callLinks(panel, finding), 1),
    evidence ? h("details", { class: "td-more" }, h("summary", {}, "evidence"), evidence) : null,
  ];
}

function named(name: string, links: readonly HTMLElement[], total: number): Child {
  if (links.length === 0) return null;
  // no line begins with a comma
  const parts = links.flatMap((element, i, { length }) => [
    h("span", { class: "td-nowrap" }, element, i < length - 1 ? "," : null),
    i < length - 1 ? " " : null,
  ]);
  const more = total > links.length ? ` and ${whole(total - links.length)} more` : "";
  return h("p", { class: "td-named" }, h("span", { class: "td-label" }, `${name} `), ...parts, more);
}

function launchLink(panel: Panel, index: number): HTMLElement {
  return link(String(index), () => selectLaunch(panel, index), short(panel.model.launch(index)?.name ?? "", 60));
}

function arrayLinks(panel: Panel, finding: Finding): HTMLElement[] {
  return finding.arrays.slice(0, MOST_LINKS).flatMap((label) => {
    const id = panel.model.arrayId(label);
    if (id === null) return [];
    const go = (): void => {
      const { launch } = panel.store.get("selection");
      const version = (launch === null ? null : panel.model.versionAt(id, launch)) ?? panel.model.latest(id);
      if (version) selectVersion(panel, version);
    };
    return [link(short(label, 40), go)];
  });
}

/** The launch that was made where the finding says. */
function callLinks(panel: Panel, finding: Finding): HTMLElement[] {
  const at = finding.callSite;
  if (!at) return [];
  const launch = finding.launches.find((index) => {
    const site = panel.model.launch(index)?.callSite;
    return site?.file === at.file && site.line === at.line;
  });
  return [launch === undefined ? h("span", {}, place(at)) : link(place(at), () => selectLaunch(panel, launch))];
}

function showOptions(panel: Panel, stage: Stage): HTMLElement {
  const { view, lifetime, model } = panel;
  const count = h("p", { class: "td-empty", role: "status" });
  const suspects = model.trace.arrays.some((array) => model.isSuspect(array));
  const boxes = [
    toggle(
      panel,
      "gradientOnly",
      "only arrays with a gradient",
      "arrays without requires_grad are hidden, unless a finding names them",
    ),
    toggle(panel, "suspectOnly", "only arrays in findings", "arrays that no finding names are hidden", suspects),
    toggle(panel, "readOnly", "arrays that are only read", "also arrays that no launch writes, such as indices"),
    toggle(
      panel,
      "fold",
      "fold repetitions",
      "shows the first rounds of repeated launches with ×N, and of arrays k, k#2 … k#100 the first two and the last",
      canFold(model),
    ),
  ];
  const update = (): void => {
    for (const box of boxes) box.update();
    count.hidden = stage.hidden === 0;
    replace(count, `${plural(stage.hidden, "array")} hidden${view.get("fold") ? foldedText(model) : ""}`);
  };
  update();
  lifetime.add(view.subscribe(update));
  return h("section", { class: "td-show" }, h("h2", {}, "Show"), ...boxes.map(({ element }) => element), count);
}

const MOST_NAMES = 4;

/** "; folded: k#3 … k#99". */
function foldedText(model: TraceModel): string {
  const names = [...foldedNames(model.trace.arrays).values()].map((list) =>
    list.length === 1 ? list[0]?.label : `${list[0]?.label} … ${list.at(-1)?.label}`,
  );
  if (names.length === 0) return "";
  const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : "";
  return `; folded: ${names.slice(0, MOST_NAMES).join(", ")}${more}`;
}

type Switch = "gradientOnly" | "suspectOnly" | "readOnly" | "fold";

/** A checkbox of the view's state; it is disabled if it would have no effect. */
function toggle(
  { view }: Panel,
  key: Switch,
  label: string,
  title: string,
  able = true,
): { element: HTMLElement; update(): void } {
  const element = checkbox(label, view.get(key) && able, (on) =>
    view.set(key === "fold" ? { fold: on, unfolded: new Set() } : { [key]: on }),
  );
  const box = element.querySelector("input") as HTMLInputElement;
  box.disabled = !able;
  element.title = able ? title : "has no effect on this tape";
  return {
    element,
    update: () => {
      box.checked = view.get(key) && able;
    },
  };
}
