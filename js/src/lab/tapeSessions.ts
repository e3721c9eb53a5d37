/** Follows the notebook or console in front, and keeps one session for each that is open. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ILabShell } from "@jupyterlab/application";
import { IConsoleTracker } from "@jupyterlab/console";
import { INotebookTracker } from "@jupyterlab/notebook";
import { Signal } from "@lumino/signaling";
import type { Widget } from "@lumino/widgets";
import { TapeSession } from "./session.js";
import { ITapes, type TapeHost } from "./tokens.js";

class Tapes implements ITapes {
  current: TapeSession | null = null;
  readonly currentChanged: Signal<ITapes, TapeSession | null> = new Signal(this);
  readonly changed: Signal<ITapes, TapeSession> = new Signal(this);
  private readonly hosts = new Map<TapeHost, TapeSession>();

  constructor(
    private readonly notebooks: INotebookTracker,
    private readonly consoles: IConsoleTracker | null,
  ) {
    notebooks.forEach((panel) => {
      this.of(panel);
    });
    notebooks.widgetAdded.connect((_, panel) => this.of(panel));
    notebooks.currentChanged.connect((_, panel) => panel && this.show(panel));
    consoles?.forEach((panel) => {
      this.of(panel);
    });
    consoles?.widgetAdded.connect((_, panel) => this.of(panel));
    consoles?.currentChanged.connect((_, panel) => panel && this.show(panel));
    this.show(notebooks.currentWidget);
  }

  get sessions(): readonly TapeSession[] {
    return [...this.hosts.values()];
  }

  of(host: TapeHost): TapeSession {
    const known = this.hosts.get(host);
    if (known !== undefined) return known;
    const session = new TapeSession(
      host.sessionContext,
      () => host.title.label,
      () => mentionsTapedebug(host),
    );
    this.hosts.set(host, session);
    session.changed.connect((one) => this.changed.emit(one));
    let name = host.title.label;
    host.title.changed.connect(({ label }) => {
      if (label === name) return; // its icon, or whether it is saved
      name = label;
      session.renamed();
    });
    host.disposed.connect(() => {
      this.hosts.delete(host);
      session.dispose();
      if (this.current === session) this.show(this.notebooks.currentWidget ?? this.consoles?.currentWidget ?? null);
    });
    this.changed.emit(session);
    return session;
  }

  hostOf(session: TapeSession): TapeHost | null {
    for (const [host, one] of this.hosts) if (one === session) return host;
    return null;
  }

  /** Another document is in front; only notebooks and consoles count. */
  front(widget: Widget | null): void {
    if (widget !== null && this.hosts.has(widget as TapeHost)) this.show(widget as TapeHost);
  }

  private show(host: TapeHost | null): void {
    const session = host === null || host.isDisposed ? null : this.of(host);
    if (session === this.current) return;
    this.current = session;
    this.currentChanged.emit(session);
  }
}

/** True if a notebook contains code that mentions tapedebug; for a console, this is unknown before it runs code. */
function mentionsTapedebug(host: TapeHost): boolean {
  const cells = "context" in host ? host.content.model?.cells : undefined;
  if (cells === undefined) return false;
  for (const cell of cells) if (cell.type === "code" && cell.sharedModel.source.includes("tapedebug")) return true;
  return false;
}

export const tapesPlugin: JupyterFrontEndPlugin<ITapes> = {
  id: "tapedebug:tapes",
  description: "Tracks the live tapes of the kernel of each notebook and console.",
  autoStart: true,
  requires: [INotebookTracker],
  optional: [IConsoleTracker, ILabShell],
  provides: ITapes,
  activate: (
    _: JupyterFrontEnd,
    notebooks: INotebookTracker,
    consoles: IConsoleTracker | null,
    labShell: ILabShell | null,
  ) => {
    const tapes = new Tapes(notebooks, consoles);
    labShell?.currentChanged.connect((_, { newValue }) => tapes.front(newValue));
    return tapes;
  },
};
