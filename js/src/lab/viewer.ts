/** The debugger in a tab of the main area: the panel of the notebook cell, with its checks run over the comm. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, MainAreaWidget } from "@jupyterlab/apputils";
import { Widget } from "@lumino/widgets";
import { PanelStore } from "../trace/store.js";
import { mountPanel } from "../views/panel.js";
import { tapeIcon } from "./icon.js";
import type { Answer, Question } from "./protocol.js";
import { title } from "./rows.js";
import type { TapeSession } from "./session.js";
import { ITapes, ITapeViewer } from "./tokens.js";

/** One live tape. When its kernel goes, what was there stays, and what needs a kernel is off. */
class TapePanel extends Widget {
  readonly store: PanelStore;
  private unmount: (() => void) | null = null;
  /** Verdict and findings of the tape in the kernel's list, to see when they change. */
  private known = "";
  private readonly kernelId: string | null;

  constructor(
    readonly session: TapeSession,
    readonly tape: number,
  ) {
    super();
    this.addClass("td-tab");
    this.kernelId = session.kernelId;
    this.store = new PanelStore(
      { canRun: true },
      {
        run: () => this.tell({ type: "run", tape, mask: this.store.get("mask") }),
        cancel: () => this.tell({ type: "cancel", tape }),
        exportReport: () => this.tell({ type: "export", tape }),
      },
    );
    session.news.connect(this.hear, this);
    session.changed.connect(this.sessionChanged, this);
  }

  /** Whether the tape is still there to be asked. */
  get alive(): boolean {
    return this.session.state === "ready" && this.session.kernelId === this.kernelId;
  }

  /** What the trace calls the tape. */
  get name(): string {
    const trace = this.store.get("trace");
    return typeof trace === "object" && trace !== null && "name" in trace ? String(trace.name) : "";
  }

  async load(): Promise<void> {
    const answer = await this.session.ask({ type: "trace", tape: this.tape });
    if (answer.type === "busy") throw new Error("A cell is running. Open the tape again when it is done.");
    if (answer.type !== "trace")
      throw new Error(`The kernel answered "${answer.type}" when asked for tape ${this.tape}.`);
    const first = this.unmount === null;
    this.store.set({ trace: answer.trace, checks: answer.checks, ...(first ? { mask: answer.mask } : {}) });
    this.unmount ??= mountPanel(this.node, this.store, { fill: true });
    this.session.refresh(); // the kernel has learnt the tape's name, and perhaps its findings
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.session.news.disconnect(this.hear, this);
    this.session.changed.disconnect(this.sessionChanged, this);
    if (this.store.get("running") && this.alive) this.store.cancel();
    this.unmount?.();
    super.dispose();
  }

  private tell(question: Question): void {
    this.session.ask(question).catch((error: Error) => this.store.set({ running: false, status: error.message }));
  }

  private hear(_: TapeSession, answer: Answer): void {
    if (answer.type === "state" && answer.tape === this.tape) this.store.set(answer.state);
  }

  /** Somebody may have diagnosed the tape meanwhile, or its kernel may have gone. */
  private sessionChanged(): void {
    const row = this.session.tapes.find(({ tape }) => tape === this.tape);
    const news = this.alive && row !== undefined ? JSON.stringify([row.verdict, row.findings]) : this.known;
    if (this.known !== "" && news !== this.known && !this.store.get("running")) {
      this.load().catch((error: Error) => this.store.set({ status: error.message }));
    }
    this.known = news;
    if (this.alive || !this.store.get("canRun")) return;
    this.store.set({
      canRun: false,
      running: false,
      status: "The kernel of this tape has gone: this is what was last seen.",
    });
  }
}

class Viewer implements ITapeViewer {
  private readonly tabs = new Set<MainAreaWidget<TapePanel>>();

  constructor(private readonly app: JupyterFrontEnd) {}

  async open(session: TapeSession, tape: number): Promise<void> {
    for (const tab of this.tabs) {
      const { content } = tab;
      if (content.session !== session || content.tape !== tape || !content.alive) continue;
      await content.load();
      this.app.shell.activateById(tab.id);
      return;
    }
    const content = new TapePanel(session, tape);
    try {
      await content.load();
    } catch (error) {
      content.dispose();
      throw error;
    }
    const tab = new MainAreaWidget({ content });
    tab.toolbar.hide();
    tab.title.label = title({ tape, name: content.name });
    tab.title.caption = `Gradient debugger: tape ${tape} of ${session.name}`;
    tab.title.icon = tapeIcon;
    tab.disposed.connect(() => this.tabs.delete(tab));
    this.tabs.add(tab);
    this.app.shell.add(tab, "main", { type: "Gradient Debugger" });
    this.app.shell.activateById(tab.id);
  }
}

export const viewerPlugin: JupyterFrontEndPlugin<ITapeViewer> = {
  id: "tapedebug:viewer",
  description: "Opens the gradient debugger on a live tape, in a tab.",
  autoStart: true,
  requires: [ITapes],
  optional: [ICommandPalette],
  provides: ITapeViewer,
  activate: (app: JupyterFrontEnd, tapes: ITapes, palette: ICommandPalette | null) => {
    const viewer = new Viewer(app);
    const command = "tapedebug:open";
    app.commands.addCommand(command, {
      label: "Open the Gradient Debugger on the Newest Tape",
      caption: "Open the newest tape of this notebook's kernel in a tab",
      icon: tapeIcon,
      isEnabled: () => tapes.current !== null,
      execute: async (args) => {
        const session = tapes.current;
        if (session === null) return;
        const tape = typeof args.tape === "number" ? args.tape : await session.newest();
        await viewer.open(session, tape);
      },
    });
    palette?.addItem({ command, category: "Gradient Tapes" });
    return viewer;
  },
};
