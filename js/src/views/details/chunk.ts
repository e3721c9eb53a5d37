/** The code of the inspector's details: the annotated source, and values. */
import { buildSource } from "../source.js";
import { Values } from "../values/view.js";
import type { DetailsChunk } from "./shell.js";

export const detailsChunk: DetailsChunk = {
  source: buildSource,
  values: (panel, element) => new Values(panel, element),
};

export default detailsChunk;
