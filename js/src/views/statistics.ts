/** Values of one version in figures and as a small histogram. */

import type { Histogram, Summary } from "../trace/types.js";
import { h, svg } from "./dom.js";
import { number, whole } from "./format.js";

const WIDTH = 160;
const HEIGHT = 40;

export function figures(summary: Summary): HTMLElement {
  const rows: [string, number][] = [
    ["norm", summary.norm],
    ["mean", summary.mean],
    ["min", summary.min],
    ["max", summary.max],
  ];
  const list = h("dl", { class: "td-figures" });
  // over the finite values only: where there is none, there is nothing to say
  for (const [text, value] of rows)
    list.append(h("dt", {}, text), h("dd", {}, Number.isNaN(value) ? "–" : number(value, 4)));
  const bad = summary.nan + summary.inf;
  list.append(
    h("dt", {}, "NaN, Inf"),
    h("dd", { class: bad > 0 ? "td-bad" : null }, `${bad > 0 ? "✕ " : ""}${whole(summary.nan)}, ${whole(summary.inf)}`),
  );
  list.append(h("dt", {}, "count"), h("dd", {}, whole(summary.count)));
  return list;
}

export function histogram(data: Histogram | null): HTMLElement | null {
  if (!data) return null;
  const most = data.counts.reduce((a, b) => Math.max(a, b), 1);
  const step = WIDTH / data.counts.length;
  const bars = data.counts.map((count, i) => {
    const high = count === 0 ? 0 : Math.max(1, (count / most) * HEIGHT);
    return svg("rect", { x: i * step + 0.5, y: HEIGHT - high, width: Math.max(0.5, step - 1), height: high });
  });
  const total = data.counts.reduce((a, b) => a + b, 0);
  const label = `histogram of ${whole(total)} values from ${number(data.low)} to ${number(data.high)}, most in one bin ${whole(most)}`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    ...bars,
  );
  return h(
    "figure",
    { class: "td-histogram" },
    picture,
    h("figcaption", {}, h("span", {}, number(data.low)), h("span", {}, number(data.high))),
  );
}
