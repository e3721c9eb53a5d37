/** The comparison of two tapes (`tapedebug/report/_diff/data.py`), checked. Pure. */
import { isRecord } from "../../trace/reader.js";

export const KINDS = ["gone", "new", "still", "gradient", "check", "values", "note"] as const;
export type RowKind = (typeof KINDS)[number];

/** One for before, one for after. */
export type Both<T> = readonly [T, T];

export interface DiffRow {
  readonly kind: RowKind;
  readonly text: string;
  /** The launch that it is about, null if there is none. */
  readonly launches: Both<number | null>;
  /** Ids of findings. */
  readonly findings: Both<number | null>;
}

export interface DiffData {
  readonly names: Both<string>;
  readonly overview: readonly (readonly [string, string])[];
  readonly rows: readonly DiffRow[];
  readonly partners: Partners;
}

/** Which launches of two tapes are the same: runs `[before, after, length]`, in order on both sides. */
export class Partners {
  private readonly runs: readonly (readonly [number, number, number])[];

  constructor(raw: unknown) {
    const runs: [number, number, number][] = [];
    let [a, b] = [0, 0];
    for (const item of Array.isArray(raw) ? raw : []) {
      if (!Array.isArray(item) || item.length !== 3 || !item.every((n) => Number.isSafeInteger(n))) continue;
      const [before, after, length] = item as [number, number, number];
      if (before < a || after < b || length < 1) continue;
      runs.push([before, after, length]);
      [a, b] = [before + length, after + length];
    }
    this.runs = runs;
  }

  /** The same launch of the other tape; null if it has none. `side` 0: `launch` is one of before. */
  of(side: 0 | 1, launch: number): number | null {
    let [low, high] = [0, this.runs.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const run = this.runs[middle];
      if (run === undefined) return null;
      const offset = launch - run[side];
      if (offset < 0) high = middle - 1;
      else if (offset >= run[2]) low = middle + 1;
      else return run[side === 0 ? 1 : 0] + offset;
    }
    return null;
  }
}

export function readDiff(raw: unknown): DiffData | null {
  if (!isRecord(raw) || !Array.isArray(raw.names) || !Array.isArray(raw.rows)) return null;
  return {
    names: [String(raw.names[0] ?? "before"), String(raw.names[1] ?? "after")],
    overview: (Array.isArray(raw.overview) ? raw.overview : [])
      .filter((row): row is [unknown, unknown] => Array.isArray(row) && row.length === 2)
      .map(([name, text]) => [String(name), String(text)] as const),
    rows: raw.rows.filter(isRecord).map((row) => ({
      kind: KINDS.find((kind) => kind === row.kind) ?? "note",
      text: String(row.text ?? ""),
      launches: indices(row.launches),
      findings: indices(row.findings),
    })),
    partners: new Partners(raw.matches),
  };
}

function indices(raw: unknown): Both<number | null> {
  const list: unknown[] = Array.isArray(raw) ? raw : [];
  const index = (value: unknown): number | null =>
    typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
  return [index(list[0]), index(list[1])];
}
