/** The order within each row: barycentres of ports, swept down and up, and the best of all that was seen. */
import type { Piece, Slot } from "./layout.js";

export type Row = Slot[];

const SWEEPS = 10;

export function orderRows(rows: readonly Row[], pieces: readonly Piece[]): void {
  const below = new Map<Slot, Piece[]>();
  const above = new Map<Slot, Piece[]>();
  const gaps: Piece[][] = rows.map(() => []);
  for (const piece of pieces) {
    push(below, piece.upper, piece);
    push(above, piece.lower, piece);
    gaps[piece.upper.row]?.push(piece);
  }
  let best = snapshot(rows);
  let fewest = Number.POSITIVE_INFINITY;
  for (let sweep = 0; sweep <= SWEEPS; sweep++) {
    if (sweep > 0) {
      const down = sweep % 2 === 1;
      for (const row of down ? rows : [...rows].reverse()) sortRow(row, down ? above : below, down);
      for (const row of rows) transpose(row, above, below);
    }
    const crossings = gaps.reduce((sum, gap) => sum + countCrossings(gap), 0);
    if (crossings < fewest) {
      fewest = crossings;
      best = snapshot(rows);
    }
    if (fewest === 0) break;
  }
  for (const [r, row] of rows.entries()) {
    row.splice(0, row.length, ...(best[r] as Row));
    renumber(row);
  }
}

function push(map: Map<Slot, Piece[]>, key: Slot, piece: Piece): void {
  const list = map.get(key);
  if (list) list.push(piece);
  else map.set(key, [piece]);
}

function snapshot(rows: readonly Row[]): Row[] {
  return rows.map((row) => [...row]);
}

function renumber(row: Row): void {
  for (const [i, slot] of row.entries()) slot.order = i;
}

/** The end of a piece in its row: the number of the slot, and the position of the port in it. */
function upperAt({ upper, upperX }: Piece): number {
  return upper.order + (0.9 * upperX) / Math.max(1, upper.width);
}

function lowerAt({ lower, lowerX }: Piece): number {
  return lower.order + (0.9 * lowerX) / Math.max(1, lower.width);
}

/** Slots without neighbours stay where they are. */
function sortRow(row: Row, neighbours: ReadonlyMap<Slot, Piece[]>, down: boolean): void {
  const wanted = new Map<Slot, number>();
  for (const slot of row) {
    const pieces = neighbours.get(slot) ?? [];
    const sum = pieces.reduce((total, piece) => total + (down ? upperAt(piece) : lowerAt(piece)), 0);
    wanted.set(slot, pieces.length > 0 ? sum / pieces.length : slot.order);
  }
  row.sort((a, b) => (wanted.get(a) as number) - (wanted.get(b) as number) || a.order - b.order);
  renumber(row);
}

/** Swaps neighbours in a row where that takes away crossings. */
function transpose(row: Row, above: ReadonlyMap<Slot, Piece[]>, below: ReadonlyMap<Slot, Piece[]>): void {
  for (let i = 1; i < row.length; i++) {
    const [a, b] = [row[i - 1] as Slot, row[i] as Slot];
    const upper = [(above.get(a) ?? []).map(upperAt), (above.get(b) ?? []).map(upperAt)] as const;
    const lower = [(below.get(a) ?? []).map(lowerAt), (below.get(b) ?? []).map(lowerAt)] as const;
    const now = inverted(upper[0], upper[1]) + inverted(lower[0], lower[1]);
    const then = inverted(upper[1], upper[0]) + inverted(lower[1], lower[0]);
    if (then >= now) continue;
    row[i - 1] = b;
    row[i] = a;
    renumber(row);
  }
}

function inverted(left: readonly number[], right: readonly number[]): number {
  let count = 0;
  for (const a of left) for (const b of right) if (a > b) count++;
  return count;
}

/** Pairs of pieces between two rows that cross: inversions, counted while merging. */
function countCrossings(pieces: readonly Piece[]): number {
  const ends = pieces
    .map((piece) => [upperAt(piece), lowerAt(piece)] as const)
    .sort((a, b) => a[0] - b[0] || a[1] - b[1])
    .map(([, lower]) => lower);
  const count = (from: number, to: number): number => {
    if (to - from < 2) return 0;
    const middle = (from + to) >> 1;
    let found = count(from, middle) + count(middle, to);
    const left = ends.slice(from, middle);
    const right = ends.slice(middle, to);
    for (let at = from, i = 0, j = 0; at < to; at++) {
      const takeRight = j < right.length && (i >= left.length || (right[j] as number) < (left[i] as number));
      if (takeRight) {
        found += left.length - i;
        ends[at] = right[j++] as number;
      } else ends[at] = left[i++] as number;
    }
    return found;
  };
  return count(0, ends.length);
}
