/** The mask matrix: outputs in rows, inputs in columns; a cell is a switch, shows the result of its last check, and opens the Jacobian. */

import type { MaskEntry } from "../trace/store.js";
import { selectLaunch } from "./actions.js";
import { button, type Child, h, replace } from "./dom.js";
import { plural, short, whole } from "./format.js";
import { bindGrid } from "./gridKeys.js";
import { Heartbeat, type Silence } from "./heartbeat.js";
import { type JacobianShell, shellOf } from "./jacobian/shell.js";
import { cellName, cellTitle, errorText, styleOf, verdictText } from "./pairPhrases.js";
import {
  allChecks,
  type Cell,
  checkOf,
  entriesOfGrid,
  entryKey,
  type Grid,
  gridOf,
  type KernelGroup,
  launchesOfKernel,
  toggled,
} from "./pairs.js";
import { followRuns, isPending } from "./pendingPairs.js";
import { NEEDS_KERNEL, runButton } from "./runButton.js";
import type { Panel } from "./state.js";

/** Above this number of cells, a matrix is not drawn: it would be slow to lay out, and unreadable. */
const MOST_CELLS = 2_000;
/** The most pairs of many launches that one press switches on. */
const MOST_SWITCHED = 20_000;

/** The Jacobian view of a panel. */
export function jacobianOf(panel: Panel): JacobianShell {
  return shellOf(panel, {
    selectLaunch,
    isPending,
    checkOf: ({ model, store }, pair) => checkOf(allChecks(model, store.get("checks")), pair),
  });
}

/** Opens the Jacobian of a pair. */
function openPair(panel: Panel, pair: MaskEntry): void {
  const [launch, input, output] = pair;
  panel.view.set({ tab: "jacobian", backward: false, line: null, adjoint: false });
  panel.store.select(launch === null ? { pair } : { pair, launch });
  panel.announce(`Jacobian of ${short(output)} by ${short(input)}`);
}

/** The state of the matrix that belongs to this panel alone. */
interface MatrixState {
  /** All launches of the selected one's kernel, not it alone. */
  together: boolean;
  silence: Silence | null;
  /** The cell of each matrix that had the focus last. */
  readonly last: Map<string, string>;
  readonly run: HTMLElement;
}

export function buildPairMatrix(panel: Panel): HTMLElement {
  const { store, lifetime } = panel;
  const state: MatrixState = { together: false, silence: null, last: new Map(), run: runButton(panel, "td-run") };
  const body = h("div", {});
  const element = h(
    "section",
    { class: "td-mask", role: "group", "aria-label": "Input–output mask" },
    h("h2", {}, "Input–output mask"),
    body,
  );
  followRuns(panel);
  const render = (): void => {
    // The cell that has the focus is made anew: give the focus back to the one in its place.
    const active = body.contains(document.activeElement) ? document.activeElement : null;
    const at = active?.closest("[data-cell]")?.getAttribute("data-cell") ?? null;
    const scroll = [...body.querySelectorAll(".td-tablebox")].map((box) => [box.scrollLeft, box.scrollTop] as const);
    replace(body, ...content(panel, state, render, heartbeat));
    for (const [i, box] of [...body.querySelectorAll(".td-tablebox")].entries()) {
      [box.scrollLeft, box.scrollTop] = scroll[i] ?? [0, 0];
    }
    if (active === state.run) state.run.focus({ preventScroll: true });
    if (at === null) return;
    for (const cell of body.querySelectorAll<HTMLElement>("[data-cell]"))
      if (cell.getAttribute("data-cell") === at) cell.focus({ preventScroll: true });
  };
  const heartbeat = new Heartbeat(panel, (silence) => {
    state.silence = silence;
    render();
  });
  render();
  lifetime.add(
    store.subscribe((changed) => {
      const fields = ["selection", "mask", "checks", "running", "canRun", "asked"] as const;
      if (fields.some((field) => changed.has(field))) render();
    }),
  );
  return element;
}

function content(panel: Panel, state: MatrixState, render: () => void, heartbeat: Heartbeat): Child[] {
  const { model, store } = panel;
  const checks = allChecks(model, store.get("checks"));
  const selected = model.launch(store.get("selection").launch);
  const together = selected?.kernel == null ? null : kernelGroupOf(panel, selected.index);
  const many = state.together && together !== null && together.launches.length > 1 ? together : null;
  const grid = selected ? gridOf(model, many?.launches ?? [selected.index], checks) : null;
  const tape = gridOf(model, [null], checks);
  if (!grid && !tape)
    return [h("p", { class: "td-empty" }, "No pair of a read and a written array carries a gradient here.")];
  const parts: Child[] = [];
  if (selected && together && together.total > 1 && grid) parts.push(scopeSwitch(state, together, render));
  if (grid && selected) {
    const name = many ? manyName(selected.name, many) : `launch ${selected.index} · ${short(selected.name, 40)}`;
    parts.push(table(panel, state, grid, name, 0));
  } else if (selected)
    parts.push(h("p", { class: "td-empty" }, `launch ${selected.index}: no pair carries a gradient`));
  if (tape) parts.push(table(panel, state, tape, "whole tape", 1));
  parts.push(controls(panel, [grid, tape], state.run));
  if (state.silence) {
    const stop = button("stop waiting", () => heartbeat.giveUp(), { class: "td-button td-stop" });
    parts.push(h("p", { class: "td-silence", role: "status" }, `! ${state.silence.text} `, stop));
  }
  return parts;
}

const KERNEL_GROUPS = new WeakMap<object, Map<number, KernelGroup>>();

/** The launches of a launch's kernel; looked for once for each kernel. */
function kernelGroupOf({ model }: Panel, launch: number): KernelGroup {
  const kernel = model.columns.launches.kernel[launch] ?? -1;
  const known = KERNEL_GROUPS.get(model) ?? new Map<number, KernelGroup>();
  KERNEL_GROUPS.set(model, known);
  const found = known.get(kernel) ?? launchesOfKernel(model, launch);
  if (kernel >= 0) known.set(kernel, found);
  return found;
}

function manyName(kernel: string, { launches, total }: KernelGroup): string {
  const some =
    launches.length < total ? `${launches.length} of ${total.toLocaleString("en-US")}, evenly spaced` : `${total}`;
  return `all launches of ${short(kernel, 40)} (${some})`;
}

function scopeSwitch(state: MatrixState, { total }: KernelGroup, render: () => void): HTMLElement {
  const option = (text: string, on: boolean): HTMLElement => {
    const chosen = state.together === on;
    return button(
      text,
      () => {
        state.together = on;
        render();
      },
      { class: `td-button td-scope${chosen ? " td-chosen" : ""}`, "aria-pressed": String(chosen) },
    );
  };
  return h(
    "div",
    { class: "td-scopes", role: "group", "aria-label": "Pairs of" },
    option("this launch", false),
    option(`all ${total.toLocaleString("en-US")} of its kernel`, true),
  );
}

function table(panel: Panel, state: MatrixState, grid: Grid, name: string, number_: number): HTMLElement {
  const { store } = panel;
  const { canRun, running } = store.value;
  const size = grid.inputs.length * grid.outputs.length;
  if (size > MOST_CELLS) {
    const text = `${name}: ${grid.outputs.length} × ${grid.inputs.length} pairs are too many to show one by one.`;
    return h("p", { class: "td-empty" }, text);
  }
  const chosen = new Set(store.get("mask").map(entryKey));
  const open = canRun && !running;
  const flip = (cells: readonly (Cell | null)[]): void => {
    const entries = cells.flatMap((cell) => (cell ? [...cell.entries] : []));
    const on = entries.some((entry) => !chosen.has(entryKey(entry)));
    if (open) store.set({ mask: toggled(store.get("mask"), entries, on) });
  };
  const headOf = (text: string, role: "columnheader" | "rowheader", cells: readonly (Cell | null)[], at: string) => {
    const entries = cells.flatMap((cell) => (cell ? cell.entries : []));
    const on = entries.filter((entry) => chosen.has(entryKey(entry))).length;
    const what = role === "rowheader" ? "output" : "input";
    const head = h(
      "th",
      {
        role,
        scope: role === "rowheader" ? "row" : "col",
        class: open ? "td-flip" : null,
        tabindex: -1,
        "data-cell": at,
        "aria-label": `${what} ${short(text)}, ${on} of ${entries.length} switched on`,
        title: `${short(text, 200)}${open ? `\nswitches all pairs of this ${what} on or off` : ""}`,
      },
      short(text, 24),
    );
    return { element: head, act: { toggle: () => flip(cells), open: () => flip(cells) } };
  };
  const columns = grid.inputs.map((input, x) =>
    headOf(
      input,
      "columnheader",
      grid.cells.map((row) => row[x] ?? null),
      `${number_} ${input}`,
    ),
  );
  const corner = {
    element: h(
      "th",
      { role: "columnheader", scope: "col", class: "td-corner", tabindex: -1, "data-cell": `${number_}` },
      "output ↓  input →",
    ),
    act: { toggle: () => flip(grid.cells.flat()), open: () => {} },
  };
  const rows = grid.outputs.map((output, y) => {
    const line = grid.cells[y] ?? [];
    return [
      headOf(output, "rowheader", line, `${number_}  ${output}`),
      ...line.map((cell, x) => cellOf(panel, grid, cell, chosen, `${number_} ${grid.inputs[x]} ${output}`)),
    ];
  });
  const lines = [[corner, ...columns], ...rows];
  const label = `${name}: pairs of outputs and inputs. Arrow keys move, Space switches, Enter opens the Jacobian.`;
  const element = h(
    "table",
    { role: "grid", "aria-label": label, "data-td-keys": "ArrowLeft ArrowRight ArrowUp ArrowDown Home End" },
    h("caption", {}, name),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...(lines[0] ?? []).map(({ element: cell }) => cell))),
    h(
      "tbody",
      { role: "rowgroup" },
      ...lines.slice(1).map((line) => h("tr", { role: "row" }, ...line.map((c) => c.element))),
    ),
  );
  bindGrid(element, lines, String(number_), state.last);
  return h("div", { class: "td-tablebox" }, element);
}

function cellOf(panel: Panel, grid: Grid, cell: Cell | null, chosen: ReadonlySet<string>, at: string) {
  const nothing = { toggle: (): void => {}, open: (): void => {} };
  if (cell === null) {
    const empty = h(
      "td",
      { role: "gridcell", class: "td-nopair", tabindex: -1, "data-cell": at, "aria-label": "no such pair" },
      "·",
    );
    return { element: empty, act: nothing };
  }
  const { store } = panel;
  const { canRun, running } = store.value;
  const on = cell.entries.filter((entry) => chosen.has(entryKey(entry))).length;
  const all = on === cell.entries.length;
  const pending = cell.entries.some((entry) => isPending(panel, entry));
  const open = canRun && !running;
  const toggle = (): void => {
    if (open) store.set({ mask: toggled(store.get("mask"), cell.entries, !all) });
  };
  const go = (): void => openPair(panel, [cell.worst.launch, cell.input, cell.output]);
  const name = cellName(cell, grid, canRun ? on : null, pending);
  const box = h("input", { type: "checkbox", tabindex: -1, "aria-label": `check ${name}` });
  if (cell.entries.length === 1) box.setAttribute("data-pair", entryKey(cell.entries[0] as MaskEntry));
  box.checked = all;
  box.indeterminate = on > 0 && !all;
  box.disabled = !open;
  box.addEventListener("change", toggle);
  box.addEventListener("click", (event) => event.stopPropagation());
  const { pair } = store.get("selection");
  const looked = pair !== null && cell.entries.some((entry) => entryKey(entry) === entryKey(pair));
  const off = canRun && on === 0;
  const element = h(
    "td",
    {
      role: "gridcell",
      class: `${styleOf(cell.worst.verdict)}${off ? " td-off" : ""}${pending ? " td-pending" : ""}${looked ? " td-looked" : ""}`,
      tabindex: -1,
      "data-cell": at,
      "aria-description": name,
      "aria-selected": String(looked),
      title: `${cellTitle(cell)}\nopens the Jacobian`,
    },
    // without a kernel and a mask the boxes would say nothing
    h(
      "span",
      { class: "td-cell-line" },
      canRun || store.get("mask").length > 0 ? box : null,
      pending ? h("span", { class: "td-cell-wait", "aria-hidden": "true" }, "…") : null,
      verdictText(cell),
    ),
    h("span", { class: "td-cell-error" }, errorText(cell)),
  );
  element.addEventListener("click", go);
  return { element, act: { toggle, open: go } };
}

function controls(panel: Panel, shown: readonly (Grid | null)[], run: HTMLElement): HTMLElement {
  const { store } = panel;
  const entries = shown.flatMap((grid) => (grid ? entriesOfGrid(grid) : []));
  const keys = new Set(entries.map(entryKey));
  const { chosen, total } = countWith(panel, keys);
  const { running, canRun } = store.value;
  const set = (on: boolean): void =>
    store.set({ mask: toggled(store.get("mask"), on ? entries.slice(0, MOST_SWITCHED) : entries, on) });
  const all = button("all", () => set(true), { class: "td-button", title: "switch all pairs shown here on" });
  const none = button("none", () => set(false), { class: "td-button", title: "switch all pairs shown here off" });
  all.disabled = none.disabled = running || !canRun;
  const elsewhere = store.get("mask").filter((entry) => !keys.has(entryKey(entry))).length;
  const there = elsewhere > 0 ? `, ${elsewhere} of them on other launches` : "";
  const note = canRun ? `${whole(chosen)} of ${plural(total, "pair")} switched on${there}` : NEEDS_KERNEL;
  return h("div", { class: "td-controls" }, run, all, none, h("span", { class: "td-empty" }, note));
}

/** The number of pairs that a run would recompute, and the total: all that were checked, are shown, or are in the mask. */
function countWith({ model, store }: Panel, shown: ReadonlySet<string>): { chosen: number; total: number } {
  const chosen = new Set(store.get("mask").map(entryKey));
  const total = new Set([...chosen, ...shown, ...allChecks(model, store.get("checks")).keys()]);
  return { chosen: chosen.size, total: total.size };
}
