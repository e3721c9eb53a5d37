/** Collects marks of one kind in a lane and draws them at once: single marks if they are apart, one run if they are crowded. */

/** Nearer together than this, in pixels, marks are one run. */
const TOUCHING = 1.5;

/** Marks with less room than this, in pixels, are drawn as a stripe. */
export const CROWDED = 3;

/** Rectangles of one height along a lane; those that touch are one. Given from the left to the right, or the other way. */
export class MergedSpans {
  private readonly edges: number[] = [];

  /** From one pixel to another; both ways of the axis. */
  add(from: number, to: number): void {
    const { edges } = this;
    const n = edges.length;
    if (n > 0) {
      const left = edges[n - 2] as number;
      const right = edges[n - 1] as number;
      if (from <= right + TOUCHING && to >= left - TOUCHING) {
        edges[n - 2] = Math.min(left, from);
        edges[n - 1] = Math.max(right, to);
        return;
      }
    }
    edges.push(from, to);
  }

  get empty(): boolean {
    return this.edges.length === 0;
  }

  /** On whole pixels: smoothed edges of hundreds of thin rectangles are what drawing without a GPU is slowest at. */
  fill(ctx: CanvasRenderingContext2D, style: string | CanvasPattern, top: number, height: number): void {
    const { edges } = this;
    if (edges.length === 0) return;
    ctx.fillStyle = style;
    for (let i = 0; i < edges.length; i += 2) {
      const from = Math.round(edges[i] as number);
      ctx.fillRect(from, top, Math.max(1, Math.round(edges[i + 1] as number) - from), height);
    }
  }
}

/** Marks along a lane in the order of the axis, each with a weight; `each` computes how much room each has. */
export class SpacedMarks {
  private readonly at: number[] = [];
  private readonly weights: number[] = [];

  add(px: number, weight = 0): void {
    this.at.push(px);
    this.weights.push(weight);
  }

  get empty(): boolean {
    return this.at.length === 0;
  }

  /** `room`: pixels to the nearest neighbour. */
  each(visit: (px: number, room: number, weight: number) => void): void {
    const { at, weights } = this;
    for (let i = 0; i < at.length; i++) {
      const px = at[i] as number;
      const left = i > 0 ? Math.abs(px - (at[i - 1] as number)) : Number.POSITIVE_INFINITY;
      const right = i + 1 < at.length ? Math.abs((at[i + 1] as number) - px) : Number.POSITIVE_INFINITY;
      visit(px, Math.min(left, right), weights[i] as number);
    }
  }
}
