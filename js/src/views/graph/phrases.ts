/** Texts about a picture: sentences for screen readers, lines for tooltips, and what the drawing shows and leaves out. */
import type { TraceModel } from "../../trace/model.js";
import { listed, plural, short, whole } from "../format.js";
import { launchLines, SEVERITY_SIGNS, versionLines } from "../phrases.js";
import { titleOf } from "./nodeSize.js";
import type { ArrayNode, GraphEdge, GraphNode, LaunchNode, Picture, Port } from "./picture.js";

/** "force v1". */
export function nameOfVersion(model: TraceModel, array: number, version: number): string {
  return `${short(model.array(array)?.label ?? "array", 32)} v${version}`;
}

/** "reads x v0 as x, needed by the adjoint". */
function portWords(model: TraceModel, port: Port): string {
  const label = short(model.array(port.array)?.label ?? "array", 32);
  const as = label === port.name ? "" : ` as ${short(port.name, 32)}`;
  const parts: string[] = [];
  if (port.reads) {
    const version = port.readVersion === null ? "" : ` v${port.readVersion}`;
    parts.push(`reads ${label}${version}${as}${port.needed ? ", needed by its adjoint" : ""}`);
  }
  if (port.writes) {
    const version = port.writeVersion === null ? "" : ` v${port.writeVersion}`;
    parts.push(`writes ${label}${version}${as}`);
  }
  return parts.length > 0 ? parts.join(", ") : `does not touch ${label}${as}`;
}

export function portLabel(model: TraceModel, node: LaunchNode, port: Port): string {
  return `${short(node.launch.name, 32)} ${portWords(model, port)}`;
}

export function nodeLabel(model: TraceModel, node: GraphNode): string {
  const found = node.findings.map((finding) => `${finding.severity}: ${finding.rule}`);
  const parts = node.kind === "launch" ? launchWords(model, node) : arrayWords(node);
  return [...parts, ...new Set(found)].join("; ");
}

function launchWords(model: TraceModel, node: LaunchNode): string[] {
  const { unit, launch } = node;
  const rounds = unit.sequence ? `, repeated ${unit.sequence.count} times` : "";
  const name = unit.scope
    ? `scope ${short(unit.scope.name, 48)}, collapsed, ${plural(unit.last - unit.first + 1, "launch", "launches")}${rounds}`
    : `launch ${launch.index}, ${short(launch.name, 48)}${rounds}`;
  const more = node.more > 0 ? [`${plural(node.more, "array")} more`] : [];
  return [name, ...node.ports.map((port) => portWords(model, port)), ...more];
}

function arrayWords(node: ArrayNode): string[] {
  const parts = [`array ${titleOf(node)}`, node.requiresGrad ? "requires_grad" : "no gradient"];
  if (node.status === "lost") parts.push("overwritten: the reverse pass sees other values");
  if (node.status === "preserved") parts.push("overwritten, the tape keeps a copy");
  if (node.writer !== null && node.writer >= 0) parts.push(`written by launch ${node.writer}, which is not drawn`);
  if (node.readElsewhere) parts.push("read by launches that are not drawn");
  return parts;
}

/** "force v1, read by integrate as f". */
export function edgeLabel(model: TraceModel, picture: Picture, edge: GraphEdge): string {
  const box = picture.nodes.get(edge.kind === "read" ? edge.to : edge.from);
  const array = picture.nodes.get(edge.kind === "read" ? edge.from : edge.to);
  const what =
    array?.kind === "array" && array.count > 1 ? titleOf(array) : nameOfVersion(model, edge.array, edge.version);
  if (box?.kind !== "launch") return what;
  const by = short(box.launch.name, 32);
  const port = edge.slot === null ? undefined : box.ports[edge.slot];
  const as = port ? ` as ${short(port.name, 32)}` : "";
  if (edge.kind === "overwrite") {
    const fate = edge.fate === "lost" ? "an adjoint still needs it" : "the tape keeps a copy";
    return `${what}, overwritten by ${by} (launch ${edge.launch}): ${fate}`;
  }
  const done = edge.kind === "read" ? "read" : "written";
  const fate = edge.fate === "lost" ? "; its adjoint needs values that were overwritten" : "";
  const loop = edge.back ? ", in the next round" : "";
  return `${what}, ${done} by ${by}${as}${loop}${edge.view ? ", through a view" : ""}${fate}`;
}

export function tooltip(model: TraceModel, node: GraphNode, backward: boolean): string[] {
  if (node.kind === "array") {
    const [first] = node.members;
    const version = first && model.version(first.array, first.version);
    const lines = version ? versionLines(model, version) : [titleOf(node)];
    if (node.count > 1) lines.unshift(`${titleOf(node)}: ${plural(node.count, "version")}, such as`);
    return lines;
  }
  const { unit, launch } = node;
  if (unit.scope) {
    return [
      `scope ${short(unit.scope.name, 48)}`,
      `launches ${unit.first} to ${unit.last}, collapsed`,
      ...findingLines(node),
    ];
  }
  const lines = launchLines(model, launch, backward);
  if (!unit.sequence) return lines;
  const { first, length, count } = unit.sequence;
  const at = launch.index - first;
  return [
    ...lines,
    `stands for ${count} launches: ${listed(
      [0, 1, 2].map((r) => first + at + r * length),
      3,
    )} …`,
  ];
}

function findingLines(node: GraphNode): string[] {
  return node.findings.slice(0, 3).map((finding) => `${SEVERITY_SIGNS[finding.severity]} ${short(finding.rule, 40)}`);
}

interface Shown {
  readonly whole: boolean;
  readonly hops: number;
  readonly cut: boolean;
  /** The centre of the neighbourhood. */
  readonly centre: string;
  readonly backward: boolean;
}

/** Return a sentence about what is drawn and what is not. */
export function sentence(model: TraceModel, picture: Picture, shown: Shown): string {
  const boxes = [...picture.nodes.values()].filter((node): node is LaunchNode => node.kind === "launch");
  const launches = boxes.reduce((sum, node) => sum + node.count, 0);
  const all = model.launchCount;
  const in_ = boxes.length === launches ? "" : ` in ${plural(boxes.length, "box", "boxes")}`;
  const parts: string[] = [];
  if (shown.whole) parts.push(`The whole tape: ${plural(all, "launch", "launches")}${in_}.`);
  else {
    const within = `at most ${plural(shown.hops, "launch", "launches")} away from ${shown.centre}`;
    const nearest = shown.cut ? ` the nearest of those ${within}; more are within reach` : ` those ${within}`;
    parts.push(`${whole(launches)} of ${plural(all, "launch", "launches")}${in_}:${nearest}.`);
  }
  if (picture.hidden > 0) parts.push(`${plural(picture.hidden, "array")} hidden (see Show).`);
  if (shown.backward) parts.push("Backward: arrows show where adjoints flow.");
  return parts.join(" ");
}
