/** A tape that was saved in an output: the panel without a kernel behind it. */
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { PanelStore } from "../trace/store.js";
import { mountPanel } from "../views/panel.js";
import { savedMask } from "./mask.js";
import { TRACE_MIME } from "./protocol.js";

export class SavedTape extends Widget implements IRenderMime.IRenderer {
  private readonly store = new PanelStore();
  private unmount: (() => void) | null = null;

  constructor() {
    super();
    this.addClass("td-saved");
  }

  renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    this.store.set({ trace: model.data[TRACE_MIME] ?? null, mask: savedMask(model.metadata[TRACE_MIME]) });
    this.unmount ??= mountPanel(this.node, this.store);
    return Promise.resolve();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.unmount?.();
    super.dispose();
  }
}
