/** The state of one panel that is not shared: how the tape is shown. */
import type { TraceModel } from "../trace/model.js";
import type { Observable } from "../trace/observable.js";
import type { PanelStore } from "../trace/store.js";
import type { Severity } from "../trace/types.js";

export const COLOURS = ["findings", "value", "adjoint", "time", "bytes"] as const;
export type ColourBy = (typeof COLOURS)[number];

export const COLOUR_NAMES: Readonly<Record<ColourBy, string>> = {
  findings: "findings",
  value: "‖value‖",
  adjoint: "‖adjoint‖",
  time: "time",
  bytes: "bytes",
};

/** A line, counted as in its file. */
export interface CodeLine {
  readonly file: string;
  readonly line: number;
}

/** The views of the tape, as `views.ts` lists them. */
export type ViewKey = keyof typeof import("./views.js");

export interface ViewState {
  colour: ColourBy;
  gradientOnly: boolean;
  readOnly: boolean;
  /** Only arrays that a finding names. */
  suspectOnly: boolean;
  /** Severities that the list of findings leaves out, and the one rule that it is about. */
  without: ReadonlySet<Severity>;
  rule: string | null;
  fold: boolean;
  /** Keys of sequences that were unfolded by hand. */
  unfolded: ReadonlySet<string>;
  /** Ids of scopes that were collapsed by hand. */
  collapsed: ReadonlySet<number>;
  /** The view that the middle shows. */
  main: ViewKey;
  tab: "launch" | "array" | "jacobian";
  /** The maps of the Jacobian are in the middle column. */
  wide: boolean;
  /** The selected launch is shown in the backward pass. */
  backward: boolean;
  /** A line of the selected kernel, or of a function that it calls. */
  line: CodeLine | null;
  /** The adjoint that was generated for that line is open; without a line, that of the whole kernel. */
  adjoint: boolean;
  help: boolean;
}

export const INITIAL_VIEW: ViewState = {
  colour: "findings",
  gradientOnly: true,
  readOnly: false,
  suspectOnly: false,
  without: new Set(),
  rule: null,
  fold: true,
  unfolded: new Set(),
  collapsed: new Set(),
  main: "lanes",
  tab: "launch",
  wide: false,
  backward: false,
  line: null,
  adjoint: false,
  help: false,
};

/** The context that every part of a panel receives. */
export interface Panel {
  readonly root: HTMLElement;
  readonly store: PanelStore;
  readonly view: Observable<ViewState>;
  readonly model: TraceModel;
  /** Ends every subscription made through it when the panel goes, or shows another trace. */
  readonly lifetime: Lifetime;
  /** Announces a text to screen readers. */
  announce(text: string): void;
}

export class Lifetime {
  private readonly ends: (() => void)[] = [];

  add(end: () => void): void {
    this.ends.push(end);
  }

  listen<K extends keyof HTMLElementEventMap>(
    target: HTMLElement,
    type: K,
    listener: (event: HTMLElementEventMap[K]) => void,
    options?: AddEventListenerOptions,
  ): void {
    target.addEventListener(type, listener, options);
    this.add(() => target.removeEventListener(type, listener, options));
  }

  end(): void {
    for (const end of this.ends.splice(0).reverse()) end();
  }
}
