/** For pages without a kernel to ask, and for JupyterLab: every part is in their bundle. */

import { holdChunks } from "./chunks.js";
import { detailsChunk } from "./details/chunk.js";
import { graphChunk } from "./graph/chunk.js";
import { jacobianChunk } from "./jacobian/chunk.js";

export function holdAllChunks(): void {
  holdChunks({ details: detailsChunk, graph: graphChunk, jacobian: jacobianChunk });
}
