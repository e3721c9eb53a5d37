/** The source of the selected launch's kernel, annotated; a click on a line shows the adjoint that was generated for it. */

import type { Kernel, Launch, Severity } from "../trace/types.js";
import { h, link, replace, scrollWithin } from "./dom.js";
import { fileName } from "./format.js";
import { adjointOf, type Badge, type LineNote, lineNotes } from "./lines.js";
import type { Panel } from "./state.js";

const MOST_LINES = 400;

export function buildSource(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement {
  const { view, lifetime } = panel;
  const redacted = kernel.lines.length === 0;
  const place = `${fileName(kernel.file)}:${kernel.line}`;
  if (redacted)
    return h(
      "section",
      { class: "td-source" },
      heading(kernel, place),
      h("p", { class: "td-empty" }, "The source is not part of this trace."),
    );
  const notes = lineNotes(panel.model, launch, kernel);
  const finding = panel.model.finding(panel.store.get("selection").finding);
  const marked = finding?.location && sameFile(finding.location.file, kernel.file) ? finding.location.line : null;
  const rows = kernel.lines
    .slice(0, MOST_LINES)
    .map((text, i) =>
      row(panel, kernel.line + i, text, notes.get(kernel.line + i), marked, finding?.severity ?? "info"),
    );
  const list = h(
    "div",
    { class: "td-code", role: "listbox", tabindex: 0, "aria-label": `source of ${kernel.name}` },
    ...rows,
  );
  const below = h("div", { class: "td-adjoint", role: "region", "aria-label": "generated adjoint" });
  const update = (scroll: boolean): void => {
    const wanted = view.get("line");
    const line = wanted !== null && wanted >= kernel.line && wanted < kernel.line + rows.length ? wanted : null;
    for (const [i, element] of rows.entries()) {
      const chosen = line === kernel.line + i;
      element.classList.toggle("td-chosen", chosen);
      element.setAttribute("aria-selected", String(chosen));
      if (chosen && scroll) scrollWithin(list, element);
    }
    replace(below, ...(line === null ? [] : adjointView(panel, kernel, line)));
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
  return h("section", { class: "td-source" }, heading(kernel, place), list, below);
}

function heading(kernel: Kernel, place: string): HTMLElement {
  return h(
    "h2",
    {},
    "Source ",
    h("span", { class: "td-place", title: kernel.file }, place),
    h("span", { class: "td-hint" }, "● needed by the adjoint"),
  );
}

function sameFile(a: string, b: string): boolean {
  return a === b || fileName(a) === fileName(b);
}

function row(
  panel: Panel,
  line: number,
  text: string,
  note: LineNote | undefined,
  marked: number | null,
  severity: Severity,
): HTMLElement {
  const classes = ["td-line"];
  if (note?.wrong) classes.push("td-wrong");
  if (marked === line) classes.push("td-marked", `td-${severity}`);
  const toggle = (): void => panel.view.set({ line: panel.view.get("line") === line ? null : line });
  const element = h(
    "div",
    { class: classes.join(" "), role: "option" },
    h("span", { class: "td-number" }, line),
    h("code", {}, text === "" ? " " : text),
    h("span", { class: "td-badges" }, ...(note?.badges ?? []).map(badge)),
  );
  element.addEventListener("click", toggle);
  return element;
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
