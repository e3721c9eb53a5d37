/** The tab of the inspector about one pair: verdict, where it is written, the maps, the worst entries, a script. */
import { button, type Child, h, link, replace } from "../dom.js";
import { fileName, number, short } from "../format.js";
import { slopesText } from "../pairs.js";
import { launchName, VERDICT_MEANINGS, VERDICT_SIGNS } from "../phrases.js";
import type { Panel } from "../state.js";
import { topError } from "./colours.js";
import { entryNumbers, type Jacobian, sideSize, type WorstEntry } from "./data.js";
import { buildFields } from "./field.js";
import { buildMaps } from "./maps.js";
import { buildScript } from "./script.js";
import type { Host } from "./shell.js";
import { type JacobianSource, sourceOf } from "./source.js";

export function jacobianTab(panel: Panel, host: Host): Child[] {
  const source = sourceOf(panel, host);
  const body = h("div", { class: "td-jac" });
  const maps = h("div", {});
  const fields = buildFields(panel, source);
  let shown: Jacobian | null = null;
  const render = (): void => {
    const { jacobian } = source.value;
    const same = shown !== null && jacobian !== null && shown.cells === jacobian.cells;
    shown = jacobian;
    replace(body, ...content(panel, host, source, maps, fields));
    if (!same) replace(maps, jacobian?.cells && !panel.view.get("wide") ? buildMaps(panel, source, false) : null);
  };
  const change = (changed: ReadonlySet<string>): void => {
    if (["pair", "check", "jacobian", "loading", "refusal"].some((field) => changed.has(field))) render();
  };
  render();
  panel.lifetime.add(source.subscribe(change));
  panel.lifetime.add(
    panel.view.subscribe((changed) => {
      if (!changed.has("wide")) return;
      shown = null;
      render();
    }),
  );
  panel.lifetime.add(panel.store.subscribe((changed) => changed.has("running") && render()));
  return [body];
}

/** The maps in the middle column, as large as it is. */
export function buildWideJacobian(panel: Panel, host: Host): HTMLElement {
  const source = sourceOf(panel, host);
  const element = h("section", { class: "td-jac-wide", role: "group", "aria-label": "Jacobian", hidden: true });
  let shown: Jacobian["cells"] = null;
  const update = (): void => {
    const { jacobian } = source.value;
    const on = panel.view.get("wide") && panel.view.get("tab") === "jacobian" && jacobian?.cells != null;
    element.hidden = !on;
    if (!on) {
      replace(element);
      shown = null;
    } else if (shown !== jacobian.cells) {
      shown = jacobian.cells;
      replace(element, title(jacobian), buildMaps(panel, source, true), buildFields(panel, source), legend(jacobian));
    }
  };
  update();
  panel.lifetime.add(source.subscribe(update));
  panel.lifetime.add(panel.view.subscribe(update));
  return element;
}

function title({ pair, verdict }: Jacobian): HTMLElement {
  const [, input, output] = pair;
  return h(
    "h2",
    { class: "td-jac-title" },
    badge(verdict),
    h("span", { class: "td-jac-pair" }, `∂ ${short(output, 40)} / ∂ ${short(input, 40)}`),
  );
}

function badge(verdict: Jacobian["verdict"]): HTMLElement {
  return h(
    "span",
    {
      class: `td-badge td-verdict-${verdict.toLowerCase().replace(" ", "-")}`,
      title: VERDICT_MEANINGS[verdict],
    },
    `${VERDICT_SIGNS[verdict]} ${verdict}`,
  );
}

function content(panel: Panel, host: Host, source: JacobianSource, maps: HTMLElement, fields: HTMLElement): Child[] {
  const { pair, check, jacobian, loading, refusal } = source.value;
  if (pair === null) {
    return [h("p", { class: "td-hint" }, "Select a pair: click a cell of the input–output mask below.")];
  }
  const [launch, input, output] = pair;
  const where =
    launch === null
      ? "the whole tape"
      : link(launchName(panel.model, launch), () => host.selectLaunch(panel, launch), "go to the launch");
  const parts: Child[] = [];
  if (jacobian) parts.push(title(jacobian));
  else parts.push(h("h2", { class: "td-jac-title" }, `∂ ${short(output, 40)} / ∂ ${short(input, 40)}`));
  parts.push(h("p", { class: "td-jac-where" }, "of ", where, ...writtenAt(panel, host, jacobian)));
  if (refusal !== "") parts.push(h("p", { class: "td-jac-refusal", role: "status" }, short(refusal, 600)));
  if (loading && !jacobian) parts.push(h("p", { class: "td-hint", role: "status" }, "Asking the kernel …"));
  if (!jacobian && !loading) parts.push(...notRun(panel, host, source, check?.verdict == null));
  if (jacobian) parts.push(...found(panel, source, jacobian, maps, fields));
  return parts;
}

/** Instructions for a pair without a Jacobian to show. */
function notRun(panel: Panel, host: Host, source: JacobianSource, never: boolean): Child[] {
  const { store } = panel;
  const { pair, refusal } = source.value;
  if (pair === null) return [];
  const parts: Child[] = [];
  if (never && refusal === "") parts.push(h("p", { class: "td-hint" }, "This pair has not been checked yet."));
  if (store.get("running"))
    parts.push(
      h("p", { class: "td-hint" }, host.isPending(panel, pair) ? "It is being checked …" : "A run is under way …"),
    );
  else if (store.get("canRun"))
    parts.push(button("Run this pair", () => store.run([pair]), { class: "td-button td-primary td-jac-run" }));
  else if (never) parts.push(h("p", { class: "td-empty" }, "Checking it needs the kernel that recorded the tape."));
  return parts;
}

/** " · written at net.py:12". */
function writtenAt(panel: Panel, host: Host, jacobian: Jacobian | null): Child[] {
  const line = jacobian?.line;
  const launch = jacobian?.pair[0] ?? null;
  if (!jacobian || !line || launch === null) return [];
  const place = `${fileName(line.file)}:${line.line}`;
  const kernel = panel.model.kernel(panel.model.launch(launch));
  const inKernel = kernel !== null && line.line >= kernel.line && line.line < kernel.line + kernel.lines.length;
  const go = (): void => {
    host.selectLaunch(panel, launch);
    panel.view.set({ line });
  };
  const more = jacobian.further.length > 0 ? ` and ${jacobian.further.slice(0, 4).join(", ")}` : "";
  const thread = jacobian.thread === "" ? "" : `, ${jacobian.thread}`;
  return [
    " · written at ",
    inKernel ? link(place, go, short(line.text.trim(), 200)) : h("span", { title: short(line.text, 200) }, place),
    more,
    thread,
  ];
}

function found(
  panel: Panel,
  source: JacobianSource,
  jacobian: Jacobian,
  maps: HTMLElement,
  fields: HTMLElement,
): Child[] {
  const { loading } = source.value;
  const [worst] = jacobian.worst;
  const parts: Child[] = [];
  if (jacobian.slopes) parts.push(h("p", { class: "td-jac-slopes" }, slopesText(...jacobian.slopes)));
  if (jacobian.message !== "") parts.push(h("p", { class: "td-jac-message" }, short(jacobian.message, 1200)));
  if (worst && jacobian.verdict !== "AGREE") {
    const at = link(
      `${worst.output} by ${worst.input}`,
      () => source.goTo(worst.row, worst.column),
      "show it in the maps",
    );
    // the message of a launch has its numbers already
    const told = jacobian.message.includes(`d ${worst.output} / d ${worst.input}`);
    const numbers = told ? `error ${number(worst.error, 3)}` : entryNumbers(worst, jacobian.against);
    parts.push(h("p", { class: "td-jac-worstline" }, "worst: ", at, `: ${numbers}`));
  }
  if (jacobian.cells) {
    parts.push(panel.view.get("wide") ? wideNote(panel) : maps);
    if (!panel.view.get("wide")) parts.push(fields, legend(jacobian));
  }
  parts.push(h("p", { class: "td-jac-note" }, evaluation(jacobian)));
  if (jacobian.lacks && panel.store.get("canRun")) {
    const all = button(loading ? "evaluating …" : "evaluate all entries", () => void source.load(true), {
      class: "td-button td-jac-all",
    });
    all.disabled = loading || panel.store.get("running");
    parts.push(all);
  }
  if (jacobian.worst.length > 0) parts.push(worstTable(source, jacobian));
  if (jacobian.notes.length > 0) {
    const items = jacobian.notes.slice(0, 20).map((note) => h("li", {}, short(note, 600)));
    parts.push(
      h("details", { class: "td-jac-notes" }, h("summary", {}, "Basis of the verdict"), h("ul", {}, ...items)),
    );
  }
  if (jacobian.script && panel.store.get("canRun")) parts.push(buildScript(panel, jacobian));
  return parts;
}

function wideNote(panel: Panel): HTMLElement {
  const back = link("show them here", () => panel.view.set({ wide: false }));
  return h("p", { class: "td-hint" }, "The maps are in the middle column: ", back, ".");
}

export function evaluation(jacobian: Jacobian): string {
  const parts = [jacobian.evaluation];
  const pooled = jacobian.cells?.pooled;
  if (pooled) {
    parts.push(
      `Each cell stands for up to ${pooled[0]} × ${pooled[1]} entries and shows the one with the largest error; zoom in for all.`,
    );
  }
  if (jacobian.tolerance !== "") parts.push(`A pair ${jacobian.tolerance}.`);
  return parts.join(" ");
}

/** The legend of colours and hatches, with numbers. */
export function legend(jacobian: Jacobian): HTMLElement {
  const top = jacobian.scale.value;
  const { cells } = jacobian;
  const some = (test: (at: number) => boolean): boolean => {
    if (!cells) return false;
    for (let at = 0; at < cells.known.length; at++) if (test(at)) return true;
    return false;
  };
  const hatched = some((at) => cells?.known[at] === 0 || cells?.known[at] === 3);
  const broken = some(
    (at) =>
      (cells?.known[at] as number) === 1 && !Number.isFinite((cells?.ad[at] as number) - (cells?.fd[at] as number)),
  );
  const key = (kind: string, text: string): HTMLElement =>
    h(
      "span",
      { class: "td-jac-key" },
      h("span", { class: `td-jac-swatch td-jac-${kind}`, "aria-hidden": "true" }),
      text,
    );
  return h(
    "div",
    { class: "td-jac-legend" },
    h(
      "span",
      { class: "td-jac-bar" },
      number(-top, 3),
      h("span", { class: "td-jac-diverging", "aria-hidden": "true" }),
      number(top, 3),
    ),
    h(
      "span",
      { class: "td-jac-bar" },
      "error ",
      number(topError(jacobian.scale) / 1e4, 2),
      h("span", { class: "td-jac-errors", "aria-hidden": "true" }),
      `${number(topError(jacobian.scale), 2)} (log)`,
    ),
    hatched ? key("unknown", "not evaluated") : null,
    broken ? key("broken", "not finite") : null,
    jacobian.worst.length > 0 && jacobian.verdict !== "AGREE" ? key("worst", "worst entry") : null,
    h("span", { class: "td-jac-key" }, `rows: ${short(jacobian.output.name, 30)}, ${sideSize(jacobian.output)}`),
    h("span", { class: "td-jac-key" }, `columns: ${short(jacobian.input.name, 30)}, ${sideSize(jacobian.input)}`),
  );
}

function worstTable(source: JacobianSource, jacobian: Jacobian): HTMLElement {
  const reference = jacobian.worst.some((entry) => entry.reference !== null);
  const head = ["entry", "AD", ...(reference ? ["float64"] : []), "FD", "error"];
  const row = (entry: WorstEntry): HTMLElement => {
    const at = link(
      `${entry.output} by ${entry.input}`,
      () => source.goTo(entry.row, entry.column),
      "show it in the maps",
    );
    const bar = entry.bar === null || Number.isNaN(entry.bar) ? "" : ` ±\u00a0${number(entry.bar, 1)}`;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, at),
      h("td", {}, number(entry.ad, 4)),
      reference ? h("td", {}, number(entry.reference, 4)) : null,
      h("td", {}, entry.fd === null ? "–" : `${number(entry.fd, 4)}${bar}`),
      h("td", { class: entry.wrong ? "td-bad" : null }, entry.wrong ? "✕\u00a0" : null, number(entry.error, 2)),
    );
  };
  return h(
    "details",
    { class: "td-jac-table", open: jacobian.verdict !== "AGREE" },
    h(
      "summary",
      {},
      `The ${jacobian.worst.length === 1 ? "entry" : `${jacobian.worst.length} entries`} with the largest errors`,
    ),
    h(
      "div",
      { class: "td-tablebox" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ...head.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", {}, ...jacobian.worst.map(row)),
      ),
    ),
  );
}
