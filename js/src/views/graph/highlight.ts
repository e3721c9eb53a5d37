/** Marks the selection, what a finding names, and the direction of adjoints, as classes on the existing drawing. */
import type { TraceModel } from "../../trace/model.js";
import type { Selection } from "../../trace/store.js";
import type { Finding } from "../../trace/types.js";
import type { Drawing } from "./draw.js";
import type { Picture } from "./picture.js";

const MOST_LAUNCHES = 500;

export function mark(
  picture: Picture,
  drawing: Drawing,
  model: TraceModel,
  selection: Selection,
  backward: boolean,
): void {
  const launch = picture.nodeOfLaunch(selection.launch);
  const array = picture.nodeOfVersion(model.arrayId(selection.array), selection.version);
  const named = nodesOfFinding(picture, model.finding(selection.finding));
  for (const [key, element] of drawing.nodes) {
    const chosen = key === launch?.key || key === array?.key;
    element.classList.toggle("td-g-chosen", chosen);
    if (chosen) element.setAttribute("aria-current", "true");
    else element.removeAttribute("aria-current");
    element.classList.toggle("td-g-dim", named !== null && !named.has(key) && !chosen);
  }
  for (const edge of picture.edges) {
    const element = drawing.edges.get(edge.key);
    if (!element) continue;
    const ends = [edge.from, edge.to];
    const touches = launch !== null && ends.includes(launch.key);
    element.classList.toggle("td-g-touches", touches || (array !== null && ends.includes(array.key)));
    element.classList.toggle("td-g-chosen", touches && array !== null && ends.includes(array.key));
    const dim = named !== null && !ends.every((key) => named.has(key));
    element.classList.toggle("td-g-dim", dim);
    drawing.names.get(edge.key)?.classList.toggle("td-g-dim", dim);
    // The backward pass runs launches from the last to the first: those after the selected one are done.
    const now = selection.launch;
    element.classList.toggle("td-g-ahead", backward && now !== null && edge.launch < now && !touches);
  }
}

/** The nodes that a finding is about; null without one, or where none of them is drawn. */
function nodesOfFinding(picture: Picture, finding: Finding | null): ReadonlySet<string> | null {
  if (!finding) return null;
  const named = new Set<string>();
  for (const launch of finding.launches.slice(0, MOST_LAUNCHES)) {
    const node = picture.nodeOfLaunch(launch);
    if (node) named.add(node.key);
  }
  const labels = new Set(finding.arrays);
  for (const edge of picture.edges) {
    const [box, key] = edge.kind === "read" ? [edge.to, edge.from] : [edge.from, edge.to];
    const node = picture.nodes.get(key);
    const about = node?.kind === "array" && node.labels.some((label) => labels.has(label));
    if (about && (named.has(box) || finding.launches.length === 0)) named.add(key);
  }
  return named.size > 0 ? named : null;
}
