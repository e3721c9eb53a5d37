/** The Jacobian view as one part; see `part.ts`. */
import type { JacobianChunkFactory } from "./shell.js";
import { sourceOf } from "./source.js";
import { buildWideJacobian, jacobianTab } from "./view.js";

export const jacobianChunk: JacobianChunkFactory = (host) => ({
  follow: (panel) => void sourceOf(panel, host),
  tab: (panel) => jacobianTab(panel, host),
  wide: (panel) => buildWideJacobian(panel, host),
});

export default jacobianChunk;
