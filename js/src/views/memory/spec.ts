import { defineChunk } from "../chunks.js";
import type { ViewSpec } from "../spec.js";

export const memory: ViewSpec = {
  key: "memory",
  title: "Memory",
  name: "the memory view",
  rank: 30,
  shortcut: "m",
  keys: [
    ["↑  ↓", "the region above, below"],
    ["Home  End", "the region with the most copies, the last region"],
    ["Enter", "the next version of the region whose values an adjoint needs and a launch overwrites"],
  ],
  chunk: defineChunk("memory", () => import("./chunk.js")),
};
