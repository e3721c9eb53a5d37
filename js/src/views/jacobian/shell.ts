/** The place for the Jacobian view, whose code is loaded when it is first opened. */
import type { MaskEntry } from "../../trace/store.js";
import type { Check } from "../../trace/types.js";
import { defineChunk, withChunk } from "../chunks.js";
import { type Child, h, replace } from "../dom.js";
import type { Panel } from "../state.js";

/** Functions of the panel that the view needs; its chunk has its own copies of modules. */
export interface Host {
  selectLaunch(panel: Panel, launch: number): void;
  checkOf(panel: Panel, pair: MaskEntry): Check | null;
  isPending(panel: Panel, pair: MaskEntry): boolean;
}

export interface JacobianChunk {
  /** Follows the pair that is selected, as long as the panel lives. */
  follow(panel: Panel): void;
  tab(panel: Panel): readonly Child[];
  wide(panel: Panel): HTMLElement;
}

export type JacobianChunkFactory = (host: Host) => JacobianChunk;

const chunk = defineChunk<JacobianChunkFactory>("jacobian", () => import("./chunk.js"));

/** The tab and the large view of a panel, which fill themselves once the code is there. */
export class JacobianShell {
  private part: JacobianChunk | null = null;
  private asked = false;
  private failure = "";
  private readonly wide = h("div", { class: "td-jac-stage" });
  /** Draws the tab again. */
  onLoad: () => void = () => {};

  constructor(
    private readonly panel: Panel,
    private readonly host: Host,
  ) {}

  /** The maps in the middle column; empty until the tab has been opened. */
  get stage(): HTMLElement {
    return this.wide;
  }

  tab(scoped: Panel): readonly Child[] {
    if (!this.asked) this.begin();
    if (this.part) return this.part.tab(scoped);
    if (this.failure !== "") {
      const text = h("p", { class: "td-jac-refusal", role: "status" }, this.failure);
      this.failure = "";
      this.asked = false; // opened again, it is asked for again
      return [text];
    }
    return [h("p", { class: "td-hint", role: "status" }, "Loading the Jacobian view …")];
  }

  private begin(): void {
    this.asked = true;
    let later = false; // if it is loaded already, the tab is being drawn
    withChunk(
      this.panel,
      chunk,
      (make) => {
        this.part = make(this.host);
        this.part.follow(this.panel);
        replace(this.wide, this.part.wide(this.panel));
        if (later) this.onLoad();
      },
      (why) => {
        this.failure = why;
        if (later) this.onLoad();
      },
    );
    later = true;
  }
}

const SHELLS = new WeakMap<object, JacobianShell>();

/** The shell of a panel; made once. */
export function shellOf(panel: Panel, host: Host): JacobianShell {
  const found = SHELLS.get(panel.view) ?? new JacobianShell(panel, host);
  SHELLS.set(panel.view, found);
  return found;
}
