/**
 * Shows a saved tape wherever JupyterLab shows outputs. The panel builds itself from text alone, so it is safe in a notebook
 * that is not trusted. Below the rank of live widgets (-10): in a notebook, `output.ts` decides between the two.
 */
import type { IRenderMime } from "@jupyterlab/rendermime-interfaces";
import { TRACE_MIME } from "./protocol.js";
import { SavedTape } from "./savedTape.js";

const extension: IRenderMime.IExtension = {
  id: "tapedebug:mime",
  description: "Shows tapes saved in notebooks.",
  rendererFactory: { safe: true, mimeTypes: [TRACE_MIME], createRenderer: () => new SavedTape() },
  rank: -5,
  dataType: "json",
};

export default extension;
