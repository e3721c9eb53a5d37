/** The legend of the memory view, and how many versions have each sign. */
import type { TraceModel } from "../../trace/model.js";
import { svg } from "../dom.js";
import type { Sign } from "../spec.js";
import { type Recovery, readMemoryUse } from "./data.js";

export function memoryLegend(model: TraceModel): Sign[] {
  const { regions } = readMemoryUse(model);
  const count = (recovery: Recovery): number =>
    regions.reduce((sum, { overwrites }) => sum + overwrites.filter((one) => one.recovery === recovery).length, 0);
  const box = (name: string): SVGElement => svg("rect", { x: 2, y: 3, width: 32, height: 12, rx: 2, class: name });
  return [
    {
      text: "one version of the values, from one write to the next",
      draw: [svg("rect", { x: 2, y: 7, width: 32, height: 4, class: "td-f-bar" })],
    },
    {
      text: "needed by an adjoint and overwritten, but preserved by the tape",
      count: count("copied"),
      draw: [box("td-mem-copied")],
    },
    {
      text: "the same, recomputed to stay within a memory_budget",
      count: count("recomputed"),
      draw: [box("td-mem-recomputed")],
    },
    {
      text: "the same, but lost",
      count: count("lost"),
      draw: [box("td-mem-lost"), svg("path", { d: "M4 14 L14 4 M13 14 L23 4 M22 14 L32 4", class: "td-s-red" })],
    },
    {
      text: "bytes of these versions, added up along the launches",
      draw: [svg("path", { d: "M2 15 H10 V11 H20 V7 H28 V3 H34 V15 Z", class: "td-mem-growth" })],
    },
  ];
}
