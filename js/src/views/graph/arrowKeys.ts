/** The target of an arrow key in a drawing: along edges up and down, along a row sideways. Pure. */
import type { Layout } from "./layout.js";
import type { GraphEdge, Picture } from "./picture.js";

interface Step {
  /** A node, or the head of a band. */
  readonly key: string;
  readonly edge: GraphEdge | null;
}

/** Rows with the heads of the bands that begin in them, which come first. */
function rowsOf(layout: Layout): string[][] {
  return layout.rows.map((row, r) => [
    ...layout.bands.filter((band) => band.firstRow === r).map((band) => band.key),
    ...row,
  ]);
}

export function step(picture: Picture, layout: Layout, from: string | null, key: string): Step | null {
  const rows = rowsOf(layout);
  const first = rows.find((row) => row.length > 0)?.[0];
  if (first === undefined) return null;
  if (from === null || key === "Home") return { key: first, edge: null };
  const at = rows.findIndex((row) => row.includes(from));
  const row = rows[at];
  if (!row) return { key: first, edge: null };
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const next = row[row.indexOf(from) + (key === "ArrowLeft" ? -1 : 1)];
    return next === undefined ? null : { key: next, edge: null };
  }
  const down = key === "ArrowDown";
  return alongEdge(picture, layout, from, down) ?? (picture.nodes.has(from) ? null : sameBand(row, from, down));
}

/** From the head of a band into its first row. */
function sameBand(row: readonly string[], from: string, down: boolean): Step | null {
  const next = down ? row.slice(row.indexOf(from) + 1).find((key) => !key.includes(" ")) : undefined;
  return next === undefined ? null : { key: next, edge: null };
}

/** The straightest of the edges; those of what goes wrong, and round a loop, come last. */
function alongEdge(picture: Picture, layout: Layout, from: string, down: boolean): Step | null {
  const mine = layout.nodes.get(from);
  const ends = picture.edges
    .filter((edge) => (down ? edge.from : edge.to) === from)
    .map((edge) => ({ edge, key: down ? edge.to : edge.from }));
  const cost = ({ edge, key }: { edge: GraphEdge; key: string }): number => {
    const there = layout.nodes.get(key);
    const detour = edge.back || edge.kind === "overwrite" ? 1e6 : 0;
    return detour + (mine && there ? Math.abs(there.x - mine.x) + Math.abs(there.y - mine.y) : 0);
  };
  ends.sort((a, b) => cost(a) - cost(b));
  return ends[0] ?? null;
}
