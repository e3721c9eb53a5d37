import type { PanelStore } from "../trace/store.js";

export interface PanelOptions {
  /** Take the host's height instead of one of its own. */
  readonly fill?: boolean;
}

/** Shows a store in `host`; the function returned takes everything down again. */
export function mountPanel(host: HTMLElement, store: PanelStore, options: PanelOptions = {}): () => void {
  void store;
  void options;
  const root = document.createElement("div");
  root.className = "tapedebug";
  host.append(root);
  return () => root.remove();
}
