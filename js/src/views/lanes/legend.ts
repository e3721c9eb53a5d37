/** The legend of the lanes, with the number of each sign on this tape. */
import { LOST, PRESERVED } from "../../trace/columns.js";
import type { TraceModel } from "../../trace/model.js";
import { svg } from "../dom.js";
import type { Sign } from "../spec.js";

export function lanesLegend(model: TraceModel): Sign[] {
  const { versions, summaries } = model.columns;
  const { arrays, backward, events } = model.trace;
  const fates = { lost: 0, kept: 0, bad: 0, dead: 0 };
  for (let v = 0; v < versions.count; v++) {
    if (versions.status[v] === LOST) fates.lost++;
    if (versions.status[v] === PRESERVED) fates.kept++;
    const value = versions.value[v] as number;
    const adjoint = versions.adjoint[v] as number;
    const bad = (s: number): boolean => s >= 0 && (summaries.nan[s] as number) + (summaries.inf[s] as number) > 0;
    if (bad(value) || bad(adjoint)) fates.bad++;
    const read = (versions.reads[v + 1] as number) > (versions.reads[v] as number);
    if (read && adjoint >= 0 && summaries.norm[adjoint] === 0 && !bad(adjoint)) fates.dead++;
  }
  const carried = arrays.filter((array) => array.requiresGrad).length;
  const happened = (kind: string): number =>
    events.filter((event) => event.kind === kind && (kind !== "backward" || event.of === "tape")).length;
  return [
    {
      text: "one version of the values, from one write to the next",
      count: null,
      draw: [rect({ x: 2, y: 5, width: 32, height: 8, rx: 4 }, "td-f-bar")],
    },
    { text: "write", count: null, draw: [circle({ cx: 18, cy: 9, r: 4 }, "td-f-accent")] },
    {
      text: "read (tall: an adjoint needs the value)",
      count: null,
      draw: [
        rect({ x: 12, y: 5, width: 2, height: 8 }, "td-f-muted"),
        rect({ x: 22, y: 1, width: 2, height: 16 }, "td-f-fg"),
      ],
    },
    {
      text: "needed value overwritten",
      count: fates.lost,
      draw: [path("M4 15 C6 2 28 2 31 11", "td-s-red"), path("M27 9 h8 l-4 6 z", "td-f-red")],
    },
    {
      text: "needed value overwritten, but preserved by the tape",
      count: fates.kept,
      draw: [
        path("M4 15 V7 H32 V15", "td-s-keep"),
        path("M14 3 l4 -1.5 l4 1.5 v4 q-1 4 -4 5 q-3 -1 -4 -5 z", "td-f-keep"),
      ],
    },
    {
      text: "finding, where it is first seen; a number stands for several",
      count: model.findings.length,
      draw: [circle({ cx: 18, cy: 9, r: 6 }, "td-f-red"), word("✕", "td-f-bg")],
    },
    { text: "NaN or Inf among the values", count: fates.bad, draw: [word("NaN", "td-f-red")] },
    {
      text: "adjoint of a version, in the reverse pass",
      count: backward.ran ? null : 0,
      draw: [
        rect({ x: 4, y: 5, width: 30, height: 8, rx: 4 }, "td-f-adjbar"),
        circle({ cx: 5, cy: 9, r: 3.5 }, "td-f-adj"),
      ],
    },
    {
      text: "adjoint exactly zero",
      count: backward.ran ? fates.dead : 0,
      draw: [rect({ x: 4, y: 4, width: 28, height: 10, rx: 5 }, "td-s-adj"), word("0", "td-f-adj")],
    },
    {
      text: "requires_grad",
      count: carried,
      draw: [circle({ cx: 18, cy: 9, r: 4.5 }, "td-s-green"), circle({ cx: 18, cy: 9, r: 1.5 }, "td-f-green")],
    },
    {
      text: "no gradient",
      count: arrays.length - carried,
      draw: [circle({ cx: 18, cy: 9, r: 4.5, "stroke-dasharray": "2 2" }, "td-s-muted")],
    },
    { text: "written outside the tape", count: happened("write"), draw: [path("M18 14 l-4.5 -8 h9 z", "td-s-fg")] },
    { text: "read outside the tape", count: happened("read"), draw: [path("M18 4 l4.5 8 h-9 z", "td-s-fg")] },
    {
      text: "set to one value (violet: a gradient)",
      count: happened("zero"),
      draw: [rect({ x: 14, y: 5, width: 8, height: 8 }, "td-s-fg")],
    },
    {
      text: "a reverse pass adds to a gradient",
      count: events.filter(({ kind, of }) => kind === "backward" && of !== "tape").length,
      draw: [path("M13 9 l8 -4.5 v9 z", "td-s-fg td-s-adj")],
    },
    { text: "a reverse pass begins", count: happened("backward"), draw: [path("M13 9 l8 -4.5 v9 z", "td-s-fg")] },
  ];
}

type Shape = Readonly<Record<string, string | number>>;

const rect = (shape: Shape, name: string): SVGElement => svg("rect", { ...shape, class: name });
const circle = (shape: Shape, name: string): SVGElement => svg("circle", { ...shape, class: name });
const path = (d: string, name: string): SVGElement => svg("path", { d, class: name });
const word = (text: string, name: string): SVGElement =>
  svg("text", { x: 18, y: 12.5, class: `${name} td-t-sign` }, document.createTextNode(text));
