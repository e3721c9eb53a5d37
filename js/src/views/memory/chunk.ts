/** The code of the memory view, which is loaded when it is first opened. */
import type { ViewChunk } from "../spec.js";
import { memoryLegend } from "./legend.js";
import { MemoryView } from "./view.js";

export const memoryChunk: ViewChunk = {
  view: (panel, element) => new MemoryView(panel, element),
  legend: memoryLegend,
};

export default memoryChunk;
