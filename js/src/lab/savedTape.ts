/** A tape that was saved in an output: the panel without a kernel behind it. */
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { EmbeddedAnswers } from "../trace/embeddedAnswers.js";
import { openSaved } from "../trace/json.js";
import { isRecord } from "../trace/reader.js";
import { PanelStore } from "../trace/store.js";
import { loadAllChunks } from "../views/chunks.js";
import { mountPanel } from "../views/panel.js";
import { TRACE_MIME } from "./protocol.js";
import { savedPairs } from "./savedPairs.js";

void loadAllChunks().catch(() => undefined); // imported again when they are needed

export class SavedTape extends Widget implements IRenderMime.IRenderer {
  private answers = new EmbeddedAnswers([]);
  private readonly store: PanelStore;
  private latest: IRenderMime.IMimeModel | null = null;
  private unmount: (() => void) | null = null;

  /** `status` is what became of the kernel, where there was one. */
  constructor(status = "") {
    super();
    this.store = new PanelStore({ status }, { ask: (question) => this.answers.ask(question) });
    this.addClass("td-saved");
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.latest = model;
    const saved: unknown = model.metadata[TRACE_MIME];
    const trace = await openSaved(model.data[TRACE_MIME] ?? null);
    if (this.isDisposed || this.latest !== model) return;
    this.answers = new EmbeddedAnswers(isRecord(saved) ? saved.answers : []);
    this.store.set({ trace, mask: savedPairs(saved) });
    this.unmount ??= mountPanel(this.node, this.store);
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.unmount?.();
    super.dispose();
  }
}
