/** The source of the selected launch's kernel, annotated; a click on a line shows the adjoint that was generated for it. */

import type { Code, Kernel, Launch, Severity } from "../trace/types.js";
import { h, link, replace, scrollWithin } from "./dom.js";
import { fileName, short } from "./format.js";
import { adjointOf, type Badge, holds, type LineNote, lineNotes } from "./lines.js";
import { colour, type Piece } from "./python.js";
import type { Panel } from "./state.js";
import { SEVERITY_SIGNS } from "./words.js";

const MOST_LINES = 400;
/** Functions of a kernel that are shown below it. */
const MOST_FUNCTIONS = 20;

export function buildSource(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement {
  const { view, lifetime } = panel;
  const redacted = kernel.lines.length === 0;
  if (redacted)
    return h(
      "section",
      { class: "td-source" },
      heading(kernel),
      h("p", { class: "td-empty" }, "The source is not part of this trace."),
    );
  const id = `td-line-${Math.random().toString(36).slice(2)}`;
  const rows = rowsOf(panel, launch, kernel, kernel);
  rows.forEach((element, i) => {
    const line = kernel.line + i;
    element.id = `${id}-${i}`;
    element.setAttribute("role", "option");
    element.addEventListener("click", () => view.set({ line: view.get("line") === line ? null : line }));
  });
  const list = h(
    "div",
    { class: "td-code", role: "listbox", tabindex: 0, "aria-label": `source of ${short(kernel.name, 80)}` },
    ...rows,
  );
  const below = h("div", { class: "td-adjoint", role: "group", "aria-label": "generated adjoint" });
  const update = (scroll: boolean): void => {
    const wanted = view.get("line");
    const line = wanted !== null && wanted >= kernel.line && wanted < kernel.line + rows.length ? wanted : null;
    for (const [i, element] of rows.entries()) {
      const chosen = line === kernel.line + i;
      element.classList.toggle("td-chosen", chosen);
      element.setAttribute("aria-selected", String(chosen));
    }
    const chosen = line === null ? undefined : rows[line - kernel.line];
    below.remove();
    if (line === null || !chosen) {
      list.removeAttribute("aria-activedescendant");
      return;
    }
    list.setAttribute("aria-activedescendant", chosen.id);
    replace(below, ...adjointView(panel, kernel, line));
    chosen.after(below);
    if (scroll) scrollWithin(list, chosen, below);
  };
  list.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    const now = view.get("line") ?? (step > 0 ? kernel.line - 1 : kernel.line + rows.length);
    view.set({ line: Math.max(kernel.line, Math.min(kernel.line + rows.length - 1, now + step)) });
  });
  update(false);
  requestAnimationFrame(() => update(true)); // only what is on the page can be scrolled to
  lifetime.add(view.subscribe((changed) => changed.has("line") && update(true)));
  const more = kernel.lines.length - rows.length;
  return h(
    "section",
    { class: "td-source" },
    heading(kernel),
    list,
    more > 0 ? h("p", { class: "td-empty" }, `${more} more lines not shown`) : null,
    ...called(panel, launch, kernel),
  );
}

/** The functions that the kernel calls, with what this launch read and wrote in them. */
function called(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement[] {
  const shown = kernel.functions.filter(({ lines }) => lines.length > 0).slice(0, MOST_FUNCTIONS);
  const parts = shown.flatMap((code) => {
    const rows = rowsOf(panel, launch, kernel, code);
    for (const element of rows) element.setAttribute("role", "listitem");
    return [
      h("h3", { class: "td-called" }, `calls ${short(code.name, 60)} `, placeOf(code)),
      h(
        "div",
        { class: "td-code", role: "list", tabindex: 0, "aria-label": `source of ${short(code.name, 80)}` },
        ...rows,
      ),
    ];
  });
  const more = kernel.functions.length - shown.length;
  return more > 0 ? [...parts, h("p", { class: "td-empty" }, `${more} more functions not shown`)] : parts;
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
  const inks = colour(text);
  return text.map((_, i) => row(code, i, inks[i] ?? [], notes.get(code.line + i), marked));
}

function sameFile(a: string, b: string): boolean {
  return a === b || fileName(a) === fileName(b);
}

interface Marked {
  readonly line: number;
  readonly severity: Severity;
}

/** A line, and under it what is said of it: so that it covers no code, however long the line is. */
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
  const badges = [...(note?.badges ?? [])].sort((a, b) => Number(grave(b)) - Number(grave(a)));
  const said = [...badges.map(({ title }) => title), here ? `the finding: ${here}` : ""].filter(Boolean);
  const text = short(code.lines[index]?.trim() ?? "", 200);
  const sign = here ? h("span", { class: `td-access td-finding-${here}` }, `${SEVERITY_SIGNS[here]} ${here}`) : null;
  return h(
    "div",
    {
      class: `td-line${note?.wrong ? " td-wrong" : ""}${here ? ` td-marked td-${here}` : ""}`,
      "aria-label": `line ${line}: ${text}${said.map((words) => `; ${words}`).join("")}`,
    },
    h("span", { class: "td-number" }, line),
    h("span", {
      class: `td-heat td-heat-${note?.heat ?? 0}`,
      title: note ? `${note.accesses} reads and writes of arrays` : null,
    }),
    h("code", {}, ...(pieces.length === 0 ? [" "] : pieces.map(inked))),
    sign || badges.length > 0 ? h("span", { class: "td-badges" }, sign, ...badges.map(badge)) : null,
  );
}

function grave({ weight }: Badge): boolean {
  return weight === "lost" || weight === "bad";
}

function inked({ ink, text }: Piece): Node {
  return ink === "plain" ? document.createTextNode(text) : h("span", { class: `td-ink-${ink}` }, text);
}

function badge({ text, weight, title }: Badge): HTMLElement {
  return h("span", { class: `td-access td-access-${weight}`, title }, text);
}

function adjointView(panel: Panel, kernel: Kernel, line: number): Node[] {
  if (kernel.adjoint === null) return [h("p", { class: "td-empty" }, "No adjoint was generated for this kernel yet.")];
  const { lines, whole } = adjointOf(kernel.adjoint, line);
  const title = whole
    ? `generated adjoint (the whole kernel; nothing in it names line ${line})`
    : `generated adjoint of line ${line}`;
  const close = link("close", () => panel.view.set({ line: null }));
  return [
    h("div", { class: "td-adjoint-title" }, h("span", {}, title), close),
    h("pre", {}, lines.slice(0, MOST_LINES).join("\n")),
  ];
}
