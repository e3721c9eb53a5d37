/** Pointer and wheel on the drawing: hover, click, drag, zoom; the same gestures as in the lanes. */
import type { Lifetime } from "../state.js";

/** Return the element of the drawing at a place. */
export interface Target {
  readonly node: string | null;
  readonly port: number | null;
  readonly edge: string | null;
  readonly band: string | null;
  /** On the head of the band. */
  readonly head: boolean;
}

interface PointerActions {
  hover(target: Target | null, px: number, py: number): void;
  leave(): void;
  click(target: Target | null): void;
  doubleClick(target: Target | null): void;
  /** Returns whether anything moved; if not, the wheel is left to the page. */
  pan(dx: number, dy: number): boolean;
  zoom(factor: number, px: number, py: number): void;
}

/** Pixels that a hand shakes in a click. */
const CLICK_TOLERANCE = 3;

function targetOf(at: EventTarget | null): Target | null {
  if (!(at instanceof Element)) return null;
  const node = at.closest("[data-node]")?.getAttribute("data-node") ?? null;
  const port = at.closest("[data-port]")?.getAttribute("data-port") ?? null;
  const edge = at.closest("[data-edge]")?.getAttribute("data-edge") ?? null;
  const band = at.closest("[data-band]")?.getAttribute("data-band") ?? null;
  if (node === null && edge === null && band === null) return null;
  return { node, port: port === null ? null : Number(port), edge, band, head: at.closest(".td-g-bandhead") !== null };
}

export function bindPointer(element: SVGElement, lifetime: Lifetime, actions: PointerActions): void {
  let start: { px: number; py: number } | null = null;
  let last = { px: 0, py: 0 };
  let dragged = false;
  const place = (event: MouseEvent): { px: number; py: number } => {
    const box = element.getBoundingClientRect();
    return { px: event.clientX - box.left, py: event.clientY - box.top };
  };
  const listen = <K extends keyof SVGElementEventMap>(
    type: K,
    listener: (event: SVGElementEventMap[K]) => void,
    options?: AddEventListenerOptions,
  ): void => {
    element.addEventListener(type, listener, options);
    lifetime.add(() => element.removeEventListener(type, listener, options));
  };
  listen("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = last = place(event);
    dragged = false;
  });
  listen("pointermove", (event) => {
    const now = place(event);
    if (!start) {
      actions.hover(targetOf(event.target), now.px, now.py);
      return;
    }
    if (!dragged && Math.hypot(now.px - start.px, now.py - start.py) > CLICK_TOLERANCE) {
      dragged = true;
      element.setPointerCapture(event.pointerId);
      element.classList.add("td-g-dragged");
    }
    if (!dragged) return;
    actions.leave();
    actions.pan(last.px - now.px, last.py - now.py);
    last = now;
  });
  const end = (): void => {
    start = null;
    element.classList.remove("td-g-dragged");
  };
  listen("pointerup", end);
  // Not on "pointerup": what a screen reader activates is clicked without a pointer.
  listen("click", (event) => {
    if (!dragged) actions.click(targetOf(event.target));
    dragged = false;
  });
  listen("pointercancel", end);
  listen("pointerleave", () => {
    actions.leave();
    if (!dragged) end();
  });
  listen("dblclick", (event) => actions.doubleClick(targetOf(event.target)));
  listen(
    "wheel",
    (event) => {
      const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      actions.leave();
      if (event.ctrlKey || event.metaKey || event.altKey) {
        event.preventDefault();
        const { px, py } = place(event);
        actions.zoom(Math.exp(-event.deltaY * unit * 0.004), px, py);
        return;
      }
      const sideways = event.shiftKey && event.deltaX === 0;
      if (actions.pan((sideways ? event.deltaY : event.deltaX) * unit, sideways ? 0 : event.deltaY * unit)) {
        event.preventDefault();
      }
    },
    { passive: false },
  );
}
