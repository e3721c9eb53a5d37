/**
 * A tape in a notebook's output is shown by its live widget while there is one, and from the data saved in the notebook
 * if there is none: reopened without a kernel, restarted, closed. JupyterLab chooses by MIME type alone and would say
 * "model not found"; this renderer takes precedence over the widget's and asks the kernel.
 */
import type { JupyterFrontEndPlugin } from "@jupyterlab/application";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import type { IRenderMimeRegistry } from "@jupyterlab/rendermime";
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Panel, type Widget } from "@lumino/widgets";
import { TRACE_MIME, WIDGET_MIME } from "./protocol.js";
import { SavedTape } from "./savedTape.js";
import { AGAIN, lossMessage, type TapeSession } from "./session.js";
import { ITapes } from "./tokens.js";

/** Before the widget manager's own renderer, whose rank is -10. */
const RANK = -20;
const RESTORE_TIMEOUT_MS = 20_000;

const SAVED_STATE = `This is the state saved in the notebook. ${AGAIN}`;

type Shown = "nothing" | "live" | "saved";

class TapeOutput extends Panel implements IRenderMime.IRenderer {
  private model: IRenderMime.IMimeModel | null = null;
  private shown: Shown = "nothing";

  constructor(
    private readonly notebook: NotebookPanel,
    private readonly rendermime: IRenderMimeRegistry,
    private readonly session: TapeSession,
  ) {
    super();
    this.addClass("td-output");
    const { sessionContext } = notebook;
    sessionContext.kernelChanged.connect(this.recheck, this);
    sessionContext.statusChanged.connect(this.statusChanged, this);
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    // an update of the saved data (a new verdict) does not change a live widget, which has the same data
    const same = this.model !== null && modelId(this.model) === modelId(model);
    this.model = model;
    if (!same || this.shown === "saved") this.shown = "nothing";
    await this.choose();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    const { sessionContext } = this.notebook;
    sessionContext.kernelChanged.disconnect(this.recheck, this);
    sessionContext.statusChanged.disconnect(this.statusChanged, this);
    super.dispose();
  }

  private recheck(): void {
    void this.choose();
  }

  /** A restart removes the widget. (Asking the kernel here would change its status again, and so on for ever.) */
  private statusChanged(): void {
    if (this.shown === "live" && !this.isLive()) void this.put("saved");
  }

  private async choose(): Promise<void> {
    if (this.model === null || this.isDisposed) return;
    if (this.isLive()) {
      await this.put("live");
      return;
    }
    await this.put("saved");
    if (await this.isRestored()) await this.put("live");
  }

  /** The front end holds a channel to the widget's Python side. Only a trusted output may claim one. */
  private isLive(): boolean {
    const id = this.model?.trusted ? modelId(this.model) : null;
    return id !== null && (this.notebook.sessionContext.session?.kernel?.hasComm?.(id) ?? false);
  }

  /** After a reload of the page the kernel still has the widget, and the front end is about to restore it. */
  private async isRestored(): Promise<boolean> {
    const kernel = this.notebook.sessionContext.session?.kernel;
    const id = this.model?.trusted ? modelId(this.model) : null;
    if (kernel == null || id === null) return false;
    const reply = await kernel.requestCommInfo({ target_name: "jupyter.widget" }).catch(() => null);
    if (reply?.content.status !== "ok" || !(id in reply.content.comms)) return false;
    const until = Date.now() + RESTORE_TIMEOUT_MS;
    while (!this.isLive() && Date.now() < until && !this.isDisposed) await pause(100);
    return this.isLive();
  }

  private async put(what: "live" | "saved"): Promise<void> {
    if (this.shown === what || this.isDisposed || this.model === null) return;
    const became = this.shown === "live" ? `${lossMessage(this.session)} ${SAVED_STATE}` : "";
    this.shown = what;
    for (const old of [...this.widgets]) old.dispose();
    const renderer = what === "live" ? this.rendermime.createRenderer(WIDGET_MIME) : new SavedTape(became);
    this.addWidget(renderer as Widget);
    await renderer.renderModel(this.model);
  }
}

function modelId(model: IRenderMime.IMimeModel): string | null {
  const view = model.data[WIDGET_MIME];
  if (typeof view !== "object" || view === null || !("model_id" in view)) return null;
  return typeof view.model_id === "string" && view.model_id !== "" ? view.model_id : null;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

function register(notebook: NotebookPanel, session: TapeSession): void {
  const { rendermime } = notebook.content;
  rendermime.addFactory(
    { safe: true, mimeTypes: [TRACE_MIME], createRenderer: () => new TapeOutput(notebook, rendermime, session) },
    RANK,
  );
}

export const outputPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:output",
  description: "Shows a tape in an output by its live widget, or from what the notebook saved.",
  autoStart: true,
  requires: [INotebookTracker, ITapes],
  activate: (_, tracker: INotebookTracker, tapes: ITapes) => {
    tracker.forEach((notebook) => {
      register(notebook, tapes.of(notebook));
    });
    tracker.widgetAdded.connect((_, notebook) => register(notebook, tapes.of(notebook)));
  },
};
