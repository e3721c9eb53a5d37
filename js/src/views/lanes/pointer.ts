/** Pointers and the wheel on a canvas: hover, click, drag, pinch, zoom. */
import type { Lifetime } from "../state.js";

interface PointerActions {
  hover(px: number, py: number): void;
  leave(): void;
  click(px: number, py: number): void;
  doubleClick(px: number, py: number, out: boolean): void;
  /** Returns whether anything moved; if not, the wheel is left to the page. */
  pan(dx: number, dy: number): boolean;
  zoom(factor: number, px: number): void;
}

interface Point {
  readonly px: number;
  readonly py: number;
}

/** Pixels that a hand shakes in a click. */
const CLICK_TOLERANCE = 3;

export function bindPointer(canvas: HTMLCanvasElement, lifetime: Lifetime, actions: PointerActions): void {
  const fingers = new Map<number, Point>();
  let start: Point | null = null;
  let dragged = false;
  lifetime.listen(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const at = pointOf(event);
    fingers.set(event.pointerId, at);
    dragged = fingers.size > 1; // a second finger: what follows is a pinch, no click
    if (fingers.size === 1) start = at;
    canvas.setPointerCapture(event.pointerId);
  });
  lifetime.listen(canvas, "pointermove", (event) => {
    const now = pointOf(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      actions.hover(now.px, now.py);
      return;
    }
    dragged ||= start !== null && Math.hypot(now.px - start.px, now.py - start.py) > CLICK_TOLERANCE;
    if (!dragged) return;
    actions.leave();
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) pinch(before, now, other, actions);
    else actions.pan(before.px - now.px, before.py - now.py);
    fingers.set(event.pointerId, now);
  });
  lifetime.listen(canvas, "pointerup", (event) => {
    const { px, py } = pointOf(event);
    if (fingers.delete(event.pointerId) && !dragged) {
      actions.click(px, py);
      if (event.pointerType === "touch") actions.hover(px, py); // a finger cannot hover: a tap also shows the tooltip
    }
  });
  lifetime.listen(canvas, "pointercancel", (event) => void fingers.delete(event.pointerId));
  lifetime.listen(canvas, "pointerleave", () => actions.leave());
  lifetime.listen(canvas, "dblclick", (event) => actions.doubleClick(event.offsetX, event.offsetY, event.shiftKey));
  lifetime.listen(canvas, "wheel", (event) => onWheel(event, actions), { passive: false });
}

function pointOf(event: PointerEvent): Point {
  return { px: event.offsetX, py: event.offsetY };
}

/** One of two fingers moved: pans and zooms between them. */
function pinch(before: Point, now: Point, other: Point, actions: PointerActions): void {
  const apart = (point: Point): number => Math.max(10, Math.abs(point.px - other.px));
  actions.zoom(apart(now) / apart(before), (now.px + other.px) / 2);
  actions.pan((before.px - now.px) / 2, (before.py - now.py) / 2);
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
