/** Where the graph is shown: its code comes when somebody opens it. */
import type { TraceModel } from "../../trace/model.js";
import { withChunk } from "../chunks.js";
import { h, replace } from "../dom.js";
import type { Panel } from "../state.js";
import type { Sign } from "./legend.js";

/** What the panel around it does with the graph; all methods may be called before it has been drawn. */
export interface Graph {
  fit(): void;
  zoom(factor: number): void;
  /** Keys while the focus is in the drawing; returns whether it was one of ours. */
  key(event: KeyboardEvent): boolean;
}

export interface GraphChunk {
  /** Fills an element that stays where it is. */
  view(panel: Panel, element: HTMLElement): Graph;
  signs(model: TraceModel): Sign[];
}

/** Milliseconds after which one wonders what the kernel is doing. */
const LATE = 4_000;

export class GraphShell implements Graph {
  readonly element = h("section", { class: "td-graph", "aria-label": "Graph" });
  private view: Graph | null = null;
  private asked = false;

  constructor(private readonly panel: Panel) {
    const open = (): void => {
      if (panel.view.get("main") === "graph" && !this.asked) this.open();
    };
    open();
    panel.lifetime.add(panel.view.subscribe((changed) => changed.has("main") && open()));
  }

  fit(): void {
    this.view?.fit();
  }

  zoom(factor: number): void {
    this.view?.zoom(factor);
  }

  key(event: KeyboardEvent): boolean {
    return this.view?.key(event) ?? false;
  }

  private open(): void {
    const { panel, element } = this;
    const say = (text: string): void => replace(element, h("p", { class: "td-hint", role: "status" }, text));
    this.asked = true;
    say("Fetching the graph …");
    const late = setTimeout(() => say("The kernel is busy, or it has gone. The graph comes when it answers."), LATE);
    panel.lifetime.add(() => clearTimeout(late));
    withChunk(
      panel,
      "graph",
      (make) => {
        clearTimeout(late);
        replace(element);
        this.view = make.view(panel, element);
      },
      (why) => {
        clearTimeout(late);
        this.asked = false; // opened again, it is asked for again
        say(`The graph is not here. ${why}`);
      },
    );
  }
}
