/**
 * The picture as Graphviz DOT text, to be drawn elsewhere: exactly the shown part. The style is that of
 * `Tape.visualize` (tapedebug/visualize/_dot.py), which draws the whole tape.
 */

import { badge, type Line, linesOf } from "./nodeSize.js";
import type { ArrayNode, Band, GraphEdge, LaunchNode, Picture } from "./picture.js";

const COLOURS = {
  green: "#c8e6c9",
  grey: "#e0e0e0",
  box: "#d5d5d5",
  red: "#c62828",
  keep: "#1b7f86",
  amber: "#e65100",
};
const LONGEST = 80;

/** Inside an HTML-like label: nothing in it can end the label, open a tag or start a new line. */
function text(value: string, longest = LONGEST): string {
  const cut = [...value].length > longest ? `${[...value].slice(0, longest - 1).join("")}…` : value;
  const plain = cut.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
  const entities: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return plain.replace(/[&<>"']/g, (character) => entities[character] as string) || " ";
}

/** A quoted string, taken literally: backslashes would begin escapes. */
function quoted(value: string): string {
  return `"${text(value).replaceAll("\\", "\\\\")}"`;
}

function small(words: string, colour = ""): string {
  return `<FONT POINT-SIZE="9"${colour ? ` COLOR="${colour}"` : ""}>${text(words)}</FONT>`;
}

function row(line: Line): string {
  if (line.tone === "title") return `<B>${text(line.text)}</B>`;
  return small(line.text, line.tone === "small" ? "" : COLOURS[line.tone]);
}

export function toDot(picture: Picture, name: string, note: string): string {
  const ids = new Map<string, string>();
  const launches: LaunchNode[] = [];
  const lines = [
    `digraph ${quoted(name)} {`,
    '  graph [rankdir=TB, fontname="Helvetica", compound=true];',
    '  node [fontname="Helvetica", fontsize=11];',
    '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7, color="#555555"];',
  ];
  for (const node of picture.nodes.values()) {
    if (node.kind === "launch") {
      ids.set(node.key, `${node.unit.scope ? "s" : "l"}${node.unit.scope?.id ?? node.launch.index}`);
      launches.push(node);
    } else {
      ids.set(node.key, `a${ids.size}`);
      lines.push(`  ${arrayNode(node, ids.get(node.key) as string)}`);
    }
  }
  lines.push(...clusters(launches, ids));
  for (const edge of picture.edges) lines.push(`  ${edgeLine(picture, edge, ids)}`);
  lines.push(`  label=<${text(note, 400)}>; labelloc=b; labeljust=l; fontsize=10;`, "}");
  return `${lines.join("\n")}\n`;
}

function arrayNode(node: ArrayNode, id: string): string {
  const fill = node.requiresGrad ? COLOURS.green : COLOURS.grey;
  const error = node.status === "lost" || node.findings.some((finding) => finding.severity === "error");
  const border = error
    ? COLOURS.red
    : node.status === "preserved"
      ? COLOURS.keep
      : node.findings.length > 0
        ? COLOURS.amber
        : "";
  const style = node.status === "preserved" && !error ? "filled,dashed" : "filled";
  const edge = border ? `, color="${border}", penwidth=2.5` : "";
  return `${id} [shape=ellipse, fillcolor="${fill}"${edge}, style="${style}", label=<${linesOf(node).map(row).join("<BR/>")}>];`;
}

function launchNode(node: LaunchNode, id: string): string {
  const border =
    node.findings.length === 0 ? 'BORDER="0"' : `BORDER="2" COLOR="${severe(node) ? COLOURS.red : COLOURS.amber}"`;
  const ports = node.ports.map(
    (port) => `<TD PORT="p${port.slot}" BGCOLOR="white">${text(port.name)}<BR/>${small(badge(port))}</TD>`,
  );
  const title = `<TR><TD COLSPAN="${Math.max(1, ports.length)}">${linesOf(node).map(row).join("<BR/>")}</TD></TR>`;
  const cells = ports.length > 0 ? `<TR>${ports.join("")}</TR>` : "";
  const table = `<TABLE ${border} CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" BGCOLOR="${COLOURS.box}">${title}${cells}</TABLE>`;
  return `${id} [shape=plain, label=<${table}>];`;
}

function severe(node: LaunchNode): boolean {
  return node.findings.some((finding) => finding.severity === "error");
}

function edgeLine(picture: Picture, edge: GraphEdge, ids: ReadonlyMap<string, string>): string {
  const end = (key: string): string => {
    const launch = picture.nodes.get(key)?.kind === "launch";
    return `${ids.get(key)}${launch && edge.slot !== null ? `:p${edge.slot}` : ""}`;
  };
  const attributes: string[] = [];
  if (edge.fate === "lost") attributes.push(`color="${COLOURS.red}"`, "penwidth=1.8");
  if (edge.fate === "kept") attributes.push(`color="${COLOURS.keep}"`);
  if (edge.kind === "overwrite")
    attributes.push("style=dashed", "constraint=false", `label="${edge.fate === "lost" ? "overwrites" : "kept"}"`);
  if (edge.view) attributes.push('label="view"');
  return `${end(edge.from)} -> ${end(edge.to)}${attributes.length > 0 ? ` [${attributes.join(", ")}]` : ""};`;
}

interface Cluster {
  readonly band: Band | null;
  readonly inner: Map<string, Cluster>;
  readonly nodes: string[];
}

/** Scopes and repeated sequences as boxes in boxes. */
function clusters(launches: readonly LaunchNode[], ids: ReadonlyMap<string, string>): string[] {
  const top: Cluster = { band: null, inner: new Map(), nodes: [] };
  for (const node of launches) {
    let at = top;
    for (const band of node.bands) {
      const next = at.inner.get(band.key) ?? { band, inner: new Map(), nodes: [] };
      at.inner.set(band.key, next);
      at = next;
    }
    at.nodes.push(launchNode(node, ids.get(node.key) as string));
  }
  let number = 0;
  const write = (cluster: Cluster, indent: string): string[] => [
    ...cluster.nodes.map((node) => indent + node),
    ...[...cluster.inner.values()].flatMap((inner) => [
      `${indent}subgraph cluster_${++number} {`,
      `${indent}  graph [label=<${text(inner.band?.label ?? "")}>, style="${inner.band?.sequence ? "rounded,bold" : "rounded"}", color="#9e9e9e", fontsize=11];`,
      ...write(inner, `${indent}  `),
      `${indent}}`,
    ]),
  ];
  return write(top, "  ");
}
