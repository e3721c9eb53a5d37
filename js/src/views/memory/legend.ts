/** The legend of the memory view, and how many versions have each sign. */
import type { TraceModel } from "../../trace/model.js";
import { svg } from "../dom.js";
import type { Sign } from "../spec.js";
import { RECOVERIES, type Recovery, readMemoryUse } from "./data.js";

/** The rectangles under a small staircase: left, right and height. */
const STEPS = [
  [10, 20, 4],
  [20, 28, 8],
  [28, 34, 12],
] as const;
const FLOOR = 15;
const BETWEEN_STRIPES = 4;

export function memoryLegend(model: TraceModel): Sign[] {
  const { regions, total } = readMemoryUse(model);
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
      draw: growthSign(RECOVERIES.filter((recovery) => total[recovery] > 0)),
    },
  ];
}

/** A staircase in the styles of the bytes that occur, stacked like the curve itself; lost bytes are striped. */
function growthSign(occurring: readonly Recovery[]): SVGElement[] {
  const parts: readonly Recovery[] = occurring.length > 0 ? occurring : ["copied"];
  return parts.flatMap((recovery, i) => {
    const rectangles = STEPS.map(([left, right, height]) => ({
      left,
      right,
      top: FLOOR - (height * (i + 1)) / parts.length,
      bottom: FLOOR - (height * i) / parts.length,
    }));
    const there = rectangles.map(({ right, top }) => `V${top} H${right}`).join(" ");
    const back = [...rectangles].reverse().map(({ left, bottom }) => `V${bottom} H${left}`);
    const [{ left, bottom }] = rectangles as [(typeof rectangles)[number]];
    const outline = svg("path", { d: `M${left} ${bottom} ${there} ${back.join(" ")} Z`, class: `td-mem-${recovery}` });
    if (recovery !== "lost") return [outline];
    return [outline, svg("path", { d: rectangles.map(stripes).join(" "), class: "td-s-red" })];
  });
}

/** Diagonal lines within a rectangle. */
function stripes(box: {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}): string {
  const { left, right, top, bottom } = box;
  const lines: string[] = [];
  const first = Math.ceil((left + top) / BETWEEN_STRIPES) * BETWEEN_STRIPES;
  for (let across = first; across < right + bottom; across += BETWEEN_STRIPES) {
    const from = Math.max(left, across - bottom);
    const to = Math.min(right, across - top);
    if (to > from) lines.push(`M${from} ${across - from} L${to} ${across - to}`);
  }
  return lines.join(" ");
}
