import { defineChunk } from "../chunks.js";
import type { ViewSpec } from "../spec.js";

export const graph: ViewSpec = {
  key: "graph",
  title: "Graph",
  name: "the graph",
  rank: 20,
  shortcut: "g",
  keys: [
    ["↑  ↓  ←  →", "along the edges, along a row"],
    ["Enter", "choose; fold or unfold a band"],
  ],
  chunk: defineChunk("graph", () => import("./chunk.js")),
};
