/** A laid-out picture as SVG elements. Every name becomes a text node. */
import type { TraceModel } from "../../trace/model.js";
import { svg } from "../dom.js";
import { short } from "../format.js";
import type { Layout, PlacedBand, Point } from "./layout.js";
import { badge, LINE, type Line, type Shape } from "./nodeSize.js";
import { edgeLabel, nodeLabel, portLabel } from "./phrases.js";
import type { Band, GraphEdge, GraphNode, LaunchNode, Picture } from "./picture.js";

export interface Drawing {
  readonly content: SVGElement;
  readonly nodes: ReadonlyMap<string, SVGElement>;
  readonly edges: ReadonlyMap<string, SVGElement>;
  /** Labels of some of the edges. */
  readonly names: ReadonlyMap<string, SVGElement>;
  /** The heads of the bands, by their keys. */
  readonly heads: ReadonlyMap<string, SVGElement>;
}

/** Room left of the drawing for the heads of bands, and around it. */
export const BAND_PAD = 14;

export function draw(model: TraceModel, picture: Picture, layout: Layout, shapes: ReadonlyMap<string, Shape>): Drawing {
  const bandInfo = new Map<string, Band>();
  for (const node of picture.nodes.values()) {
    if (node.kind === "launch") for (const band of node.bands) bandInfo.set(band.key, band);
  }
  const deepest = Math.max(-1, ...layout.bands.map((band) => band.depth));
  const bands = new Map(
    layout.bands.map((placed) => [
      placed.key,
      drawBand(placed, bandInfo.get(placed.key) as Band, layout.width, deepest),
    ]),
  );
  const edges = new Map(
    picture.edges.map((edge) => [
      edge.key,
      drawEdge(edge, layout.edges.get(edge.key) ?? [], edgeLabel(model, picture, edge)),
    ]),
  );
  const names = new Map<string, SVGElement>();
  for (const edge of picture.edges) {
    const name = edgeName(edge, layout.edges.get(edge.key) ?? []);
    if (name) names.set(edge.key, name);
  }
  const nodes = new Map(
    [...picture.nodes.values()].map((node) => [
      node.key,
      drawNode(model, node, layout.nodes.get(node.key) as Point, shapes.get(node.key) as Shape),
    ]),
  );
  // Overwrites last: nothing may cover an error.
  const loud = picture.edges.filter((edge) => edge.fate !== null).map((edge) => edge.key);
  const calm = picture.edges.filter((edge) => edge.fate === null).map((edge) => edge.key);
  const content = svg(
    "g",
    { class: "td-g-content" },
    svg("g", {}, ...[...bands.values()].map(({ box }) => box)),
    svg("g", {}, ...[...calm, ...loud].map((key) => edges.get(key) as SVGElement)),
    svg("g", { "aria-hidden": "true" }, ...names.values()),
    svg("g", {}, ...[...bands.values()].map(({ head }) => head)), // no edge crosses out the name of a band
    svg("g", {}, ...nodes.values()),
  );
  const heads = new Map([...bands].map(([key, { head }]) => [key, head]));
  return { content, nodes, edges, names, heads };
}

function label(text: string, x: number, y: number, className: string, anchor = "middle"): SVGElement {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, document.createTextNode(text));
}

// ---------------------------------------------------------------------------------------------- bands

function drawBand(
  placed: PlacedBand,
  band: Band,
  width: number,
  deepest: number,
): { readonly box: SVGElement; readonly head: SVGElement } {
  const pad = BAND_PAD * (deepest - placed.depth + 1);
  const text = `▾ ${band.label}`;
  const rect = { x: -pad, y: placed.top, width: width + 2 * pad, height: placed.bottom - placed.top };
  const name = band.sequence ? "td-g-band td-g-run" : "td-g-band";
  const box = svg("g", { class: name }, svg("rect", { ...rect, rx: 4, class: "td-g-bandbox" }));
  const head = svg(
    "g",
    {
      class: "td-g-bandhead",
      role: "button",
      tabindex: -1,
      "aria-expanded": "true",
      "aria-label": `${band.sequence ? "repetition" : "scope"} ${band.label}: ${band.sequence ? "unfold" : "collapse"}`,
      "data-band": placed.key,
    },
    svg("rect", { x: -pad, y: placed.top, width: 16 + text.length * 6.4, height: 18, class: "td-g-hit" }),
    label(text, -pad + 6, placed.top + 13, "td-g-bandname", "start"),
  );
  return { box, head: svg("g", { class: name }, head) };
}

// ---------------------------------------------------------------------------------------------- edges

function pathOf(points: readonly Point[]): string {
  const [start] = points;
  if (!start) return "";
  const parts = [`M${round(start.x)} ${round(start.y)}`];
  for (let i = 1; i < points.length; i++) {
    const [a, b] = [points[i - 1] as Point, points[i] as Point];
    if (i % 2 === 0) parts.push(`L${round(b.x)} ${round(b.y)}`);
    else {
      const bend = (b.y - a.y) * 0.5;
      parts.push(`C${round(a.x)} ${round(a.y + bend)} ${round(b.x)} ${round(b.y - bend)} ${round(b.x)} ${round(b.y)}`);
    }
  }
  return parts.join("");
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** A triangle with its tip at a point. */
function arrow(tip: Point, down: boolean, className: string): SVGElement {
  const back = down ? -7 : 7;
  const d = `M${round(tip.x)} ${round(tip.y)}l-3.6 ${back}h7.2z`;
  return svg("path", { d, class: className });
}

function drawEdge(edge: GraphEdge, points: readonly Point[], name: string): SVGElement {
  const [first, last] = [points[0], points.at(-1)];
  const classes = ["td-g-edge", `td-g-${edge.kind}`];
  if (edge.fate) classes.push(`td-g-${edge.fate}`);
  if (edge.back && edge.kind !== "overwrite") classes.push("td-g-loop");
  if (edge.grad) classes.push("td-g-grad");
  const d = pathOf(points);
  const down = first && last ? last.y >= first.y : true;
  const element = svg(
    "g",
    { class: classes.join(" "), role: "img", "aria-label": name, "data-edge": edge.key },
    svg("path", { d, class: "td-g-hitline" }),
    svg("path", { d, class: "td-g-line" }),
  );
  if (!first || !last) return element;
  element.append(arrow(last, down, "td-g-head"), arrow(first, !down, "td-g-tail"));
  return element;
}

/** The label beside the middle of an edge; above all edges, so that none crosses it. */
function edgeName(edge: GraphEdge, points: readonly Point[]): SVGElement | null {
  const at = Math.floor(points.length / 2);
  const [a, b] = [points[at - 1], points[at]];
  if (edge.kind !== "overwrite" || !a || !b) return null;
  const words = edge.fate === "lost" ? "✕ overwrites" : "kept";
  return label(words, (a.x + b.x) / 2 + 6, (a.y + b.y) / 2 + 4, `td-g-edgename td-g-${edge.fate}`, "start");
}

// ---------------------------------------------------------------------------------------------- nodes

function drawNode(model: TraceModel, node: GraphNode, at: Point, shape: Shape): SVGElement {
  const worst = node.findings.some((finding) => finding.severity === "error");
  const lost = node.kind === "array" && node.status === "lost";
  const classes = ["td-g-node", `td-g-${node.kind}`];
  if (worst || lost) classes.push("td-g-wrong");
  else if (node.findings.length > 0) classes.push("td-g-warn");
  if (node.kind === "array") {
    classes.push(node.requiresGrad ? "td-g-withgrad" : "td-g-nograd");
    if (node.status === "preserved") classes.push("td-g-preserved");
  }
  return svg(
    "g",
    {
      class: classes.join(" "),
      role: node.kind === "launch" ? "group" : "button", // of a launch the ports are buttons
      tabindex: -1,
      "aria-label":
        node.kind === "launch"
          ? nodeLabel(model, node)
          : withShown(
              nodeLabel(model, node),
              shape.lines.map(({ text }) => text),
            ),
      "data-node": node.key,
      transform: `translate(${round(at.x)} ${round(at.y)})`,
    },
    ...(node.kind === "launch" ? launchParts(model, node, shape) : arrayParts(shape)),
  );
}

/** The accessible name of a button contains its visible text, for voice control. */
function withShown(name: string, seen: readonly string[]): string {
  const text = seen.join(" ");
  return name.includes(text) ? name : `${name}; ${text}`;
}

function lines(all: readonly Line[], x: number, height: number): Node[] {
  const top = (height - all.length * LINE) / 2 + 10;
  return all.flatMap((line, i) => [
    label(line.text, x, round(top + i * LINE), `td-g-text td-g-${line.tone}`),
    document.createTextNode(" "), // not seen: it keeps the words of two lines apart
  ]);
}

function arrayParts({ width, height, lines: all }: Shape): Node[] {
  const ellipse = svg("ellipse", {
    cx: width / 2,
    cy: height / 2,
    rx: width / 2,
    ry: height / 2,
    class: "td-g-shape",
  });
  return [ellipse, ...lines(all, width / 2, height)];
}

function launchParts(model: TraceModel, node: LaunchNode, shape: Shape): Node[] {
  const { width, height, title, ports } = shape;
  const stack = node.unit.sequence
    ? [svg("rect", { x: 3, y: 3, width, height, rx: 3, class: "td-g-shape td-g-stack" })]
    : [];
  const cells = node.ports.map((port, i) => {
    const cell = ports[i] as { x: number; width: number };
    const middle = cell.x + cell.width / 2;
    return svg(
      "g",
      {
        class: "td-g-port",
        role: "button",
        "aria-label": withShown(portLabel(model, node, port), [short(port.name, 18), badge(port)]),
        "data-port": port.slot,
      },
      svg("rect", { x: cell.x, y: 0, width: cell.width, height, class: "td-g-cell" }),
      label(short(port.name, 18), middle, height / 2 - 1, "td-g-text td-g-portname"),
      document.createTextNode(" "),
      label(badge(port), middle, height / 2 + 12, `td-g-text td-g-badge${port.needed ? " td-g-needed" : ""}`),
    );
  });
  const more = node.more > 0 ? [label(`+${node.more}`, width - 17, height / 2 + 4, "td-g-text td-g-small")] : [];
  return [
    ...stack,
    svg("rect", { x: 0, y: 0, width, height, rx: 3, class: "td-g-shape" }),
    ...lines(shape.lines, title / 2, height),
    ...cells,
    ...more,
    svg("rect", { x: 0, y: 0, width, height, rx: 3, class: "td-g-frame" }),
  ];
}
