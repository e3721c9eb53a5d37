/** What the signs of the lanes mean; only those that this tape has. */
import { h, replace, svg } from "./dom.js";
import { colourScale } from "./lanes/scale.js";
import { COLOUR_NAMES, type Panel } from "./state.js";

type Draw = () => SVGElement[];

const BAR: Draw = () => [svg("rect", { x: 2, y: 5, width: 32, height: 8, rx: 4, class: "td-f-bar" })];

const SIGNS: readonly { name: string; text: string; draw: Draw }[] = [
  { name: "bar", text: "life of one version", draw: BAR },
  { name: "write", text: "write", draw: () => [svg("circle", { cx: 18, cy: 9, r: 4, class: "td-f-accent" })] },
  {
    name: "read",
    text: "read; tall: an adjoint needs it",
    draw: () => [
      svg("rect", { x: 12, y: 5, width: 2, height: 8, class: "td-f-muted" }),
      svg("rect", { x: 22, y: 1, width: 2, height: 16, class: "td-f-fg" }),
    ],
  },
  {
    name: "lost",
    text: "needed value overwritten",
    draw: () => [
      svg("path", { d: "M4 15 C6 2 28 2 31 11", class: "td-s-red" }),
      svg("path", { d: "M27 9 h8 l-4 6 z", class: "td-f-red" }),
    ],
  },
  {
    name: "preserved",
    text: "overwritten, but kept by the tape",
    draw: () => [
      svg("path", { d: "M4 15 V7 H32 V15", class: "td-s-keep" }),
      svg("path", { d: "M14 3 l4 -1.5 l4 1.5 v4 q-1 4 -4 5 q-3 -1 -4 -5 z", class: "td-f-keep" }),
    ],
  },
  {
    name: "adjoint",
    text: "life of an adjoint",
    draw: () => [
      svg("rect", { x: 4, y: 5, width: 30, height: 8, rx: 4, class: "td-f-adjbar" }),
      svg("circle", { cx: 5, cy: 9, r: 3.5, class: "td-f-adj" }),
    ],
  },
  {
    name: "grad",
    text: "requires_grad",
    draw: () => [
      svg("circle", { cx: 18, cy: 9, r: 4.5, class: "td-s-green" }),
      svg("circle", { cx: 18, cy: 9, r: 1.5, class: "td-f-green" }),
    ],
  },
  {
    name: "nograd",
    text: "no gradient",
    draw: () => [svg("circle", { cx: 18, cy: 9, r: 4.5, class: "td-s-muted", "stroke-dasharray": "2 2" })],
  },
];

export function legend(panel: Panel): HTMLElement {
  const { model, view, lifetime } = panel;
  const has = (status: string): boolean => model.trace.versions.some((v) => v.status === status);
  const absent = new Set<string>();
  if (!has("lost")) absent.add("lost");
  if (!has("preserved")) absent.add("preserved");
  if (!model.trace.backward.ran) absent.add("adjoint");
  if (model.trace.arrays.every((a) => a.requiresGrad)) absent.add("nograd");
  const rows = SIGNS.filter(({ name }) => !absent.has(name)).map(({ text, draw }) =>
    h("li", {}, svgBox(draw()), h("span", {}, text)),
  );
  const ramp = h("div", { class: "td-ramp" });
  const update = (): void => {
    const scale = colourScale(model, view.get("colour"));
    ramp.hidden = scale === null;
    if (!scale) return;
    const empty = scale.high === 0;
    replace(
      ramp,
      h("span", { class: "td-ramp-name" }, `${COLOUR_NAMES[scale.by]} (log)`),
      h("span", { class: "td-ramp-bar", "aria-hidden": "true" }),
      h(
        "span",
        { class: "td-ramp-ends" },
        h("span", {}, empty ? "nothing recorded" : scale.format(scale.low)),
        empty ? null : h("span", {}, scale.format(scale.high)),
      ),
    );
  };
  update();
  lifetime.add(view.subscribe(update));
  return h("section", { class: "td-legend" }, h("h2", {}, "Legend"), ramp, h("ul", {}, ...rows));
}

function svgBox(children: readonly SVGElement[]): SVGElement {
  return svg("svg", { width: 36, height: 18, viewBox: "0 0 36 18", "aria-hidden": "true" }, ...children);
}
