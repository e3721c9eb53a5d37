/** What there is to see of a launch or a version beyond its facts: the annotated source, and values; see `part.ts`. */
import { buildSource } from "../source.js";
import { Values } from "../values/view.js";
import type { DetailsChunk } from "./shell.js";

export const detailsChunk: DetailsChunk = {
  source: buildSource,
  values: (panel, element) => new Values(panel, element),
};

export default detailsChunk;
