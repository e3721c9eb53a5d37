/** The places for source and values; their code is loaded when the first launch or version is selected. */
import type { Kernel, Launch, Version } from "../../trace/types.js";
import { defineChunk, withChunk } from "../chunks.js";
import { h, replace } from "../dom.js";
import { fileName, short } from "../format.js";
import type { Panel } from "../state.js";
import { figures } from "../statistics.js";

const MOST_LINES = 400;

export interface ValuesView {
  /** Shows a version; null shows nothing. */
  show(array: number | null, version: number | null): void;
}

export interface DetailsChunk {
  source(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement;
  /** Fills an element that stays where it is. */
  values(panel: Panel, element: HTMLElement): ValuesView;
}

const chunk = defineChunk<DetailsChunk>("details", () => import("./chunk.js"));

/** The source of a launch's kernel; bare until the code that annotates it is here. */
export function sourceOf(panel: Panel, launch: Launch, kernel: Kernel): HTMLElement {
  let shown: HTMLElement | null = null;
  const note = h("p", { class: "td-empty td-why", role: "status" }, "Loading the notes on each line …");
  withChunk(
    panel,
    chunk,
    ({ source }) => {
      const whole = source(panel, launch, kernel);
      shown?.replaceWith(whole);
      shown = whole;
    },
    (why) => replace(note, `There are no notes on single lines. ${why}`),
  );
  shown ??= h(
    "section",
    { class: "td-source" },
    h("h2", {}, "Source ", h("span", { class: "td-place" }, `${fileName(kernel.file)}:${kernel.line}`)),
    h("pre", { class: "td-code", tabindex: 0 }, kernel.lines.slice(0, MOST_LINES).join("\n")),
    note,
  );
  return shown;
}

/** Values of the selected version; until the code is loaded, the summary in the trace. */
export class ValuesShell implements ValuesView {
  readonly element = h("section", { class: "td-values", role: "group", "aria-label": "Values of the version" });
  private view: ValuesView | null = null;
  private coming = false;
  private wanted: Version | null = null;

  constructor(private readonly panel: Panel) {}

  show(array: number | null, version: number | null): void {
    this.wanted = this.panel.model.version(array, version);
    if (this.wanted !== null && this.view === null && !this.coming) this.ask();
    else if (this.view) this.view.show(array, version);
    else if (this.coming) this.meanwhile("Loading the values …");
  }

  private ask(): void {
    const { panel, element } = this;
    this.coming = true;
    this.meanwhile("Loading the values …");
    withChunk(
      panel,
      chunk,
      (make) => {
        replace(element);
        this.view = make.values(panel, element);
        this.view.show(this.wanted?.array ?? null, this.wanted?.version ?? null);
      },
      (why) => {
        this.coming = false; // asked for again with the next version
        this.meanwhile(why);
      },
    );
  }

  private meanwhile(text: string): void {
    const { wanted } = this;
    const label = this.panel.model.array(wanted?.array ?? null)?.label ?? "";
    replace(
      this.element,
      wanted ? h("h2", {}, `${short(label, 40)} v${wanted.version}`) : null,
      wanted?.value ? figures(wanted.value) : null,
      wanted ? h("p", { class: "td-empty td-why", role: "status" }, text) : null,
    );
  }
}
