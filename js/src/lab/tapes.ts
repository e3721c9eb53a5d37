/** Follows the notebook in front, and keeps one session for each open notebook. */
import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";
import { TapeSession } from "./session.js";
import { ITapes } from "./tokens.js";

class Tapes implements ITapes {
  current: TapeSession | null = null;
  readonly currentChanged: Signal<ITapes, TapeSession | null> = new Signal(this);
  private readonly sessions = new Map<NotebookPanel, TapeSession>();

  constructor(tracker: INotebookTracker) {
    tracker.currentChanged.connect((_, panel) => this.follow(panel));
    this.follow(tracker.currentWidget);
  }

  of(panel: NotebookPanel): TapeSession {
    const known = this.sessions.get(panel);
    if (known !== undefined) return known;
    const session = new TapeSession(panel.sessionContext, () => panel.title.label);
    this.sessions.set(panel, session);
    panel.disposed.connect(() => {
      this.sessions.delete(panel);
      session.dispose();
    });
    return session;
  }

  private follow(panel: NotebookPanel | null): void {
    const session = panel === null ? null : this.of(panel);
    if (session === this.current) return;
    this.current = session;
    this.currentChanged.emit(session);
  }
}

export const tapesPlugin: JupyterFrontEndPlugin<ITapes> = {
  id: "tapedebug:tapes",
  description: "Knows the live tapes of each notebook's kernel.",
  autoStart: true,
  requires: [INotebookTracker],
  provides: ITapes,
  activate: (_, tracker: INotebookTracker) => new Tapes(tracker),
};
