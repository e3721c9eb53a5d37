/** The report in prose, for readers who did not run the program: what was recorded, checked, found, and left out. */
import type { TraceModel } from "../../trace/model.js";
import type { Check, Finding, TapeInfo } from "../../trace/types.js";
import { type Child, h } from "../dom.js";
import { bytes, fileName, listed, number, place, plural, seconds, short, whole } from "../format.js";
import { eventPlace, eventText } from "../lanes/events.js";
import { countOf, levelBadge } from "../level.js";
import { SEVERITY_SIGNS, VERDICT_MEANINGS, VERDICT_SIGNS } from "../phrases.js";
import { timingRows } from "../timings.js";

/** The most rows of a list on a page; the rest is counted. */
const MOST_FINDINGS = 500;
const MOST_CHECKS = 1_000;
const MOST_EVENTS = 200;
const MOST_KERNELS = 60;
const MOST_TIMINGS = 12;

const SEVERITY_WORDS = { error: "error", warning: "warning", info: "info" } as const;

/** The treatment of values that an adjoint needs and a later launch overwrites. */
const OVERWRITES: Readonly<Record<string, string>> = {
  preserve: "copied first, for the adjoint",
  warn: "lost, with a warning",
  error: "refused",
  ignore: "lost",
};

/** Facts about the file itself. */
export interface ReportFacts {
  readonly version: string;
  readonly written: string;
  /** Sentences about what was left out of it. */
  readonly notes: readonly string[];
}

/** All about one tape. `pictures` are put after the checks. */
export function tapeAccount(model: TraceModel, pictures: Child = null): HTMLElement {
  const { trace } = model;
  return h(
    "article",
    { class: "td-account-tape" },
    h("h1", {}, short(trace.name, 200)),
    verdict(model),
    findings(model),
    checks(model),
    pictures,
    timings(model),
    events(model),
    tape(model),
    environment(model),
  );
}

/** How to read it, and what this file is. */
export function fileAccount(file: ReportFacts, problems: readonly string[]): HTMLElement {
  return h(
    "article",
    { class: "td-account-file" },
    section(
      "How to read this",
      h(
        "p",
        {},
        "A tape records launches of kernels; the reverse pass runs the adjoint of each in the opposite order, which gives the gradient. ",
        "It is wrong without an error if an adjoint reads values that were overwritten, if an array that carries the gradient has no requires_grad, or if an adjoint is not the derivative of its kernel.",
      ),
      h(
        "p",
        {},
        "The verdict compares the gradient of the tape with a float64 reference. A finding names the launch, the array and the line; its numbers were measured on this tape. ",
        "An error (✕) makes the gradient that was used wrong, a warning (!) is probably not what was meant, an info (i) is harmless.",
      ),
      h(
        "p",
        {},
        "In the panel the tape runs from left to right, with one lane for each array; the reverse pass mirrors it on the right. Click a finding to see where it is.",
      ),
    ),
    section(
      "This file",
      facts([
        ["written", file.written || "–"],
        ["by", file.version ? `tapedebug ${short(file.version, 40)}` : "tapedebug"],
        ["needs", "no network and no installation; nothing in it is computed when it is opened"],
      ]),
      list(file.notes, "Nothing was left out."),
      problems.length > 0
        ? h("p", {}, `${plural(problems.length, "field")} of the trace are invalid and were left out:`)
        : null,
      problems.length > 0 ? list(problems, "") : null,
    ),
  );
}

export function section(title: string, ...children: readonly Child[]): HTMLElement {
  return h("section", {}, h("h2", {}, title), ...children);
}

function facts(rows: readonly (readonly [string, Child])[]): HTMLElement {
  const element = h("dl", { class: "td-account-facts" });
  for (const [name, value] of rows) element.append(h("dt", {}, name), h("dd", {}, value));
  return element;
}

function table(head: readonly string[], rows: readonly (readonly Child[])[], label: string): HTMLElement {
  return h(
    "div",
    { class: "td-account-table" },
    h(
      "table",
      { "aria-label": label },
      h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, cell))))),
    ),
  );
}

function list(items: readonly string[], empty: string): HTMLElement {
  if (items.length === 0) return h("p", { class: "td-empty" }, empty);
  return h("ul", {}, ...items.map((item) => h("li", {}, short(item, 2_000))));
}

function more(all: number, shown: number): HTMLElement | null {
  return all > shown ? h("p", { class: "td-empty" }, `and ${whole(all - shown)} more, not listed`) : null;
}

export function verdictSign(value: Check["verdict"]): HTMLElement {
  const name = value ?? "NOT CHECKED";
  return h(
    "span",
    { class: `td-verdict-${name.toLowerCase().replace(" ", "-")}` },
    `${VERDICT_SIGNS[name]} ${name === "NOT CHECKED" ? "not checked" : name}`,
  );
}

function verdict({ trace }: TraceModel): HTMLElement {
  const { coverage } = trace;
  const { level, text } = levelBadge(trace.verdict, countOf(trace.findings), coverage.partial, "not checked");
  const notes = [...coverage.notes, ...trace.notes];
  return section(
    "What was checked",
    h(
      "p",
      {},
      h("strong", { class: `td-level-${level}` }, text),
      `: ${VERDICT_MEANINGS[trace.verdict]}. ${short(coverage.summary, 1_000)}.`,
    ),
    notes.length > 0 ? list(notes, "") : null,
  );
}

function findings(model: TraceModel): HTMLElement {
  const shown = model.findings.slice(0, MOST_FINDINGS);
  return section(
    model.findings.length > 0 ? `Findings (${whole(model.findings.length)})` : "Findings",
    shown.length === 0 ? h("p", { class: "td-empty" }, "None.") : null,
    ...shown.map((item) => finding(item)),
    more(model.findings.length, shown.length),
  );
}

function finding(item: Finding): HTMLElement {
  const arrays = item.arrays.length > 0 ? ` · ${short(item.arrays.join(", "), 120)}` : "";
  const rows: [string, Child][] = [];
  if (item.callSite) rows.push([item.location ? "launched at" : "at", where(item.callSite)]);
  if (item.location) rows.push(["line of the kernel", where(item.location)]);
  if (item.launches.length > 0)
    rows.push([item.launches.length > 1 ? "launches" : "launch", listed(item.launches, 12)]);
  return h(
    "div",
    { class: `td-account-finding td-${item.severity}` },
    h(
      "h3",
      {},
      h("span", { class: "td-sign" }, SEVERITY_SIGNS[item.severity]),
      ` ${SEVERITY_WORDS[item.severity]}: ${short(item.rule, 80)}${arrays}`,
    ),
    h("p", { class: "td-account-message" }, short(item.message, 4_000)),
    item.fix ? h("p", {}, h("strong", {}, "Fix: "), short(item.fix, 2_000)) : null,
    facts(rows),
  );
}

function where(at: NonNullable<Finding["location"]>): string {
  return `${place(at)}${at.function ? `, in ${short(at.function, 60)}` : ""}`;
}

function checks({ trace }: TraceModel): HTMLElement {
  const run = trace.checks.filter((check) => check.verdict !== null);
  const left = trace.checks.length - run.length;
  const rows = run
    .slice(0, MOST_CHECKS)
    .map((check): Child[] => [
      check.launch === null ? "whole tape" : `launch ${whole(check.launch)}`,
      `∂ ${short(check.output, 40)} / ∂ ${short(check.input, 40)}`,
      verdictSign(check.verdict),
      number(check.maxRelError),
      number(check.maxAbsError),
      seconds(check.seconds),
      short(check.message, 400),
    ]);
  const head = ["of", "derivative", "verdict", "relative error", "absolute error", "time", "message"];
  return section(
    "Checks",
    rows.length > 0 ? table(head, rows, "checks") : h("p", { class: "td-empty" }, "No pair was checked."),
    more(run.length, rows.length),
    left > 0
      ? h("p", { class: "td-empty" }, `${plural(left, "pair")} could be checked and ${left > 1 ? "were" : "was"} not.`)
      : null,
  );
}

function timings({ trace }: TraceModel): HTMLElement | null {
  if (trace.timings.length === 0) return null;
  return section(
    "Time of the diagnosis",
    table(["step", "measured", "estimated before"], timingRows(trace.timings, MOST_TIMINGS), "time of the diagnosis"),
  );
}

function events(model: TraceModel): HTMLElement | null {
  const { events: all, eventsDropped } = model.trace;
  if (all.length === 0) return null;
  const shown = all.slice(-MOST_EVENTS);
  return section(
    "Events around the tape",
    h("p", {}, "Events of the tape, its arrays and their gradients, other than launches, in order."),
    list(
      shown.map((event) => `${sentence(eventText(model, event))} (${eventPlace(model, event)})`),
      "",
    ),
    more(all.length + eventsDropped, shown.length),
  );
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function tape(model: TraceModel): HTMLElement {
  const { trace } = model;
  const { tape: info } = trace;
  const loss = model.array(trace.backward.loss);
  const kernels = trace.kernels
    .slice(0, MOST_KERNELS)
    .map((kernel) => `${short(kernel.name, 60)} (${fileName(kernel.file)}:${kernel.line})`);
  return section(
    "The tape",
    facts([
      ["number", String(info.id)],
      ["launches", whole(model.launchCount)],
      ["arrays", whole(trace.arrays.length)],
      ...ownOrOther(info),
      ["reverse passes", `${whole(info.backwardRuns)}${loss ? `, from ${short(loss.label, 60)}` : ""}`],
      ["kernels", listed(kernels, MOST_KERNELS)],
    ]),
  );
}

/** The treatment of overwritten values; for another engine, its name. */
function ownOrOther(info: TapeInfo): [string, Child][] {
  if (info.engine !== "") return [["engine", short(info.engine, 200)]];
  const mode = `on_overwrite="${short(info.onOverwrite, 40)}"`;
  return [
    ["overwritten values", `${OVERWRITES[info.onOverwrite] ?? "recorded"} (${mode})`],
    ["copies for adjoints", bytes(info.preservedBytes)],
  ];
}

function environment({ trace }: TraceModel): HTMLElement {
  const rows = Object.entries(trace.environment).map(([name, value]): [string, Child] => [
    short(name, 40),
    short(value, 200),
  ]);
  return section("Recorded with", facts(rows));
}
