/**
 * A layered layout of the graph, with ports. Time runs downward. Pure and deterministic.
 *
 * Layered drawing after K. Sugiyama, S. Tagawa, M. Toda (1981), doi:10.1109/TSMC.1981.4308636, with two things that a tape has
 * and a general graph has not: launches have an order, so nothing must be found out about cycles, and edges end at ports. Why no
 * library: dagre knows no ports, is 47 kB minified (this is 8), and needs 0.3 to 1.4 s of processor time for 50 launches and their
 * 70 versions where this needs 0.04 (two tapes of a net, Node 20); Graphviz as WebAssembly is 489 kB, and opens no sooner.
 */
import { orderRows, type Row } from "./rowOrder.js";
import { placeRows } from "./rowPositions.js";

export interface LayoutNode {
  readonly key: string;
  readonly width: number;
  readonly height: number;
  /** Order of time; an edge down leads to a greater one. Negative: there before the tape, drawn just above its first reader. */
  readonly time: number;
  /** The bands around it, outermost first; null if it is in none by itself. */
  readonly bands: readonly string[] | null;
}

export interface LayoutEdge {
  readonly key: string;
  readonly from: string;
  readonly to: string;
  /** Where it leaves and arrives, from the left edge of the nodes. */
  readonly fromX: number;
  readonly toX: number;
  /** Edges of one bundle and source share their way as far as they can. */
  readonly bundle: string;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface PlacedBand {
  /** The row that it begins in. */
  readonly firstRow: number;
  readonly key: string;
  readonly depth: number;
  readonly top: number;
  readonly bottom: number;
}

export interface Layout {
  /** Left upper corners. */
  readonly nodes: ReadonlyMap<string, Point>;
  /** Pairs of points for each row that an edge passes: it runs straight within a row and bends between them. */
  readonly edges: ReadonlyMap<string, readonly Point[]>;
  readonly bands: readonly PlacedBand[];
  readonly rows: readonly (readonly string[])[];
  readonly width: number;
  readonly height: number;
}

/** A node or a place where a long edge passes a row. */
export interface Slot {
  readonly key: string;
  readonly width: number;
  readonly height: number;
  readonly real: boolean;
  readonly row: number;
  order: number;
  x: number;
}

/** A piece of an edge between two rows that follow each other. */
export interface Piece {
  readonly upper: Slot;
  readonly lower: Slot;
  readonly upperX: number;
  readonly lowerX: number;
}

const GAP_Y = 30;
const CROSSING_ROOM = 3;
const BAND_HEAD = 20;
const BAND_FOOT = 8;
const LANE = 12;

export function layoutGraph(nodes: readonly LayoutNode[], edges: readonly LayoutEdge[]): Layout {
  const byKey = new Map(nodes.map((node) => [node.key, node]));
  const down = edges
    .filter((edge) => byKey.has(edge.from) && byKey.has(edge.to) && edge.from !== edge.to)
    .map((edge) => orient(edge, byKey));
  const rank = rankNodes(nodes, down);
  const { rows, pieces, routes } = buildRows(nodes, down, rank);
  orderRows(rows, pieces);
  placeRows(rows, pieces);
  const left = Math.min(0, ...rows.flatMap((row) => row.map((slot) => slot.x)));
  for (const row of rows) for (const slot of row) slot.x -= left;
  const bandsAt = bandRanks(nodes, rank);
  const tops = rowTops(rows, pieces, bandsAt);
  return {
    nodes: new Map(
      rows.flatMap((row, r) =>
        row
          .filter((slot) => slot.real)
          .map((slot) => [
            slot.key,
            { x: slot.x, y: (tops[r] as Top).top + ((tops[r] as Top).height - slot.height) / 2 },
          ]),
      ),
    ),
    edges: new Map(down.map((edge) => [edge.edge.key, points(edge, routes, tops)])),
    bands: bandsAt.map(({ key, depth, first, last }) => ({
      key,
      depth,
      firstRow: first,
      top: (tops[first] as Top).top - BAND_FOOT - BAND_HEAD * (deepestAt(bandsAt, first) - depth + 1) + 4,
      bottom:
        (tops[last] as Top).top + (tops[last] as Top).height + BAND_FOOT + 4 * (deepestEnd(bandsAt, last) - depth),
    })),
    rows: rows.map((row) => row.filter((slot) => slot.real).map((slot) => slot.key)),
    width: Math.max(0, ...rows.flatMap((row) => row.map((slot) => slot.x + slot.width))),
    height: tops.length > 0 ? (tops.at(-1) as Top).top + (tops.at(-1) as Top).height : 0,
  };
}

interface Down {
  readonly edge: LayoutEdge;
  /** The node above; the edge itself may lead up. */
  readonly upper: string;
  readonly lower: string;
  readonly upperX: number;
  readonly lowerX: number;
  readonly flipped: boolean;
}

function orient(edge: LayoutEdge, nodes: ReadonlyMap<string, LayoutNode>): Down {
  const from = nodes.get(edge.from) as LayoutNode;
  const to = nodes.get(edge.to) as LayoutNode;
  const flipped = from.time > to.time || (from.time === to.time && from.key > to.key);
  return flipped
    ? { edge, upper: edge.to, lower: edge.from, upperX: edge.toX, lowerX: edge.fromX, flipped }
    : { edge, upper: edge.from, lower: edge.to, upperX: edge.fromX, lowerX: edge.toX, flipped };
}

// ---------------------------------------------------------------------------------------------- ranks

/**
 * Ranks each node as high as its sources allow; nodes in a band begin below all earlier ones. Values from before the
 * tape is drawn just above its first reader.
 */
function rankNodes(nodes: readonly LayoutNode[], edges: readonly Down[]): Map<string, number> {
  const into = group(edges, (edge) => edge.lower);
  const outOf = group(edges, (edge) => edge.upper);
  const timeOf = new Map(nodes.map((node) => [node.key, node.time]));
  const rank = new Map<string, number>();
  const ordered = [...nodes].sort((a, b) => a.time - b.time || (a.key < b.key ? -1 : 1));
  let floor = 1;
  let deepest = 0;
  let bands: string | null = null;
  for (const node of ordered) {
    if (node.time < 0) {
      rank.set(node.key, 0);
      continue;
    }
    if (node.bands) {
      const path = node.bands.join("\n");
      if (bands !== null && path !== bands) floor = deepest + 1 + (deepest % 2);
      bands = path;
    }
    const above = (into.get(node.key) ?? []).map((edge) => rank.get(edge.upper) ?? 0);
    const at = Math.max(node.bands ? floor : 1, ...above.map((r) => r + 1));
    rank.set(node.key, at);
    deepest = Math.max(deepest, at);
  }
  // Boxes that nothing drawn feeds go down to what they feed, unless a band holds them.
  for (const node of [...ordered].reverse()) {
    if (!node.bands || node.bands.length > 0 || node.time < 0) continue;
    if ((into.get(node.key) ?? []).some((edge) => (timeOf.get(edge.upper) ?? -1) >= 0)) continue;
    const outputs = (outOf.get(node.key) ?? []).map((edge) => edge.lower);
    const users = outputs.flatMap((key) => (outOf.get(key) ?? []).map((edge) => rank.get(edge.lower) ?? 0));
    const slide = Math.min(...users) - 2;
    if (outputs.length === 0 || !Number.isFinite(slide) || slide <= (rank.get(node.key) ?? 0)) continue;
    rank.set(node.key, slide);
    for (const key of outputs) rank.set(key, Math.max(rank.get(key) ?? 0, slide + 1));
  }
  for (const node of ordered) {
    if (node.time >= 0) continue;
    const readers = (outOf.get(node.key) ?? []).map((edge) => rank.get(edge.lower) ?? 1);
    rank.set(node.key, Math.max(0, Math.min(...readers, Number.MAX_SAFE_INTEGER) - 1));
    if (readers.length === 0) rank.set(node.key, 0);
  }
  return compact(rank);
}

/** Leaves out ranks that nothing is on. */
function compact(rank: Map<string, number>): Map<string, number> {
  const used = [...new Set(rank.values())].sort((a, b) => a - b);
  const place = new Map(used.map((r, i) => [r, i]));
  return new Map([...rank].map(([key, r]) => [key, place.get(r) as number]));
}

function group<T>(items: readonly T[], key: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const list = groups.get(key(item));
    if (list) list.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

// ---------------------------------------------------------------------------------------------- rows

type EdgeRoutes = ReadonlyMap<string, readonly Slot[]>;

/** Rows of nodes, and of the places where edges longer than one row pass. Edges of one bundle pass at the same place. */
function buildRows(
  nodes: readonly LayoutNode[],
  edges: readonly Down[],
  rank: ReadonlyMap<string, number>,
): { rows: Row[]; pieces: Piece[]; routes: EdgeRoutes } {
  const count = Math.max(-1, ...rank.values()) + 1;
  const rows: Row[] = Array.from({ length: count }, () => []);
  const slots = new Map<string, Slot>();
  const put = (key: string, row: number, width: number, height: number, real: boolean): Slot => {
    const slot: Slot = { key, width, height, real, row, order: rows[row]?.length ?? 0, x: 0 };
    slots.set(key, slot);
    rows[row]?.push(slot);
    return slot;
  };
  for (const node of nodes) put(node.key, rank.get(node.key) as number, node.width, node.height, true);
  const pieces: Piece[] = [];
  const routes = new Map<string, Slot[]>();
  const drawn = new Set<string>();
  for (const edge of edges) {
    const top = rank.get(edge.upper) as number;
    const bottom = rank.get(edge.lower) as number;
    const way = [slots.get(edge.upper) as Slot];
    for (let row = top + 1; row < bottom; row++) {
      const key = `·${edge.upper}·${edge.edge.bundle}·${row}`;
      way.push(slots.get(key) ?? put(key, row, LANE, 0, false));
    }
    way.push(slots.get(edge.lower) as Slot);
    routes.set(edge.edge.key, way);
    for (let i = 1; i < way.length; i++) {
      const [upper, lower] = [way[i - 1] as Slot, way[i] as Slot];
      const upperX = i === 1 ? edge.upperX : LANE / 2;
      const lowerX = i === way.length - 1 ? edge.lowerX : LANE / 2;
      const key = `${upper.key}\n${lower.key}\n${upperX}\n${lowerX}`;
      if (!drawn.has(key)) pieces.push({ upper, lower, upperX, lowerX });
      drawn.add(key);
    }
  }
  return { rows, pieces, routes };
}

// ---------------------------------------------------------------------------------------------- heights and routes

interface Top {
  readonly top: number;
  readonly height: number;
}

interface BandRanks {
  readonly key: string;
  readonly depth: number;
  readonly first: number;
  readonly last: number;
}

/** The ranks that each band spans; a scope that comes back later is two. */
function bandRanks(nodes: readonly LayoutNode[], rank: ReadonlyMap<string, number>): BandRanks[] {
  const found = new Map<string, { key: string; depth: number; first: number; last: number }>();
  for (const node of nodes) {
    const at = rank.get(node.key) as number;
    for (const [depth, key] of (node.bands ?? []).entries()) {
      const known = found.get(key);
      if (!known) found.set(key, { key, depth, first: at, last: at });
      else {
        known.first = Math.min(known.first, at);
        known.last = Math.max(known.last, at);
      }
    }
  }
  return [...found.values()];
}

function deepestAt(bands: readonly BandRanks[], first: number): number {
  return Math.max(-1, ...bands.filter((band) => band.first === first).map((band) => band.depth));
}

function deepestEnd(bands: readonly BandRanks[], last: number): number {
  return Math.max(-1, ...bands.filter((band) => band.last === last).map((band) => band.depth));
}

/** Rows under each other; further apart where many edges go sideways, and where bands begin. */
function rowTops(rows: readonly Row[], pieces: readonly Piece[], bands: readonly BandRanks[]): Top[] {
  const sideways = new Map<number, number>();
  for (const { upper, lower, upperX, lowerX } of pieces) {
    const { row } = upper;
    const run = Math.abs(upper.x + upperX - lower.x - lowerX);
    sideways.set(row, Math.max(sideways.get(row) ?? 0, Math.min(run, 600)));
  }
  const tops: Top[] = [];
  let y = 0;
  for (const [r, row] of rows.entries()) {
    const starting = bands.filter((band) => band.first === r);
    const heads = new Set(starting.map((band) => band.depth)).size;
    y += heads * BAND_HEAD + (heads > 0 ? BAND_FOOT : 0);
    const height = Math.max(0, ...row.map((slot) => slot.height));
    tops.push({ top: y, height });
    const ends = bands.some((band) => band.last === r) ? BAND_FOOT : 0;
    y += height + GAP_Y + ((sideways.get(r) ?? 0) * CROSSING_ROOM) / 60 + ends;
  }
  return tops;
}

function points(edge: Down, routes: EdgeRoutes, tops: readonly Top[]): Point[] {
  const way = routes.get(edge.edge.key) ?? [];
  const found: Point[] = [];
  for (const [i, slot] of way.entries()) {
    const { top, height } = tops[slot.row] as Top;
    const middle = top + height / 2;
    if (i === 0) found.push({ x: slot.x + edge.upperX, y: middle + slot.height / 2 });
    else if (i === way.length - 1) found.push({ x: slot.x + edge.lowerX, y: middle - slot.height / 2 });
    else found.push({ x: slot.x + LANE / 2, y: top }, { x: slot.x + LANE / 2, y: top + height });
  }
  return edge.flipped ? found.reverse() : found;
}
