/** The code of the graph, which is loaded when it is first opened. */
import type { ViewChunk } from "../spec.js";
import { graphLegend } from "./legend.js";
import { GraphView } from "./view.js";

export const graphChunk: ViewChunk = {
  view: (panel, element) => new GraphView(panel, element),
  legend: graphLegend,
};

export default graphChunk;
