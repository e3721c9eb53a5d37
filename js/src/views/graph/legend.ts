/** The legend of the graph: the signs that this tape has. */
import type { TraceModel } from "../../trace/model.js";
import { svg } from "../dom.js";
import type { Sign } from "../spec.js";

function ellipse(className: string): SVGElement {
  return svg("g", { class: className }, svg("ellipse", { cx: 18, cy: 9, rx: 15, ry: 7, class: "td-g-shape" }));
}

function edge(className: string): SVGElement[] {
  const line = svg("path", { d: "M2 9H28", class: "td-g-line" });
  return [svg("g", { class: className }, line, svg("path", { d: "M34 9l-7 -3.6v7.2z", class: "td-g-head" }))];
}

export function graphLegend(model: TraceModel): Sign[] {
  const signs: (Sign | false)[] = [
    {
      text: "launch, with a cell for each argument: r reads, r ● reads a value that its adjoint needs, w writes",
      draw: [
        svg("rect", { x: 2, y: 3, width: 32, height: 12, rx: 2, class: "td-g-shape" }),
        svg("rect", { x: 18, y: 3, width: 8, height: 12, class: "td-g-cell" }),
        svg("rect", { x: 26, y: 3, width: 8, height: 12, class: "td-g-cell" }),
      ],
    },
    { text: "version of an array, requires_grad", draw: [ellipse("td-g-withgrad")] },
    model.trace.arrays.some((array) => !array.requiresGrad) && {
      text: "version of an array, no gradient",
      draw: [ellipse("td-g-nograd")],
    },
    model.trace.sequences.length > 0 && { text: "to the next round", draw: edge("td-g-loop") },
    model.countStatus("lost") > 0 && {
      text: "overwrites a needed value",
      draw: edge("td-g-overwrite td-g-lost"),
    },
    model.countStatus("preserved") > 0 && {
      text: "overwrites a needed value that the tape preserved",
      draw: edge("td-g-overwrite td-g-kept"),
    },
    model.trace.backward.ran && {
      text: "in the backward pass: where adjoints flow",
      draw: [
        svg(
          "g",
          { class: "td-g-backward" },
          svg(
            "g",
            { class: "td-g-edge td-g-grad" },
            svg("path", { d: "M8 9H34", class: "td-g-line" }),
            svg("path", { d: "M2 9l7 -3.6v7.2z", class: "td-g-tail" }),
          ),
        ),
      ],
    },
  ];
  return signs.filter((sign) => sign !== false);
}
