/** The sizes of boxes and ellipses, from the text in them. */
import { dim, plural, shape, short } from "../format.js";
import { SEVERITY_SIGNS } from "../phrases.js";
import type { LayoutEdge, LayoutNode } from "./layout.js";
import type { ArrayNode, GraphEdge, GraphNode, LaunchNode, Picture, Port } from "./picture.js";

export const LINE = 13;
const PAD = 8;
const LEAST_PORT = 34;
/** Rules that are named at one node, as in `Tape.visualize`. */
const MOST_RULES = 3;

type Measure = (text: string, bold?: boolean) => number;

/** Without a canvas: Latin letters of the small print, and twice that for the wide ones of other scripts. */
export const roughly: Measure = (text, bold = false) => {
  let width = 0;
  for (const character of text) width += (character.codePointAt(0) as number) > 0x2e80 ? 12 : 6.3;
  return width * (bold ? 1.06 : 1);
};

export function canvasMeasure(font: string): Measure {
  const ctx = document.createElement("canvas").getContext("2d");
  if (!ctx) return roughly;
  return (text, bold = false) => {
    ctx.font = `${bold ? "600 " : ""}11px ${font}`;
    return ctx.measureText(text).width;
  };
}

export interface Line {
  readonly text: string;
  readonly tone: "title" | "small" | "red" | "amber" | "keep";
}

export interface Shape {
  readonly width: number;
  readonly height: number;
  /** Left edge and width of each port of a launch. */
  readonly ports: readonly { readonly x: number; readonly width: number }[];
  /** Width of the cell with the name of a launch. */
  readonly title: number;
  readonly lines: readonly Line[];
}

/** The text lines of a node. */
export function linesOf(node: GraphNode): Line[] {
  return node.kind === "launch" ? launchLines(node) : arrayLines(node);
}

function ruleLines(node: GraphNode): Line[] {
  const seen = new Map(node.findings.map((finding) => [finding.rule, finding]));
  return [...seen.values()].slice(0, MOST_RULES).map((finding) => ({
    text: `${SEVERITY_SIGNS[finding.severity]} ${short(finding.rule, 28)}`,
    tone: finding.severity === "error" ? "red" : "amber",
  }));
}

function launchLines(node: LaunchNode): Line[] {
  const { unit, launch } = node;
  const title: Line = { text: titleOf(node), tone: "title" };
  const rounds = unit.sequence ? ` ×${unit.sequence.count}` : "";
  const what = unit.scope
    ? `${plural(unit.last - unit.first + 1, "launch", "launches")}${rounds}`
    : `#${launch.index}${rounds}${launch.kind === "kernel" ? ` · dim ${short(dim(launch.dim), 20)}` : ` · ${launch.kind}`}`;
  return [title, { text: what, tone: "small" }, ...ruleLines(node)];
}

export function titleOf(node: GraphNode): string {
  if (node.kind === "launch") {
    const { scope } = node.unit;
    return scope ? `▸ ${short(scope.name, 28)}` : short(node.launch.name, 28);
  }
  return `${namesOf(node)}${versionsOf(node)}`;
}

function namesOf(node: ArrayNode): string {
  const { labels } = node;
  if (labels.length > 2) return `${short(labels[0] ?? "", 16)} … ${short(labels.at(-1) ?? "", 16)}`;
  return labels.map((label) => short(label, labels.length > 1 ? 16 : 28)).join(" / ");
}

function versionsOf(node: ArrayNode): string {
  const [first] = node.members;
  if (node.count > 1) return ` ×${node.count}`;
  // The only version there is needs no number.
  return first === undefined || (first.version === 0 && node.status === "live") ? "" : ` v${first.version}`;
}

function arrayLines(node: ArrayNode): Line[] {
  const lines: Line[] = [
    { text: titleOf(node), tone: "title" },
    { text: short(shape(node.info), 30), tone: "small" },
  ];
  if (node.status === "lost") lines.push({ text: "✕ overwritten", tone: "red" });
  else if (node.status === "preserved") lines.push({ text: "overwritten, copy kept", tone: "keep" });
  lines.push(...ruleLines(node).filter((line) => !(node.status === "lost" && line.text === "✕ overwrite")));
  if (node.writer !== null && node.writer >= 0) lines.push({ text: `↑ from launch ${node.writer}`, tone: "small" });
  if (node.readElsewhere) lines.push({ text: "↓ read by others", tone: "small" });
  return lines;
}

export function badge(port: Port): string {
  const read = port.reads ? (port.needed ? "r ●" : "r") : "";
  return `${read}${port.reads && port.writes ? " " : ""}${port.writes ? "w" : ""}` || "–";
}

/** `extra`: what the node is coloured by. */
export function shapeOf(node: GraphNode, measure: Measure, extra: string | null = null): Shape {
  const lines = linesOf(node);
  if (extra !== null) lines.splice(2, 0, { text: extra, tone: "small" });
  const widest = Math.max(...lines.map((line) => measure(line.text, line.tone !== "small")));
  const height = lines.length * LINE + 10;
  if (node.kind === "array") {
    // The text is inscribed in the ellipse: √2 times its size would hold any text, the corners of ours are empty.
    return { width: Math.ceil(widest * 1.18 + 26), height: Math.ceil(height * 1.16 + 4), ports: [], title: 0, lines };
  }
  const title = Math.ceil(widest + 2 * PAD);
  let x = title;
  const ports = node.ports.map((port) => {
    const width = Math.max(
      LEAST_PORT,
      Math.ceil(Math.max(measure(short(port.name, 18)), measure(badge(port))) + PAD + 2),
    );
    x += width;
    return { x: x - width, width };
  });
  const more = node.more > 0 ? LEAST_PORT : 0;
  return { width: x + more, height, ports, title, lines };
}

// ---------------------------------------------------------------------------------------------- for the layout

export function layoutNodes(picture: Picture, shapes: ReadonlyMap<string, Shape>): LayoutNode[] {
  return [...picture.nodes.values()].map((node) => {
    const { width, height } = shapes.get(node.key) as Shape;
    return { key: node.key, width, height, time: timeOf(node, picture), bands: bandsOf(node) };
  });
}

function bandsOf(node: GraphNode): readonly string[] | null {
  return node.kind === "launch" ? node.bands.map((band) => band.key) : null;
}

function timeOf(node: GraphNode, picture: Picture): number {
  if (node.kind === "launch") return 2 * node.unit.first;
  const writer = node.from === null ? undefined : picture.nodes.get(node.from);
  return writer?.kind === "launch" ? 2 * writer.unit.first + 1 : -1;
}

export function layoutEdges(picture: Picture, shapes: ReadonlyMap<string, Shape>): LayoutEdge[] {
  const middle = (key: string): number => (shapes.get(key)?.width ?? 0) / 2;
  const port = (key: string, slot: number | null): number => {
    const shape = shapes.get(key);
    const at = slot === null ? undefined : shape?.ports[slot];
    return at ? at.x + at.width / 2 : shape && shape.title > 0 ? shape.title / 2 : middle(key);
  };
  return picture.edges.map((edge: GraphEdge) => {
    const read = edge.kind === "read";
    return {
      key: edge.key,
      from: edge.from,
      to: edge.to,
      fromX: read ? middle(edge.from) : port(edge.from, edge.slot),
      toX: read ? port(edge.to, edge.slot) : middle(edge.to),
      bundle: read && !edge.back && edge.fate !== "lost" ? "reads" : edge.key,
    };
  });
}
