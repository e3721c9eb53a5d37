/** For pages without a kernel to ask, and for JupyterLab: every part is in their bundle. */
import { details } from "./details/index.js";
import { makeGraph } from "./graph/index.js";
import { makeJacobian } from "./jacobian/index.js";
import { holdParts } from "./parts.js";

export function holdAllParts(): void {
  holdParts({ details, graph: makeGraph, jacobian: makeJacobian });
}
