/** The source of the selected launch's kernel and of what it calls, annotated; a click on a line shows its generated adjoint. */

import type { Code, Kernel, Launch, Severity } from "../trace/types.js";
import { type Child, h, link, replace, scrollWithin } from "./dom.js";
import { fileName, short } from "./format.js";
import { highlight, type Piece } from "./highlightPython.js";
import { adjointOf, type Badge, type GeneratedLine, holds, type LineNote, lineNotes } from "./lineNotes.js";
import { SEVERITY_SIGNS } from "./phrases.js";
import type { CodeLine, Panel } from "./state.js";

const MOST_LINES = 400;
const MOST_GENERATED = 2000;
/** The most letters by which a line is indented: the column is narrow. */
const MOST_INDENT = 24;
/** Functions of a kernel that are shown below it. */
const MOST_FUNCTIONS = 20;

export function buildSource(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement {
  if (kernel.lines.length === 0)
    return h(
      "section",
      { class: "td-source" },
      heading(kernel),
      h("p", { class: "td-empty" }, "The source is not part of this trace."),
    );
  const { view, lifetime } = panel;
  const shown = kernel.functions.filter(({ lines }) => lines.length > 0).slice(0, MOST_FUNCTIONS);
  const listings = [kernel, ...shown].map((code) => listingOf(panel, launch, kernel, code));
  const adjoint = h("div", { class: "td-adjoint", role: "group", "aria-label": "generated adjoint" });
  const toggle = link(
    "",
    () => view.set({ line: null, adjoint: !(view.get("adjoint") && view.get("line") === null) }),
    "the code that the reverse pass runs for this kernel; a click on a line of the source shows its own part",
  );
  const update = (scroll: boolean): void => {
    const line = view.get("line");
    const open = view.get("adjoint");
    adjoint.remove();
    const whole = open && line === null;
    toggle.setAttribute("aria-expanded", String(whole));
    replace(toggle, whole ? "hide the generated adjoint" : "show the generated adjoint");
    for (const listing of listings) listing.choose(line);
    const chosen = listings.find((listing) => listing.holds(line));
    const row = chosen?.row(line) ?? null;
    if (open && row && line) {
      replace(adjoint, ...adjointView(panel, kernel, line.line, chosen?.text(line)));
      chosen?.list.after(adjoint);
    } else if (whole) {
      replace(adjoint, ...adjointView(panel, kernel, null));
      toggle.parentElement?.after(adjoint);
    }
    if (scroll && chosen && row) scrollWithin(chosen.list, row);
    const column = adjoint.closest<HTMLElement>(".td-right");
    if (scroll && column) scrollWithin(column, adjoint);
  };
  update(false);
  requestAnimationFrame(() => update(true)); // only what is on the page can be scrolled to
  lifetime.add(view.subscribe((changed) => (changed.has("line") || changed.has("adjoint")) && update(true)));
  const more = kernel.functions.filter(({ lines }) => lines.length > 0).length - shown.length;
  const [own, ...called] = listings;
  return h(
    "section",
    { class: "td-source" },
    heading(kernel),
    own?.list,
    cutNote(kernel),
    h("p", { class: "td-generated" }, toggle),
    ...called.flatMap(({ code, list }) => [
      h("h3", { class: "td-called" }, `calls ${short(code.name, 60)} `, placeOf(code)),
      list,
      cutNote(code),
    ]),
    more > 0 ? h("p", { class: "td-empty" }, `${more} more functions not shown`) : null,
  );
}

function cutNote(code: Code): HTMLElement | null {
  const more = code.lines.length - MOST_LINES;
  return more > 0 ? h("p", { class: "td-empty" }, `${more} more lines not shown`) : null;
}

/** The lines of the kernel, or of a function that it calls: each can be chosen, and shows what was generated for it. */
interface Listing {
  readonly code: Code;
  readonly list: HTMLElement;
  holds(line: CodeLine | null): boolean;
  row(line: CodeLine | null): HTMLElement | null;
  text(line: CodeLine): string | undefined;
  /** Marks the selected line, unless it belongs to another listing. */
  choose(line: CodeLine | null): void;
}

function listingOf(panel: Panel, launch: Launch, kernel: Kernel, code: Code): Listing {
  const { view } = panel;
  const id = `td-line-${Math.random().toString(36).slice(2)}`;
  const rows = rowsOf(panel, launch, kernel, code);
  const at = (i: number): CodeLine => ({ file: code.file, line: code.line + i });
  const indexOf = (line: CodeLine | null): number =>
    line !== null && sameFile(line.file, code.file) ? line.line - code.line : -1;
  rows.forEach((element, i) => {
    element.id = `${id}-${i}`;
    element.setAttribute("role", "option");
    element.title = "show the adjoint generated for this line";
    element.addEventListener("click", () => {
      const same = indexOf(view.get("line")) === i && view.get("adjoint");
      view.set({ line: at(i), adjoint: !same });
    });
  });
  const list = h(
    "div",
    {
      class: "td-code",
      role: "listbox",
      tabindex: 0,
      "aria-label": `source of ${short(code.name, 80)}`,
      "data-td-keys": "ArrowUp ArrowDown Enter",
    },
    ...rows,
  );
  list.addEventListener("keydown", (event) => {
    const now = indexOf(view.get("line"));
    const chosen = now >= 0 && now < rows.length;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0 && (event.key !== "Enter" || !chosen)) return;
    event.preventDefault();
    if (step === 0) view.set({ adjoint: !view.get("adjoint") });
    else {
      const next = chosen ? now + step : step > 0 ? 0 : rows.length - 1;
      view.set({ line: at(Math.max(0, Math.min(rows.length - 1, next))) });
    }
  });
  return {
    code,
    list,
    holds: (line) => rows[indexOf(line)] !== undefined,
    row: (line) => rows[indexOf(line)] ?? null,
    text: (line) => code.lines[indexOf(line)],
    choose: (line) => {
      const index = indexOf(line);
      for (const [i, element] of rows.entries()) {
        element.classList.toggle("td-chosen", i === index);
        element.setAttribute("aria-selected", String(i === index));
      }
      if (rows[index]) list.setAttribute("aria-activedescendant", rows[index].id);
      else list.removeAttribute("aria-activedescendant");
    },
  };
}

function placeOf(code: Code): HTMLElement {
  return h("span", { class: "td-place", title: code.file }, `${fileName(code.file)}:${code.line}`);
}

function heading(kernel: Kernel): HTMLElement {
  return h("h2", {}, "Source ", placeOf(kernel), h("span", { class: "td-hint" }, "● needed by the adjoint"));
}

function rowsOf(panel: Panel, launch: Launch, kernel: Kernel, code: Code): HTMLElement[] {
  const notes = lineNotes(panel.model, launch, kernel, code);
  const finding = panel.model.finding(panel.store.get("selection").finding);
  const at = finding?.location;
  const here = at && sameFile(at.file, code.file) && holds(code, at.line);
  const marked = here ? { line: at.line, severity: finding.severity } : null;
  const text = code.lines.slice(0, MOST_LINES);
  const inks = highlight(text);
  return text.map((_, i) => row(code, i, inks[i] ?? [], notes.get(code.line + i), marked));
}

function sameFile(a: string, b: string): boolean {
  return a === b || fileName(a) === fileName(b);
}

interface Marked {
  readonly line: number;
  readonly severity: Severity;
}

/** A line with its notes below it, so that they cover no code, however long the line is. */
function row(
  code: Code,
  index: number,
  pieces: readonly Piece[],
  note: LineNote | undefined,
  marked: Marked | null,
): HTMLElement {
  const line = code.line + index;
  const here = marked?.line === line ? marked.severity : null;
  // what is wrong comes first: the rest may be cut off
  const badges = [...(note?.badges ?? [])].sort((a, b) => Number(isSerious(b)) - Number(isSerious(a)));
  const said = [...badges.map(({ title }) => title), here ? `the finding: ${here}` : ""].filter(Boolean);
  const sign = here ? h("span", { class: `td-access td-finding-${here}` }, `${SEVERITY_SIGNS[here]} ${here}`) : null;
  return h(
    "div",
    {
      class: `td-line${note?.wrong ? " td-wrong" : ""}${here ? ` td-marked td-${here}` : ""}`,
      "aria-description": said.join("; ") || null,
    },
    h("span", { class: "td-number" }, line),
    h("span", {
      class: `td-heat td-heat-${note?.heat ?? 0}`,
      title: note ? `${note.accesses} reads and writes of arrays` : null,
    }),
    codeOf(code.lines[index] ?? "", pieces.length === 0 ? [" "] : pieces.map(inked)),
    sign || badges.length > 0 ? h("span", { class: "td-badges" }, sign, ...badges.map(badge)) : null,
  );
}

function isSerious({ weight }: Badge): boolean {
  return weight === "lost" || weight === "bad";
}

function inked({ ink, text }: Piece): Node {
  return ink === "plain" ? document.createTextNode(text) : h("span", { class: `td-ink-${ink}` }, text);
}

function badge({ text, weight, title }: Badge): HTMLElement {
  return h("span", { class: `td-access td-access-${weight}`, title }, text);
}

/** Return the code that was generated for a line, or with null for the whole kernel. */
function adjointView(panel: Panel, kernel: Kernel, line: number | null, text?: string): Node[] {
  const close = link("close", () => panel.view.set({ adjoint: false }));
  const titled = (title: string): HTMLElement => h("div", { class: "td-adjoint-title" }, h("span", {}, title), close);
  if (kernel.adjoint === null) return [titled("No adjoint was generated for this kernel: it has not been reversed.")];
  const { lines, whole } = adjointOf(kernel.adjoint, line, text);
  const title =
    line === null
      ? `generated adjoint of ${short(kernel.name, 60)}`
      : whole
        ? `generated adjoint (the whole kernel; no part of it comes from line ${line})`
        : `generated adjoint of line ${line}`;
  const shown = lines.slice(0, MOST_GENERATED);
  const more = lines.length - shown.length;
  return [
    titled(title),
    h("pre", { class: "td-adjoint-lines", tabindex: 0, "aria-label": title }, ...shown.map(generatedLine)),
    ...(more > 0 ? [h("p", { class: "td-empty" }, `${more} more lines not shown`)] : []),
  ];
}

/** A generated line, and before it the number of the line that it comes from, where that is another than before. */
function generatedLine({ text, origin }: GeneratedLine, i: number, all: readonly GeneratedLine[]): HTMLElement {
  const known = origin !== null && origin !== all[i - 1]?.origin;
  return h(
    "span",
    { class: `td-adjoint-line${all.some((line) => line.origin !== null) ? " td-numbered" : ""}` },
    known ? h("span", { class: "td-number" }, origin) : null,
    codeOf(text, [text === "" ? " " : text]),
  );
}

/** Code that wraps, with its indentation, so that continuation lines are indented further. */
function codeOf(text: string, children: readonly Child[]): HTMLElement {
  const code = h("code", {}, ...children);
  code.style.setProperty("--td-indent", String(Math.min(MOST_INDENT, text.length - text.trimStart().length)));
  return code;
}
