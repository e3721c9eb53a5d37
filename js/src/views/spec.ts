/** The interface of a view: one of the tabs in the middle of the panel. A view is a folder with a `ViewSpec`; `views.ts` lists them. */
import type { TraceModel } from "../trace/model.js";
import type { Chunk } from "./chunks.js";
import type { Panel } from "./state.js";

/** Keys and what they do; two spaces separate keys of one row. */
export type KeyRows = readonly (readonly [string, string])[];

/** An entry of the legend. */
export interface Sign {
  readonly text: string;
  /** How often the tape has it; without a count, only its meaning is shown. */
  readonly count?: number | null;
  readonly draw: readonly SVGElement[];
}

/** The content of a view, as the panel uses it. */
export interface ViewContent {
  /** Shows everything. */
  fit(): void;
  zoom(factor: number): void;
  /** Handles a key that was pressed while the focus is in the panel; true if the view has used it. */
  key(event: KeyboardEvent): boolean;
  /** Brings launches and an array into view, for a finding that was selected. */
  reveal?(launches: readonly number[], array: number | null): void;
  /** Brings the selected launch into view. */
  follow?(launch: number): void;
  /** Redraws in the colours of another theme: at once, or in the next frame. */
  recolour?(now: boolean): void;
  /** How many arrays the filters of the panel hide. */
  readonly hidden?: number;
}

/** A view that is there as soon as the panel is. */
export interface View extends ViewContent {
  readonly element: HTMLElement;
}

/** The default export of the `chunk.ts` of a view. */
export interface ViewChunk {
  /** Fills an element that stays in place. */
  view(panel: Panel, element: HTMLElement): ViewContent;
  legend(model: TraceModel): Sign[];
}

interface Spec {
  /** The name in `views.ts`, of the folder, and in the state of the panel. */
  readonly key: string;
  /** Text of the tab. */
  readonly title: string;
  /** The view within a sentence: "the graph". */
  readonly name: string;
  /** Tabs are in ascending order of rank; the first one is shown initially. */
  readonly rank: number;
  /** The key that opens the view and, pressed again, returns to the first one. */
  readonly shortcut: string | null;
  /** The keys that `ViewContent.key` handles, for the help. */
  readonly keys: KeyRows;
}

/** A view that every panel contains. */
export interface BuiltInView extends Spec {
  make(panel: Panel): View;
  legend(model: TraceModel): Sign[];
}

/** A view whose code is loaded when it is first opened. */
export interface LoadedView extends Spec {
  readonly chunk: Chunk<ViewChunk>;
}

export type ViewSpec = BuiltInView | LoadedView;
