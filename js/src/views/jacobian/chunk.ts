/** The code of the Jacobian view, which is loaded when it is first opened. */
import type { JacobianChunkFactory } from "./shell.js";
import { sourceOf } from "./source.js";
import { buildWideJacobian, jacobianTab } from "./view.js";

export const jacobianChunk: JacobianChunkFactory = (host) => ({
  follow: (panel) => void sourceOf(panel, host),
  tab: (panel) => jacobianTab(panel, host),
  wide: (panel) => buildWideJacobian(panel, host),
});

export default jacobianChunk;
