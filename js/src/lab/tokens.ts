import type { NotebookPanel } from "@jupyterlab/notebook";
import { Token } from "@lumino/coreutils";
import type { ISignal } from "@lumino/signaling";
import type { TapeSession } from "./session.js";

export interface ITapes {
  /** The tapes of the notebook in front; null where there is none. */
  readonly current: TapeSession | null;
  /** Another notebook came to the front. What happens within one, its session says. */
  readonly currentChanged: ISignal<ITapes, TapeSession | null>;
  of(panel: NotebookPanel): TapeSession;
}

export const ITapes = new Token<ITapes>("tapedebug:ITapes", "The live tapes of each notebook's kernel.");

export interface ITapeViewer {
  /** Opens the debugger on a live tape in a tab of the main area, or brings its tab to the front with fresh data. */
  open(session: TapeSession, tape: number): Promise<void>;
}

export const ITapeViewer = new Token<ITapeViewer>("tapedebug:ITapeViewer", "Opens the gradient debugger in a tab.");
