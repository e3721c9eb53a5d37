/** The x axis: launches in their order, some of them folded together; the backward pass mirrored after a gap. */
import { lowerBound } from "./tracks.js";

export interface Fold {
  /** Stable name of a fold, to unfold it again. */
  readonly key: string;
  readonly first: number;
  /** Inclusive. */
  readonly last: number;
  readonly label: string;
}

/** Columns between the end of the forward pass and the start of the backward pass. */
export const GAP = 1;
/** A fold among many launches is some columns wide, so that it can be seen and hit where all of them are in view. */
const PER_FOLD_COLUMN = 12;
const WIDEST = 16;
const FEW_FOLDS = 12;

export class LaunchAxis {
  /** Number of columns of the forward pass. */
  readonly count: number;
  /** In order; none overlaps another. */
  readonly folds: readonly Fold[];
  /** Columns that each fold takes. */
  readonly foldWidth: number;
  private readonly foldFirsts: Int32Array;
  private readonly columnOf: Int32Array;
  private readonly firstOf: Int32Array;
  private readonly foldOf: ReadonlyMap<number, Fold>;

  constructor(
    readonly launches: number,
    folds: readonly Fold[] = [],
    /** True if there is a backward pass to show. */
    readonly mirrored = true,
  ) {
    this.folds = outermost(folds, launches);
    this.foldFirsts = Int32Array.from(this.folds, (fold) => fold.first);
    const shown = this.folds.reduce((rest, fold) => rest - (fold.last - fold.first + 1), launches);
    const wide = Math.min(WIDEST, Math.ceil(shown / PER_FOLD_COLUMN));
    this.foldWidth = this.folds.length <= FEW_FOLDS ? Math.max(1, wide) : 1;
    this.columnOf = new Int32Array(launches + 1);
    const first = new Int32Array(launches + 1 + this.folds.length * this.foldWidth);
    const foldOf = new Map<number, Fold>();
    let column = 0;
    let next = 0;
    for (let launch = 0; launch < launches; ) {
      const fold = this.folds[next]?.first === launch ? this.folds[next++] : undefined;
      if (!fold) {
        first[column] = launch;
        this.columnOf[launch++] = column++;
        continue;
      }
      this.columnOf.fill(column, launch, fold.last + 1);
      for (let i = 0; i < this.foldWidth; i++) {
        first[column] = launch;
        foldOf.set(column++, fold);
      }
      launch = fold.last + 1;
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

  /** First column of a launch; launch `launches` is the end of the forward pass. */
  of(launch: number): number {
    if (launch < 0) return 0;
    return this.columnOf[launch] ?? this.count;
  }

  /** The column after a launch and everything folded with it. */
  behind(launch: number): number {
    const column = this.of(launch);
    return Math.min(this.count, column + this.widthAt(column));
  }

  /** The column of a launch's forward event; -1 is the state before the tape. */
  forward(launch: number): number {
    if (launch < 0) return 0;
    const column = this.of(launch);
    return column + this.widthAt(column) / 2;
  }

  /** The column of a launch's backward event; -1 is the end of the backward pass. */
  backward(launch: number): number {
    return this.total - this.forward(launch);
  }

  /** First launch of a column (clamped to the tape); `launches` after its end. */
  firstLaunch(column: number): number {
    if (column <= 0) return 0;
    return this.firstOf[Math.min(Math.floor(column), this.count)] ?? this.launches;
  }

  /** First launch that is at least `step` columns after a column, and not in the same fold. */
  nextLaunch(column: number, step: number): number {
    const fold = this.fold(column);
    return fold ? fold.last + 1 : this.firstLaunch(column + step);
  }

  fold(column: number): Fold | null {
    return this.foldOf.size === 0 ? null : (this.foldOf.get(column) ?? null);
  }

  /** The fold that hides a launch, if one does. */
  foldHiding(launch: number): Fold | null {
    return this.fold(this.of(launch));
  }

  /** The folds that reach into a range of launches. */
  foldsWithin(first: number, last: number): readonly Fold[] {
    const from = Math.max(0, lowerBound(this.foldFirsts, first) - 1);
    return this.folds.slice(from, lowerBound(this.foldFirsts, last + 1)).filter((fold) => fold.last >= first);
  }

  /** The launch at a place of the axis and the pass it belongs to; null in the gap and outside. */
  at(u: number): { launch: number; column: number; backward: boolean } | null {
    if (!(u >= 0 && u < this.total)) return null;
    if (u < this.count) {
      const column = Math.floor(u);
      return { launch: this.firstLaunch(column), column, backward: false };
    }
    const column = Math.ceil(this.total - u) - 1;
    if (column >= this.count || column < 0) return null;
    return { launch: this.firstLaunch(column), column, backward: true };
  }

  private widthAt(column: number): number {
    return this.foldWidth > 1 && this.foldOf.has(column) ? this.foldWidth : 1;
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
