/** The x axis: launches in their order, some of them folded into one column; the backward pass mirrored behind a gap. */

export interface Fold {
  /** Stable name of what is folded, to unfold it again. */
  readonly key: string;
  readonly first: number;
  /** Inclusive. */
  readonly last: number;
  readonly label: string;
}

/** Columns between the end of the forward pass and the start of the backward pass. */
export const GAP = 1;

export class Columns {
  /** Number of columns of the forward pass. */
  readonly count: number;
  readonly folds: readonly Fold[];
  private readonly columnOf: Int32Array;
  private readonly firstOf: Int32Array;
  private readonly foldOf: ReadonlyMap<number, Fold>;

  constructor(
    readonly launches: number,
    folds: readonly Fold[] = [],
    /** Whether there is a backward pass to show. */
    readonly mirrored = true,
  ) {
    this.folds = outermost(folds, launches);
    this.columnOf = new Int32Array(launches + 1);
    const first = new Int32Array(launches + 1);
    const foldOf = new Map<number, Fold>();
    let column = 0;
    let next = 0;
    for (let launch = 0; launch < launches; column++) {
      const fold = this.folds[next]?.first === launch ? this.folds[next++] : undefined;
      const last = fold?.last ?? launch;
      if (fold) foldOf.set(column, fold);
      first[column] = launch;
      for (; launch <= last; launch++) this.columnOf[launch] = column;
    }
    this.count = column;
    this.columnOf[launches] = column;
    first[column] = launches;
    this.firstOf = first.subarray(0, column + 1);
    this.foldOf = foldOf;
  }

  /** Width of everything in columns. */
  get total(): number {
    return this.mirrored ? 2 * this.count + GAP : this.count;
  }

  /** Column of a launch; launch `launches` is the end of the forward pass. */
  of(launch: number): number {
    if (launch < 0) return 0;
    return this.columnOf[launch] ?? this.count;
  }

  /** Where the forward event of a launch is drawn, in columns; -1 is what was there before the tape. */
  forward(launch: number): number {
    return launch < 0 ? 0 : this.of(launch) + 0.5;
  }

  /** Where the backward event of a launch is drawn, in columns; -1 is the end of the backward pass. */
  backward(launch: number): number {
    return launch < 0 ? this.total : this.total - this.of(launch) - 0.5;
  }

  /** First launch of a column (clamped to the tape); `launches` behind its end. */
  firstLaunch(column: number): number {
    if (column <= 0) return 0;
    return this.firstOf[Math.min(Math.floor(column), this.count)] ?? this.launches;
  }

  fold(column: number): Fold | null {
    return this.foldOf.get(column) ?? null;
  }

  /** The fold that hides a launch, if one does. */
  foldHiding(launch: number): Fold | null {
    return this.fold(this.of(launch));
  }

  /** The launch at a place of the axis and the pass it belongs to; null in the gap and outside. */
  at(u: number): { launch: number; column: number; backward: boolean } | null {
    if (u < 0 || u >= this.total) return null;
    if (u < this.count) {
      const column = Math.floor(u);
      return { launch: this.firstLaunch(column), column, backward: false };
    }
    const column = Math.ceil(this.total - u) - 1;
    if (column >= this.count || column < 0) return null;
    return { launch: this.firstLaunch(column), column, backward: true };
  }
}

/** Folds in order and within the tape; where two overlap, the one that begins first (the longer one of two) stays. */
function outermost(folds: readonly Fold[], launches: number): Fold[] {
  const result: Fold[] = [];
  let end = -1;
  for (const fold of [...folds].sort((a, b) => a.first - b.first || b.last - a.last)) {
    if (fold.first <= end || fold.last < fold.first || fold.last >= launches) continue;
    result.push(fold);
    end = fold.last;
  }
  return result;
}
