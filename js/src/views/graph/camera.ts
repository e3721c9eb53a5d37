/** Which part of a drawing is in view, and how large. */

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

const LEAST = 0.08;
const MOST = 3;
/** Below this scale, names are unreadable. */
const READABLE = 0.72;
const MARGIN = 16;

export class Camera {
  scale = 1;
  /** Screen position of the drawing's origin. */
  x = 0;
  y = 0;
  private size = { width: 0, height: 0 };
  private drawing = { width: 0, height: 0 };

  resize(width: number, height: number): void {
    this.size = { width, height };
  }

  get ready(): boolean {
    return this.size.width > 0 && this.size.height > 0;
  }

  contain(width: number, height: number): void {
    this.drawing = { width, height };
  }

  private fitScale(most: number): number {
    const { width, height } = this.size;
    const across = (width - 2 * MARGIN) / Math.max(1, this.drawing.width);
    const down = (height - 2 * MARGIN) / Math.max(1, this.drawing.height);
    return Math.max(LEAST, Math.min(most, across, down));
  }

  /** Everything in view. */
  fit(): void {
    this.scale = this.fitScale(1.25);
    this.x = (this.size.width - this.drawing.width * this.scale) / 2;
    this.y = (this.size.height - this.drawing.height * this.scale) / 2;
  }

  /** Everything in view if that can be read; else as much as can be, around `focus` or from the top on. */
  open(focus: Box | null): void {
    if (this.fitScale(1.25) >= READABLE) {
      this.fit();
      return;
    }
    const { width, height } = this.size;
    this.scale = Math.max(READABLE, Math.min(1, (width - 2 * MARGIN) / Math.max(1, this.drawing.width)));
    const box = focus ?? { x: 0, y: 0, width: this.drawing.width, height: 0 };
    this.x = width / 2 - (box.x + box.width / 2) * this.scale;
    this.y = focus ? height / 2 - (box.y + box.height / 2) * this.scale : MARGIN;
    this.clamp();
  }

  zoom(factor: number, px = this.size.width / 2, py = this.size.height / 2): void {
    const scale = Math.max(LEAST, Math.min(MOST, this.scale * factor));
    this.x = px - ((px - this.x) * scale) / this.scale;
    this.y = py - ((py - this.y) * scale) / this.scale;
    this.scale = scale;
    this.clamp();
  }

  /** Returns whether anything moved. */
  pan(dx: number, dy: number): boolean {
    const { x, y } = this;
    this.x -= dx;
    this.y -= dy;
    this.clamp();
    return x !== this.x || y !== this.y;
  }

  /** Moves as little as brings a box into view. */
  reveal(box: Box): void {
    const move = (at: number, from: number, extent: number, room: number): number => {
      const start = at + from * this.scale;
      const end = start + extent * this.scale;
      if (end - start > room - 2 * MARGIN) return at + (room - end - start) / 2;
      if (start < MARGIN) return at + MARGIN - start;
      return end > room - MARGIN ? at + room - MARGIN - end : at;
    };
    this.x = move(this.x, box.x, box.width, this.size.width);
    this.y = move(this.y, box.y, box.height, this.size.height);
  }

  /** Some of the drawing stays in view; what fits as a whole is not pushed out. */
  private clamp(): void {
    const keep = (at: number, extent: number, room: number): number => {
      const free = room - extent * this.scale;
      const low = Math.min(free - room * 0.3, 0, free);
      const high = Math.max(room * 0.3, 0, free);
      return free >= 0 ? Math.max(0, Math.min(free, at)) : Math.max(low, Math.min(high, at));
    };
    this.x = keep(this.x, this.drawing.width, this.size.width);
    this.y = keep(this.y, this.drawing.height, this.size.height);
  }
}
