/** The views of the panel. To add one, write its folder and add a line here; `spec.ts` describes what is in the folder. */
export { graph } from "./graph/spec.js";
export { lanes } from "./lanes/spec.js";
export { memory } from "./memory/spec.js";
