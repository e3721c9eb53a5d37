/** The graph as one part; see `part.ts`. */
import { graphSigns } from "./legend.js";
import type { GraphChunk } from "./shell.js";
import { GraphView } from "./view.js";

export const graphChunk: GraphChunk = {
  view: (panel, element) => new GraphView(panel, element),
  signs: graphSigns,
};

export default graphChunk;
