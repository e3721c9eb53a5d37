/** The legend of the shown view, and the scale of the colours. */
import { h, replace, svg } from "./dom.js";
import { whole } from "./format.js";
import { type ColourScale, colourScale } from "./lanes/colourScale.js";
import type { Sign } from "./spec.js";
import { VIEWS, withLegend } from "./stage.js";
import { COLOUR_NAMES, type Panel } from "./state.js";

export function legend(panel: Panel): HTMLElement {
  const { model, view, lifetime } = panel;
  const item = ({ draw, text, count = null }: Sign): HTMLElement => {
    const times = count === null ? null : h("span", { class: "td-nowrap" }, `· ${whole(count)}`);
    return h("li", {}, svgBox(draw), h("span", {}, text, times ? " " : null, times));
  };
  const lists = VIEWS.map((spec) => ({ spec, element: h("ul", {}) }));
  const ramp = h("div", { class: "td-ramp" });
  let scaled: string | null = null;
  const update = (): void => {
    for (const { spec, element } of lists) {
      element.hidden = view.get("main") !== spec.key;
      if (element.hidden || element.childElementCount > 0) continue;
      // signs that the tape does not have are left out
      withLegend(panel, spec, (signs) => replace(element, ...signs.filter(({ count }) => count !== 0).map(item)));
    }
    const by = view.get("colour");
    if (by === scaled) return; // a scale reads every version
    scaled = by;
    const scale = colourScale(model, by);
    ramp.hidden = scale === null;
    if (scale) replace(ramp, ...rampOf(scale));
  };
  update();
  lifetime.add(view.subscribe(update));
  return h("section", { class: "td-legend" }, h("h2", {}, "Legend"), ramp, ...lists.map(({ element }) => element));
}

/** The colour scale with its ends and its middle, and the values that are not on it. */
function rampOf(scale: ColourScale): HTMLElement[] {
  const { low, high, zeros, bad, missing } = scale;
  const ends = high === 0 ? [] : low === high ? [low] : [low, Math.sqrt(low * high), high];
  const beside = [
    zeros > 0 ? `exactly 0: ${whole(zeros)}` : "",
    bad > 0 ? `✕ not finite: ${whole(bad)}` : "",
    missing > 0 && high > 0 ? `grey, not recorded: ${whole(missing)}` : "",
  ].filter(Boolean);
  return [
    h("span", { class: "td-ramp-name" }, `${COLOUR_NAMES[scale.by]} (log)`),
    h("span", { class: "td-ramp-bar", "aria-hidden": "true" }),
    h(
      "span",
      { class: "td-ramp-ends" },
      ...(ends.length > 0 ? ends.map((value) => h("span", {}, scale.format(value))) : ["nothing recorded"]),
    ),
    ...beside.map((text) => h("span", { class: "td-ramp-note" }, text)),
  ];
}

function svgBox(children: readonly SVGElement[]): SVGElement {
  return svg("svg", { width: 36, height: 18, viewBox: "0 0 36 18", "aria-hidden": "true" }, ...children);
}
