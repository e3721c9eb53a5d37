/** A report as a page: the panel, what was checked in words, a choice among several tapes, and how it prints. */
import { EmbeddedAnswers } from "../../trace/embeddedAnswers.js";
import type { TraceModel } from "../../trace/model.js";
import { openTrace } from "../../trace/open.js";
import { type MaskEntry, PanelStore } from "../../trace/store.js";
import type { DiffData } from "../diff/data.js";
import { DiffView } from "../diff/view.js";
import { button, h, replace } from "../dom.js";
import { mountPanel } from "../panel.js";
import { watchTheme } from "../theme.js";
import { fileAccount, type ReportFacts, tapeAccount } from "./account.js";
import { firstKernel, initialSelection, tapeName, worstTape } from "./initialSelection.js";
import { jacobianPictures, type Pictures } from "./jacobianPictures.js";
import { sentenceRows } from "./sentences.js";

export interface ReportFile extends ReportFacts {
  /** Packed or as JSON, not yet checked. */
  readonly traces: readonly unknown[];
  /** For each trace, the questions that were answered before the file was written. */
  readonly answers: readonly EmbeddedAnswers[];
  /** The differences of the two traces, if they are compared. */
  readonly diff: DiffData | null;
  /** The opening sentences of each trace, or of both if they are compared. */
  readonly sentences: readonly (readonly string[])[];
}

/** Tapes whose words are printed, beside the one that is shown. */
const MOST_PRINTED = 20;

type View = "panel" | "account";
const VIEWS: Readonly<Record<View, string>> = { panel: "Panel", account: "What was checked" };

export class ReportPage {
  private readonly store: PanelStore;
  private readonly frame = h("div", {
    class: "td-report-frame",
    id: "tapedebug-view-panel",
    role: "tabpanel",
    "aria-label": VIEWS.panel,
  });
  private readonly account = h("div", {
    class: "tapedebug td-fill td-account",
    id: "tapedebug-view-account",
    role: "tabpanel",
    "aria-label": VIEWS.account,
    tabindex: 0,
  });
  private readonly sentences = h("dl", { class: "td-report-sentences", "aria-label": "In short" });
  private readonly tabs = new Map<View, HTMLButtonElement>();
  private shown: number;
  private view: View = "panel";
  /** The models of traces that were opened, by position; null if one cannot be shown. */
  private readonly models = new Map<number, TraceModel | null>();
  /** The subject of the prose: a position, or all of them for print. */
  private written: number | "all" | null = null;
  /** Those of the words that are there now. */
  private pictures: readonly Pictures[] = [];

  constructor(
    private readonly host: HTMLElement,
    private readonly file: ReportFile,
  ) {
    this.shown = worstTape(file.traces);
    const { traces } = file;
    this.store = new PanelStore(
      { trace: traces[this.shown], selection: initialSelection(traces[this.shown]) },
      {
        ask: (question) => this.answers(this.shown).ask(question),
      },
    );
  }

  show(): void {
    replace(this.host, this.navigation(), this.sentences, this.frame, this.account);
    this.say();
    this.account.hidden = true;
    watchTheme(this.account, () => this.paint());
    window.addEventListener("beforeprint", () => this.write("all"));
    if (this.file.diff !== null) {
      this.showDiff(this.file.diff);
      return;
    }
    mountPanel(this.frame, this.store, {
      fill: true,
      page: true,
      ready: ({ model }) => {
        this.models.set(this.shown, model);
        const { launch, finding } = this.store.get("selection");
        if (launch === null && finding === null) {
          this.store.select({ launch: firstKernel(model.launchCount, (i) => model.launch(i)?.kind) });
        }
      },
    });
  }

  private showDiff(diff: DiffData): void {
    const { traces } = this.file;
    const page = h("div", { class: "tapedebug td-fill td-diffpage" });
    this.frame.append(page);
    watchTheme(page, () => {});
    const view = new DiffView({
      diff,
      traces: [traces[0], traces[1]],
      ask: (side, question) => this.answers(side).ask(question),
      ready: (side, model) => this.models.set(side, model),
    });
    page.append(view.element);
    view.mount();
  }

  private navigation(): HTMLElement {
    const tabs = h("div", { role: "tablist", "aria-label": "Views of this report" });
    for (const view of ["panel", "account"] as const) {
      const tab = button(
        view === "panel" && this.file.diff ? "Before and after" : VIEWS[view],
        () => this.choose(view),
        {
          role: "tab",
          id: `tapedebug-tab-${view}`,
          "aria-controls": `tapedebug-view-${view}`,
        },
      );
      this.tabs.set(view, tab);
      tabs.append(tab);
    }
    tabs.addEventListener("keydown", ({ key }) => {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return;
      const other = this.view === "panel" ? "account" : "panel";
      this.choose(other);
      this.tabs.get(other)?.focus();
    });
    this.mark();
    return h(
      "nav",
      { class: "td-report-nav", "aria-label": "Report" },
      tabs,
      this.file.traces.length > 1 && this.file.diff === null ? this.tapes() : null,
    );
  }

  private tapes(): HTMLElement {
    const { traces } = this.file;
    const select = h("select", { id: "tapedebug-choice", "aria-label": "Tape" });
    for (const [i, trace] of traces.entries()) select.append(h("option", { value: i }, tapeName(trace)));
    select.value = String(this.shown);
    select.addEventListener("change", () => {
      this.shown = Number(select.value);
      const trace = traces[this.shown];
      this.store.set({ trace, selection: initialSelection(trace) });
      this.say();
      if (this.view === "account") this.write(this.shown);
    });
    return h("label", { class: "td-report-tapes" }, `${traces.length} tapes:`, select);
  }

  private say(): void {
    const said = this.file.sentences[this.file.diff === null ? this.shown : 0] ?? [];
    replace(this.sentences, ...sentenceRows(said));
    this.sentences.hidden = said.length === 0;
  }

  private choose(view: View): void {
    this.view = view;
    this.frame.hidden = view !== "panel";
    this.account.hidden = view !== "account";
    if (view === "account") this.write(this.file.diff === null ? this.shown : "all");
    this.mark();
  }

  private mark(): void {
    for (const [view, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(view === this.view));
      tab.tabIndex = view === this.view ? 0 : -1;
    }
  }

  /** Writes the prose about one tape, or about all. */
  private write(what: number | "all"): void {
    if (this.written === what) return;
    this.written = what;
    const first = this.file.diff === null ? [this.shown] : [];
    const order = [...first, ...this.file.traces.keys()].slice(0, MOST_PRINTED + 1);
    const places = what === "all" ? [...new Set(order)] : [what];
    const problems: string[] = [];
    const pictures: Pictures[] = [];
    const articles = places.map((i) => {
      const model = this.model(i);
      if (model === null) return null;
      problems.push(...model.problems);
      const of = jacobianPictures(model, this.answers(i), this.opener(i));
      pictures.push(of);
      return tapeAccount(model, of.element);
    });
    replace(this.account, h("div", { class: "td-account-page" }, ...articles, fileAccount(this.file, problems)));
    this.pictures = pictures;
    this.paint();
  }

  private paint(): void {
    for (const each of this.pictures) each.paint(this.account);
  }

  private answers(place: number): EmbeddedAnswers {
    return this.file.answers[place] ?? new EmbeddedAnswers([]);
  }

  /** Shows a pair in the panel, where the panel shows its tape. */
  private opener(place: number): ((pair: MaskEntry) => void) | null {
    if (this.file.diff !== null || place !== this.shown) return null;
    return (pair) => {
      this.choose("panel");
      this.store.select({ pair: null }); // looked at before, another tab may be open
      this.store.select({ launch: pair[0] ?? this.store.get("selection").launch, pair });
      this.tabs.get("panel")?.focus();
    };
  }

  private model(place: number): TraceModel | null {
    let model = this.models.get(place);
    if (model === undefined) {
      try {
        model = openTrace(this.file.traces[place]);
      } catch {
        model = null; // the panel says why
      }
      this.models.set(place, model);
    }
    return model;
  }
}
