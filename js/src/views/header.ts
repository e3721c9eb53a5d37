/** The bar at the top: tape, verdict and coverage, search, colours, export, run. */

import type { TapeInfo } from "../trace/types.js";
import { button, h, replace } from "./dom.js";
import { facts } from "./facts.js";
import { bytes, plural, short, tapeTitle, whole } from "./format.js";
import { countOf, levelBadge } from "./level.js";
import { judgement } from "./pairs.js";
import { VERDICT_MEANINGS, VERDICT_SIGNS } from "./phrases.js";
import { NEEDS_KERNEL, runButton } from "./runButton.js";
import { searchBox } from "./search.js";
import { COLOUR_NAMES, COLOURS, type ColourBy, type Panel } from "./state.js";
import { timingLine } from "./timings.js";

const MOST_NOTES = 20;
const MOST_STEPS = 4;

interface Header {
  readonly element: HTMLElement;
  focusSearch(): void;
}

export function buildHeader(panel: Panel, toggleHelp: () => void): Header {
  const search = searchBox(panel);
  const element = h(
    "div",
    { class: "td-header" },
    title(panel),
    h("div", { class: "td-tools" }, search.element, colourMenu(panel), ...kernelButtons(panel), helpButton(toggleHelp)),
  );
  return { element, focusSearch: search.focus };
}

function title(panel: Panel): HTMLElement {
  const { model, store, lifetime } = panel;
  const { trace } = model;
  const badge = h("span");
  const coverage = h("p", {
    class: "td-coverage",
    title: [trace.coverage.summary, ...trace.coverage.notes].join("\n"),
  });
  const update = (): void => {
    const { verdict, summary } = judgement(model, store.get("checks"));
    const { level, text } = levelBadge(verdict, countOf(model.findings), trace.coverage.partial, "not checked");
    badge.className = `td-badge td-level-${level}`;
    badge.title = VERDICT_MEANINGS[verdict];
    replace(badge, text);
    replace(coverage, [summary, ...severities(panel)].join(" · "));
  };
  update();
  lifetime.add(store.subscribe(update));
  return h(
    "div",
    { class: "td-title" },
    h("h1", { class: "td-name", title: short(trace.name, 300) }, short(tapeTitle(trace.name, trace.tape.id), 80)),
    badge,
    ...engine(trace.tape.engine),
    coverage,
    checkAccount(panel),
  );
}

/** The engine that ran the launches, if it is not that of tapedebug. */
function engine(name: string): HTMLElement[] {
  const title = "The engine that ran the launches: see what was checked";
  return name === "" ? [] : [h("span", { class: "td-engine", title }, short(name, 80))];
}

/** The meaning and the coverage of the verdict, in full. */
function checkAccount(panel: Panel): HTMLElement {
  const { model, store, lifetime } = panel;
  const body = h("div", { class: "td-checked-body" });
  const summary = h("summary", {}, "what was checked");
  const element = h("details", { class: "td-checked" }, summary, body);
  const fill = (): void => {
    const { environment, tape, coverage, timings } = model.trace;
    const judged = judgement(model, store.get("checks"));
    replace(
      body,
      h("p", {}, h("b", {}, `${VERDICT_SIGNS[judged.verdict]} ${judged.verdict}: `), VERDICT_MEANINGS[judged.verdict]),
      h("p", {}, judged.summary),
      ...[...coverage.notes, ...model.trace.notes]
        .slice(0, MOST_NOTES)
        .map((note) => h("p", { class: "td-empty" }, note)),
      facts(
        ["launches", `${whole(coverage.checked)} of ${whole(coverage.launches)} checked`],
        ["reverse passes", whole(tape.backwardRuns)],
        ...tapeFacts(tape),
        timings.length > 0 ? ["diagnosis took", timingLine(timings, MOST_STEPS)] : null,
        ...Object.entries(environment)
          .slice(0, MOST_NOTES)
          .map(([name, value]) => [short(name, 40), short(value, 200)] as const),
      ),
    );
  };
  summary.addEventListener("click", fill); // before it opens, so that it is never shown empty
  element.addEventListener("focusout", (event) => {
    const next = event.relatedTarget;
    if (next instanceof Node && !element.contains(next)) element.open = false;
  });
  lifetime.add(store.subscribe((changed) => changed.has("checks") && element.open && fill()));
  return element;
}

/** What the engine did with overwritten values; for another engine, its name. */
function tapeFacts(tape: TapeInfo): (readonly [string, string])[] {
  if (tape.engine !== "") return [["engine", short(tape.engine, 200)]];
  return [
    ["overwrites", `on_overwrite="${short(tape.onOverwrite, 40)}"`],
    ["copies", `${bytes(tape.preservedBytes)} for adjoints, ${bytes(tape.liveinBytes)} for replays`],
  ];
}

function severities({ model }: Panel): string[] {
  const counts = (["error", "warning", "info"] as const)
    .map((severity) => ({ severity, n: model.findings.filter((f) => f.severity === severity).length }))
    .filter(({ n }) => n > 0)
    .map(({ severity, n }) => plural(n, severity));
  return counts.length > 0 ? [counts.join(", ")] : [];
}

function colourMenu(panel: Panel): HTMLElement {
  const select = h("select", { class: "td-button", "aria-label": "Colour bars by" });
  for (const by of COLOURS) select.append(h("option", { value: by }, `Colour: ${COLOUR_NAMES[by]}`));
  select.value = panel.view.get("colour");
  select.addEventListener("change", () => panel.view.set({ colour: select.value as ColourBy }));
  return select;
}

function helpButton(toggle: () => void): HTMLElement {
  return button("?", toggle, { class: "td-button td-round", name: "keyboard help", title: "keyboard (?)" });
}

/** Buttons that need a kernel; without one they are disabled, with the reason as their title. */
function kernelButtons(panel: Panel): HTMLElement[] {
  const { store, lifetime } = panel;
  const exporting = button("Export report", () => store.exportReport(), { class: "td-button" });
  const update = (): void => {
    const { canRun } = store.value;
    exporting.disabled = !canRun;
    exporting.title = canRun ? "writes one offline HTML file" : NEEDS_KERNEL;
  };
  update();
  lifetime.add(store.subscribe(update));
  return [exporting, runButton(panel, "td-run-head")];
}

/** The line under the header: progress of a run, and the last message of the kernel. */
export function buildStatus(panel: Panel): HTMLElement {
  const { store, lifetime, model } = panel;
  const bar = h("div", {
    class: "td-progress",
    role: "progressbar",
    "aria-label": "checks",
    "aria-valuemin": 0,
    "aria-valuemax": 100,
  });
  const fill = h("div", { class: "td-progress-fill" });
  bar.append(fill);
  const text = h("p", { class: "td-status", role: "status" });
  const problems = model.problems.length > 0 ? problemList(model.problems) : null;
  const update = (): void => {
    const { running, progress, status } = store.value;
    bar.hidden = !running;
    bar.setAttribute("aria-valuenow", String(Math.round(progress * 100)));
    fill.style.width = `${Math.max(0, Math.min(1, Number.isFinite(progress) ? progress : 0)) * 100}%`;
    text.hidden = status === "";
    replace(text, short(status, 500));
  };
  update();
  lifetime.add(store.subscribe(update));
  return h("div", { class: "td-statusbar" }, bar, text, problems);
}

function problemList(problems: readonly string[]): HTMLElement {
  const summary = h(
    "summary",
    {},
    `This trace has ${plural(problems.length, "field")} that ${problems.length === 1 ? "is" : "are"} invalid and left out.`,
  );
  return h("details", { class: "td-problems" }, summary, h("ul", {}, ...problems.map((text) => h("li", {}, text))));
}
