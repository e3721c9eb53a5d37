/** The mask matrix: outputs in rows, inputs in columns; a cell is a switch and shows what its last check said. */

import { checkKey } from "../trace/model.js";
import type { MaskEntry } from "../trace/store.js";
import type { Check, Verdict } from "../trace/types.js";
import { button, h, replace } from "./dom.js";
import { number, seconds, short } from "./format.js";
import { allChecks, countPairs, entriesOf, entryKey, type Matrix, matrixOf, type RunCounts, toggled } from "./pairs.js";
import type { Panel } from "./state.js";
import { VERDICT_MEANINGS, VERDICT_SIGNS } from "./words.js";

/** A matrix of more cells than this would be slow to lay out and is not looked at cell by cell. */
const MOST_CELLS = 2_000;

function matrices(panel: Panel): { launch: Matrix | null; tape: Matrix | null; checks: ReturnType<typeof allChecks> } {
  const { model, store } = panel;
  const checks = allChecks(model, store.get("checks"));
  const { launch } = store.get("selection");
  return {
    launch: launch === null ? null : matrixOf(model, launch, checks),
    tape: matrixOf(model, null, checks),
    checks,
  };
}

export function runCounts(panel: Panel): RunCounts {
  const { launch, tape, checks } = matrices(panel);
  return countPairs(panel.store.get("mask"), [launch, tape], checks.keys());
}

export function buildMask(panel: Panel): HTMLElement {
  const { store, lifetime } = panel;
  const body = h("div", {});
  const element = h("section", { class: "td-mask" }, h("h2", {}, "Input–output mask"), body);
  const render = (): void => {
    // The cell that has the focus is made anew: give the focus back to the cell of the same pair.
    const focused = body.contains(document.activeElement) ? document.activeElement?.getAttribute("data-pair") : null;
    replace(body, ...content(panel));
    if (focused) {
      for (const input of body.querySelectorAll("input"))
        if (input.getAttribute("data-pair") === focused) input.focus();
    }
  };
  render();
  lifetime.add(
    store.subscribe((changed) => {
      if (["selection", "mask", "checks", "running", "canRun"].some((key) => changed.has(key as "mask"))) render();
    }),
  );
  return element;
}

function content(panel: Panel): Node[] {
  const { model, store } = panel;
  const { launch, tape } = matrices(panel);
  if (!launch && !tape)
    return [h("p", { class: "td-empty" }, "No pair of a read and a written array carries a gradient here.")];
  const selected = model.launch(store.get("selection").launch);
  const parts: Node[] = [];
  if (launch && selected) parts.push(table(panel, launch, `launch ${selected.index} · ${short(selected.name, 40)}`));
  else if (selected) parts.push(h("p", { class: "td-empty" }, `launch ${selected.index}: no pair carries a gradient`));
  if (tape) parts.push(table(panel, tape, "whole tape"));
  parts.push(controls(panel, [launch, tape]));
  return parts;
}

function table(panel: Panel, matrix: Matrix, name: string): HTMLElement {
  const caption = h("caption", {}, name);
  if (matrix.inputs.length * matrix.outputs.length > MOST_CELLS) {
    const size = `${matrix.outputs.length} × ${matrix.inputs.length}`;
    return h("p", { class: "td-empty" }, `${name}: ${size} pairs are too many to show one by one.`);
  }
  const chosen = new Set(panel.store.get("mask").map(entryKey));
  const head = h(
    "tr",
    {},
    h("th", { scope: "col", class: "td-corner" }, "output ↓  input →"),
    ...matrix.inputs.map((input) => h("th", { scope: "col", title: short(input, 200) }, short(input, 24))),
  );
  const rows = matrix.outputs.map((output) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", title: short(output, 200) }, short(output, 24)),
      ...matrix.inputs.map((input) => {
        const key = checkKey(matrix.launch, input, output);
        const check = matrix.cells.get(key);
        return check ? cell(panel, matrix, check, chosen.has(key)) : h("td", { class: "td-nopair" }, "·");
      }),
    ),
  );
  return h("div", { class: "td-tablebox" }, h("table", {}, caption, h("thead", {}, head), h("tbody", {}, ...rows)));
}

function cell(panel: Panel, matrix: Matrix, check: Check, on: boolean): HTMLElement {
  const { store } = panel;
  const entry: MaskEntry = [matrix.launch, check.input, check.output];
  const input = h("input", { type: "checkbox", "data-pair": entryKey(entry) });
  input.checked = on;
  const { canRun, running } = store.value;
  input.disabled = running || !canRun;
  const where = matrix.launch === null ? "whole tape" : `launch ${matrix.launch}`;
  input.setAttribute("aria-label", `${where}: ${short(check.output)} by ${short(check.input)}, ${spoken(check)}`);
  input.addEventListener("change", () => store.set({ mask: toggled(store.get("mask"), [entry], input.checked) }));
  const error = check.maxRelError ?? check.maxAbsError;
  const style =
    check.verdict === null ? "td-verdict-none" : `td-verdict-${check.verdict.toLowerCase().replace(" ", "-")}`;
  return h(
    "td",
    { class: `${style}${on || !canRun ? "" : " td-off"}`, title: cellTitle(check) },
    h(
      "label",
      {},
      // without a kernel and a mask the boxes would say nothing
      h(
        "span",
        { class: "td-cell-line" },
        canRun || store.get("mask").length > 0 ? input : null,
        verdictText(check.verdict),
      ),
      h("span", { class: "td-cell-error" }, error === null ? "" : number(error, 2)),
    ),
  );
}

/** Long verdicts are cut to what fits a column; the title and the screen reader have them whole. */
const SHORT_VERDICTS: Partial<Record<Verdict, string>> = { NONDETERMINISTIC: "NONDETERM.", UNDECIDABLE: "UNDECID." };

function verdictText(verdict: Verdict | null): string {
  if (verdict === null || verdict === "NOT CHECKED") return "–";
  return `${VERDICT_SIGNS[verdict]} ${SHORT_VERDICTS[verdict] ?? verdict}`;
}

function spoken(check: Check): string {
  if (check.verdict === null) return "not run";
  const error = check.maxRelError === null ? "" : `, relative error ${number(check.maxRelError, 2)}`;
  return `${check.verdict}${error}`;
}

function cellTitle(check: Check): string {
  if (check.verdict === null) return "not run yet";
  const lines = [`${check.verdict}: ${VERDICT_MEANINGS[check.verdict]}`];
  if (check.maxRelError !== null) lines.push(`largest relative error ${number(check.maxRelError)}`);
  if (check.maxAbsError !== null) lines.push(`largest absolute error ${number(check.maxAbsError)}`);
  if (check.seconds !== null) lines.push(seconds(check.seconds));
  if (check.message !== "") lines.push(check.message);
  return lines.join("\n");
}

function controls(panel: Panel, shown: readonly (Matrix | null)[]): HTMLElement {
  const { store } = panel;
  const { chosen, total } = runCounts(panel);
  const entries = shown.flatMap((matrix) => (matrix ? entriesOf(matrix) : []));
  const { running, canRun } = store.value;
  const run = button(`Run ${chosen} of ${total} ${total === 1 ? "pair" : "pairs"}`, () => store.run(), {
    class: "td-button td-primary td-run",
  });
  run.disabled = !canRun || running || chosen === 0;
  if (!canRun) run.title = "needs the kernel that recorded this tape";
  const all = button("all", () => store.set({ mask: toggled(store.get("mask"), entries, true) }), {
    class: "td-button",
  });
  const none = button("none", () => store.set({ mask: toggled(store.get("mask"), entries, false) }), {
    class: "td-button",
  });
  all.disabled = none.disabled = running || !canRun;
  const keys = new Set(entries.map(entryKey));
  const elsewhere = store.get("mask").filter((entry) => !keys.has(entryKey(entry))).length;
  const note = !canRun ? "needs a kernel" : elsewhere > 0 ? `${elsewhere} of them on other launches` : "";
  return h("div", { class: "td-controls" }, run, all, none, h("span", { class: "td-empty" }, note));
}
