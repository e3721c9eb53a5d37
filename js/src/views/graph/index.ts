/** The graph as one part; see `part.ts`. */
import { graphSigns } from "./legend.js";
import type { MakeGraph } from "./part.js";
import { GraphView } from "./view.js";

export const makeGraph: MakeGraph = {
  view: (panel, element) => new GraphView(panel, element),
  signs: graphSigns,
};

export default makeGraph;
