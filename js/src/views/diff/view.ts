/** Two tapes side by side: what changed on top, and two panels in which a launch chosen in one is chosen in the other. */
import type { TraceModel } from "../../trace/model.js";
import type { Answer } from "../../trace/store.js";
import { NOTHING, PanelStore, type Question, type Selection } from "../../trace/store.js";
import { button, type Child, h } from "../dom.js";
import { short } from "../format.js";
import { mountPanel } from "../panel.js";
import type { Both, DiffData, DiffRow, RowKind } from "./data.js";

const SIDES = ["before", "after"] as const;
type Side = 0 | 1;

const other = (side: Side): Side => (side === 0 ? 1 : 0);

const WORDS: Readonly<Record<RowKind, string>> = {
  gone: "✓ gone",
  new: "✕ new",
  still: "! still there",
  gradient: "gradient",
  check: "check",
  values: "values",
  note: "note",
};

interface DiffSource {
  readonly diff: DiffData;
  /** Traces, not yet checked: before, after. */
  readonly traces: Both<unknown>;
  ask(side: Side, question: Question): Promise<Answer>;
  /** Called with the model of each side as it is shown. */
  ready(side: Side, model: TraceModel): void;
}

export class DiffView {
  readonly element: HTMLElement;
  readonly stores: Both<PanelStore>;
  private readonly models: [TraceModel | null, TraceModel | null] = [null, null];
  private readonly frames: Both<HTMLElement>;
  private readonly rows = new Map<HTMLElement, DiffRow>();
  /** Selections that come of one in the other panel are not passed on again. */
  private following = false;

  constructor(private readonly source: DiffSource) {
    const store = (side: Side): PanelStore =>
      new PanelStore({ trace: source.traces[side] }, { ask: (question) => source.ask(side, question) });
    this.stores = [store(0), store(1)];
    const frame = (side: Side): HTMLElement =>
      h("div", { class: "td-diff-frame", role: "group", "aria-label": `Tape ${SIDES[side]}` });
    this.frames = [frame(0), frame(1)];
    const side = (at: Side): HTMLElement =>
      h(
        "section",
        { class: "td-diff-side" },
        h(
          "h2",
          {},
          source.diff.names[at] === SIDES[at] ? SIDES[at] : `${SIDES[at]}: ${short(source.diff.names[at], 80)}`,
        ),
        this.frames[at],
      );
    this.element = h(
      "div",
      { class: "td-diff" },
      this.summary(),
      h("div", { class: "td-diff-sides" }, side(0), side(1)),
    );
  }

  /** Makes the panels; they fit themselves into the room that they find, so the element must be in the page. */
  mount(): void {
    for (const side of [0, 1] as const) {
      const store = this.stores[side];
      mountPanel(this.frames[side], store, {
        fill: true,
        ready: ({ model }) => {
          this.models[side] = model;
          this.source.ready(side, model);
        },
      });
      store.subscribe((changed) => {
        if (changed.has("selection") && !this.following) this.follow(side, store.get("selection"));
      });
    }
    const first = this.source.diff.rows.find(({ launches, findings }) =>
      [...launches, ...findings].some((n) => n !== null),
    );
    if (first) this.choose(first);
  }

  private summary(): HTMLElement {
    const { overview, rows } = this.source.diff;
    const facts = h("dl", { class: "td-diff-overview" });
    for (const [name, text] of overview) facts.append(h("dt", {}, name), h("dd", {}, short(text, 300)));
    const list = h("ul", { class: "td-diff-rows", "aria-label": "What changed" }, ...rows.map((row) => this.row(row)));
    return h("header", { class: "td-diff-summary" }, facts, rows.length > 0 ? list : null);
  }

  private row(row: DiffRow): HTMLElement {
    const words: Child[] = [
      h("span", { class: `td-diff-kind td-diff-${row.kind}` }, WORDS[row.kind]),
      h("span", {}, short(row.text, 600)),
    ];
    const about = [...row.launches, ...row.findings].some((n) => n !== null);
    if (!about) return h("li", {}, h("div", { class: "td-diff-row" }, ...words));
    const element = button("", () => this.choose(row), { class: "td-diff-row", "aria-pressed": "false" });
    element.replaceChildren(...words.filter((word): word is Node => word instanceof Node));
    this.rows.set(element, row);
    return h("li", {}, element);
  }

  /** Shows what a row is about, on both sides: a finding where it is, and the same launch on the other side. */
  private choose(row: DiffRow): void {
    this.withoutEcho(() => {
      for (const side of [0, 1] as const) {
        const finding = row.findings[side];
        const status = this.said(row, side);
        if (finding !== null) this.stores[side].set({ selection: { ...NOTHING, finding }, status });
        else this.stores[side].set({ selection: { ...NOTHING, launch: row.launches[side] }, status });
      }
      for (const side of [0, 1] as const) {
        const { launch } = this.stores[side].get("selection"); // the panel has chosen one of the finding
        if (row.findings[side] === null || row.findings[other(side)] !== null || launch === null) continue;
        const partner = this.source.diff.partners.of(side, launch);
        this.stores[other(side)].set({ selection: { ...NOTHING, launch: partner } });
      }
    });
    this.mark(row);
  }

  private said(row: DiffRow, side: Side): string {
    const there = row.launches[other(side)];
    if (row.launches[side] !== null || there === null || there === undefined) return "";
    return `Launch ${there} is only in the tape ${SIDES[other(side)]}.`;
  }

  private mark(chosen: DiffRow | null): void {
    for (const [element, row] of this.rows) element.setAttribute("aria-pressed", String(row === chosen));
  }

  /** Something was chosen in one panel: its partner is chosen in the other. */
  private follow(side: Side, selection: Selection): void {
    const { launch, array } = selection;
    const partner = launch === null ? null : this.source.diff.partners.of(side, launch);
    this.mark(null);
    this.withoutEcho(() => {
      this.stores[side].set({ status: "" });
      this.stores[other(side)].set({
        selection: { ...NOTHING, launch: partner, array: this.sameArray(side, array) },
        status: launch !== null && partner === null ? `Launch ${launch} is only in the tape ${SIDES[side]}.` : "",
      });
    });
  }

  /** The array of that label on the other side. */
  private sameArray(side: Side, array: Selection["array"]): number | null {
    const [mine, theirs] = side === 0 ? this.models : [this.models[1], this.models[0]];
    const found = mine?.array(mine.arrayId(array));
    return found && theirs ? theirs.arrayId(found.label) : null;
  }

  private withoutEcho(work: () => void): void {
    this.following = true;
    try {
      work();
    } finally {
      this.following = false;
    }
  }
}
