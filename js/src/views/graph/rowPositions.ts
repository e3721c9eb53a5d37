/**
 * How far right everything goes in its order. Each row in turn is put as near as possible (least squares) to what its neighbours
 * ask for, with room between; that is an isotonic regression, solved by pooling adjacent violators: R. E. Barlow et al.,
 * "Statistical Inference under Order Restrictions" (1972).
 */
import type { Piece, Slot } from "./layout.js";
import type { Row } from "./rowOrder.js";

const GAP_X = 22;
const SWEEPS = 12;
/** Long edges are straight before boxes are centred. */
const STRAIGHT = 4;

export function placeRows(rows: readonly Row[], pieces: readonly Piece[]): void {
  const around = new Map<Slot, { mine: number; other: Slot; theirs: number; weight: number; above: boolean }[]>();
  const note = (slot: Slot, mine: number, other: Slot, theirs: number, above: boolean): void => {
    const weight = slot.real && other.real ? 1 : slot.real || other.real ? 1.5 : STRAIGHT;
    const list = around.get(slot);
    if (list) list.push({ mine, other, theirs, weight, above });
    else around.set(slot, [{ mine, other, theirs, weight, above }]);
  };
  for (const { upper, lower, upperX, lowerX } of pieces) {
    note(upper, upperX, lower, lowerX, false);
    note(lower, lowerX, upper, upperX, true);
  }
  for (const row of rows) pack(row);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const last = sweep >= SWEEPS - 2;
    for (const row of down ? rows : [...rows].reverse()) {
      settle(row, (slot) => {
        const all = around.get(slot) ?? [];
        const side = all.filter((end) => end.above === down);
        const ends = last || side.length === 0 ? all : side;
        const weight = ends.reduce((sum, end) => sum + end.weight, 0);
        if (weight === 0) return { at: slot.x, weight: 0.05 };
        const sum = ends.reduce((total, end) => total + end.weight * (end.other.x + end.theirs - end.mine), 0);
        return { at: sum / weight, weight };
      });
    }
  }
  straighten(rows, pieces);
}

/**
 * Long edges run straight down where nothing is in the way: over as many rows as have room at the same place, best where the
 * edge ends or begins.
 */
function straighten(rows: readonly Row[], pieces: readonly Piece[]): void {
  const below = new Map(pieces.filter(({ upper, lower }) => !upper.real && !lower.real).map((p) => [p.upper, p.lower]));
  const inner = new Set(below.values());
  const ends = new Map<Slot, number>();
  for (const { upper, lower, upperX, lowerX } of pieces) {
    if (!lower.real && upper.real) ends.set(lower, upper.x + upperX - lowerX);
    if (!upper.real && lower.real) ends.set(upper, lower.x + lowerX - upperX);
  }
  for (const first of below.keys()) {
    if (inner.has(first)) continue;
    let run: Slot[] = [];
    let room = { low: Number.NEGATIVE_INFINITY, high: Number.POSITIVE_INFINITY };
    for (let slot: Slot | undefined = first; slot; slot = below.get(slot)) {
      const own = roomOf(rows[slot.row] as Row, slot);
      const both = { low: Math.max(room.low, own.low), high: Math.min(room.high, own.high) };
      if (both.low > both.high) {
        align(run, room, ends);
        run = [];
        room = own;
      } else room = both;
      run.push(slot);
    }
    align(run, room, ends);
  }
}

function roomOf(row: Row, slot: Slot): { low: number; high: number } {
  const [before, after] = [row[slot.order - 1], row[slot.order + 1]];
  return {
    low: before ? before.x + before.width + gap(before, slot) : Number.NEGATIVE_INFINITY,
    high: after ? after.x - slot.width - gap(slot, after) : Number.POSITIVE_INFINITY,
  };
}

function align(
  run: readonly Slot[],
  { low, high }: { low: number; high: number },
  ends: ReadonlyMap<Slot, number>,
): void {
  const [first, last] = [run[0], run.at(-1)];
  if (!first || !last) return;
  const wished = [ends.get(last), ends.get(first)].filter((x) => x !== undefined);
  const mean = run.reduce((sum, slot) => sum + slot.x, 0) / run.length;
  const at = wished.find((x) => x >= low && x <= high) ?? Math.max(low, Math.min(high, mean));
  for (const slot of run) slot.x = at;
}

function gap(a: Slot, b: Slot): number {
  return a.real || b.real ? GAP_X : 4;
}

function pack(row: Row): void {
  let x = 0;
  for (const [i, slot] of row.entries()) {
    if (i > 0) x += gap(row[i - 1] as Slot, slot);
    slot.x = x;
    x += slot.width;
  }
  for (const slot of row) slot.x -= x / 2;
}

interface Block {
  sum: number;
  weight: number;
  count: number;
}

/** Keeps the order and the gaps; within that, each is as near as possible to its preferred place. */
function settle(row: Row, wish: (slot: Slot) => { at: number; weight: number }): void {
  const offsets: number[] = [];
  const blocks: Block[] = [];
  let offset = 0;
  for (const [i, slot] of row.entries()) {
    const before = row[i - 1];
    if (before) offset += before.width + gap(before, slot);
    offsets.push(offset);
    const { at, weight } = wish(slot);
    blocks.push({ sum: (at - offset) * weight, weight, count: 1 });
    while (blocks.length > 1) {
      const [a, b] = [blocks[blocks.length - 2] as Block, blocks[blocks.length - 1] as Block];
      if (a.sum / a.weight <= b.sum / b.weight) break;
      blocks.pop();
      a.sum += b.sum;
      a.weight += b.weight;
      a.count += b.count;
    }
  }
  let i = 0;
  for (const block of blocks) {
    for (let k = 0; k < block.count; k++, i++) (row[i] as Slot).x = block.sum / block.weight + (offsets[i] as number);
  }
}
