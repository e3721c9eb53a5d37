import type { ConsolePanel } from "@jupyterlab/console";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { Token } from "@lumino/coreutils";
import type { ISignal } from "@lumino/signaling";
import type { TapeSession } from "./session.js";

/** A document with a kernel whose tapes can be shown. */
export type TapeHost = NotebookPanel | ConsolePanel;

export interface ITapes {
  /** The tapes of the notebook or console in front; null if there is none. */
  readonly current: TapeSession | null;
  /** Emitted when another notebook or console is in front; a session signals its own changes. */
  readonly currentChanged: ISignal<ITapes, TapeSession | null>;
  /** All sessions, with signals for a new one and for each change within one. */
  readonly sessions: readonly TapeSession[];
  readonly changed: ISignal<ITapes, TapeSession>;
  of(host: TapeHost): TapeSession;
  hostOf(session: TapeSession): TapeHost | null;
}

export const ITapes = new Token<ITapes>("tapedebug:ITapes", "The live tapes of the kernels of notebooks and consoles.");

/** The place in a tape at which a tab opens. */
export interface TapePlace {
  readonly launch: number | null;
  readonly finding: number | null;
}

export interface ITapeViewer {
  /** Opens the debugger on a live tape in a tab of the main area, or brings its tab to the front with fresh data. */
  open(session: TapeSession, tape: number, place?: TapePlace): Promise<void>;
}

export const ITapeViewer = new Token<ITapeViewer>("tapedebug:ITapeViewer", "Opens the gradient debugger in a tab.");

export type Theme = "follow" | "light" | "dark";

export interface ITapeSettings {
  readonly marks: boolean;
  readonly theme: Theme;
  readonly autoDiagnose: boolean;
  /** Bytes of JSON of the largest trace file that is opened. */
  readonly largestTrace: number;
  readonly changed: ISignal<ITapeSettings, void>;
  setMarks(on: boolean): Promise<void>;
}

export const ITapeSettings = new Token<ITapeSettings>("tapedebug:ITapeSettings", "The settings of tapedebug.");
