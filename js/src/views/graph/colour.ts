/** Colouring by a number, as in the lanes: versions by their norms and sizes, launches by their time; the number stands there, too. */
import type { TraceModel } from "../../trace/model.js";
import type { ColourScale } from "../lanes/colourScale.js";
import { COLOUR_NAMES } from "../state.js";
import type { GraphNode } from "./picture.js";

interface Tint {
  readonly text: string;
  /** Step of the scale; "bad" where the number is not finite. */
  readonly level: number | "bad";
}

export function tintOf(model: TraceModel, scale: ColourScale | null, node: GraphNode): Tint | null {
  if (!scale || (node.kind === "launch") !== (scale.by === "time")) return null;
  const at = node.kind === "launch" ? writtenBy(model, node) : firstOf(model, node);
  const level = at < 0 ? null : scale.level(at);
  if (level === null) return null;
  const several = node.count > 1 ? " at first" : "";
  const name = scale.by === "time" || scale.by === "bytes" ? "" : `${COLOUR_NAMES[scale.by]} `;
  return { text: `${name}${level === "bad" ? "NaN/Inf" : scale.format(numberOf(model, scale, at))}${several}`, level };
}

/** Position in the columns of a version that a launch wrote: its time is that launch's. */
function writtenBy(model: TraceModel, node: GraphNode & { readonly kind: "launch" }): number {
  const port = node.unit.scope ? undefined : node.ports.find((found) => found.writes);
  return port ? model.versionIndex(port.array, port.writeVersion) : -1;
}

function firstOf(model: TraceModel, node: GraphNode & { readonly kind: "array" }): number {
  const [first] = node.members;
  return first ? model.versionIndex(first.array, first.version) : -1;
}

function numberOf(model: TraceModel, { by }: ColourScale, at: number): number {
  const { versions, summaries, launches } = model.columns;
  if (by === "time") return launches.seconds[versions.writtenBy[at] as number] ?? Number.NaN;
  const array = model.array(versions.array[at] as number);
  if (by === "bytes") return array ? array.stop - array.start : Number.NaN;
  return summaries.norm[(by === "value" ? versions.value : versions.adjoint)[at] as number] ?? Number.NaN;
}

export function applyTint(element: SVGElement | undefined, { level }: Tint): void {
  element?.classList.add(level === "bad" ? "td-g-bad" : "td-g-level");
  if (level !== "bad") element?.style.setProperty("--td-level", String(level));
}
