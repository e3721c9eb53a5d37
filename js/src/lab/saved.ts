/** A tape that was saved in an output: the panel without a kernel behind it. */
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { Widget } from "@lumino/widgets";
import { type MaskEntry, PanelStore } from "../trace/store.js";
import { mountPanel } from "../views/panel.js";
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

/** The pairs that were switched on when the notebook was saved; the file may hold anything. */
export function savedMask(metadata: unknown): MaskEntry[] {
  const mask = typeof metadata === "object" && metadata !== null && "mask" in metadata ? metadata.mask : null;
  return Array.isArray(mask) ? mask.filter(isEntry) : [];
}

function isEntry(entry: unknown): entry is MaskEntry {
  if (!Array.isArray(entry) || entry.length !== 3) return false;
  const [launch, input, output] = entry as unknown[];
  return (launch === null || typeof launch === "number") && typeof input === "string" && typeof output === "string";
}
