/** What the pointer and the wheel do to a canvas: hover, click, drag, zoom. */
import type { Lifetime } from "../state.js";

export interface PointerActions {
  hover(px: number, py: number): void;
  leave(): void;
  click(px: number, py: number): void;
  doubleClick(px: number, py: number): void;
  /** Returns whether anything moved; if not, the wheel is left to the page. */
  pan(dx: number, dy: number): boolean;
  zoom(factor: number, px: number): void;
}

/** Pixels that a hand shakes in a click. */
const SHAKE = 3;

export function bindPointer(canvas: HTMLCanvasElement, lifetime: Lifetime, actions: PointerActions): void {
  let start: { px: number; py: number } | null = null;
  let last = { px: 0, py: 0 };
  let dragged = false;
  lifetime.listen(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    start = last = { px: event.offsetX, py: event.offsetY };
    dragged = false;
    canvas.setPointerCapture(event.pointerId);
  });
  lifetime.listen(canvas, "pointermove", (event) => {
    const now = { px: event.offsetX, py: event.offsetY };
    if (!start) {
      actions.hover(now.px, now.py);
      return;
    }
    dragged ||= Math.hypot(now.px - start.px, now.py - start.py) > SHAKE;
    if (!dragged) return;
    actions.leave();
    actions.pan(last.px - now.px, last.py - now.py);
    last = now;
  });
  lifetime.listen(canvas, "pointerup", (event) => {
    if (start && !dragged) actions.click(event.offsetX, event.offsetY);
    start = null;
  });
  lifetime.listen(canvas, "pointercancel", () => {
    start = null;
  });
  lifetime.listen(canvas, "pointerleave", () => actions.leave());
  lifetime.listen(canvas, "dblclick", (event) => actions.doubleClick(event.offsetX, event.offsetY));
  lifetime.listen(canvas, "wheel", (event) => onWheel(event, actions), { passive: false });
}

/** With ctrl (or a pinch) it zooms, sideways it pans; up and down scrolls what does not fit, else the page. */
function onWheel(event: WheelEvent, actions: PointerActions): void {
  const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
  if (event.ctrlKey || event.metaKey || event.altKey) {
    event.preventDefault();
    actions.zoom(Math.exp(-event.deltaY * unit * 0.004), event.offsetX);
    return;
  }
  const dx = (event.shiftKey && event.deltaX === 0 ? event.deltaY : event.deltaX) * unit;
  const dy = event.shiftKey ? 0 : event.deltaY * unit;
  if (actions.pan(dx, dy)) event.preventDefault();
}
