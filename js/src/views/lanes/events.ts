/** Events around the tape that are no launches, as small marks below the lanes: off-tape writes, reads, resets. */
import type { TraceModel } from "../../trace/model.js";
import type { EventKind, TapeEvent } from "../../trace/types.js";
import { number, place, plural, short } from "../format.js";
import { BAR, type Geometry, x } from "./geometry.js";
import { GAP } from "./launchAxis.js";
import type { Scene } from "./paint.js";

/** `pass`: between the passes; `after`: when the reverse pass had run. */
type Phase = "forward" | "pass" | "after";

export interface EventMark {
  /** The launch before which it happened; the number of launches if it happened after all of them. */
  readonly at: number;
  readonly phase: Phase;
  readonly events: readonly TapeEvent[];
}

/** Marks by the array that they belong to, in the order of the axis; those of the tape itself have the key null. */
export type EventMarks = ReadonlyMap<number | null, readonly EventMark[]>;

const BELOW = BAR / 2 + 6;
const SIZE = 3.5;
const NEAR = 6;
/** Marks nearer to each other, in pixels, are drawn as one. */
const MERGED = 5;
const MOST_IN_TOOLTIP = 4;
/** A recorder keeps a thousand events; the work of a frame must have a limit. */
const MOST_EVENTS = 20_000;

export function buildEvents(model: TraceModel): EventMarks {
  const events = model.trace.events.slice(0, MOST_EVENTS);
  const count = model.launchCount;
  const pass = events.find((event) => event.kind === "backward" && event.of === "tape");
  const phaseOf = (event: TapeEvent): Phase => {
    if (!pass || event.at < count || event.clock < pass.clock) return "forward";
    return event.kind === "backward" ? "pass" : "after";
  };
  const marks = new Map<number | null, Map<string, { at: number; phase: Phase; events: TapeEvent[] }>>();
  for (const event of events) {
    const at = Math.min(count, event.at);
    const phase = phaseOf(event);
    const key = `${phase} ${at}`;
    const lane = marks.get(event.array) ?? new Map();
    marks.set(event.array, lane);
    const mark = lane.get(key);
    if (mark) mark.events.push(event);
    else lane.set(key, { at, phase, events: [event] });
  }
  const rank = { forward: 0, pass: 1, after: 2 };
  return new Map(
    [...marks].map(([array, lane]) => [
      array,
      [...lane.values()].sort((a, b) => rank[a.phase] - rank[b.phase] || a.at - b.at),
    ]),
  );
}

function placeOf(geometry: Geometry, { at, phase }: EventMark): number {
  const { columns } = geometry;
  if (!columns.mirrored || phase === "forward") return x(geometry, columns.of(at));
  return x(geometry, phase === "pass" ? columns.count + GAP / 2 : columns.total);
}

/** Visits marks that can be seen, those in one place together. */
function eachMark(
  geometry: Geometry,
  marks: readonly EventMark[],
  visit: (px: number, events: readonly TapeEvent[]) => void,
): void {
  let place = Number.NEGATIVE_INFINITY;
  let together: TapeEvent[] = [];
  for (const mark of marks) {
    const px = placeOf(geometry, mark);
    if (px < geometry.gutter - NEAR) continue;
    if (px - place >= MERGED) {
      if (together.length > 0) visit(place, together);
      if (px > geometry.width + NEAR) return;
      place = px;
      together = [];
    }
    together.push(...mark.events);
  }
  if (together.length > 0) visit(place, together);
}

export function paintEvents(
  ctx: CanvasRenderingContext2D,
  { geometry, palette }: Scene,
  marks: readonly EventMark[],
  middle: number,
): void {
  ctx.lineWidth = 1.25;
  eachMark(geometry, marks, (px, events) => {
    const [event] = events as [TapeEvent];
    const colour = event.of === "gradient" ? palette.adj : palette.fg;
    ctx.fillStyle = palette.bg;
    ctx.strokeStyle = colour;
    ctx.beginPath();
    outline(ctx, event.kind, px, middle + BELOW);
    ctx.fill();
    ctx.stroke();
    if (events.length === 1) return;
    ctx.fillStyle = colour; // filled: more than one
    ctx.fill();
  });
}

/** Up: a read. Down: a write. A square: set to one value. Sideways: a reverse pass. */
function outline(ctx: CanvasRenderingContext2D, kind: EventKind, px: number, py: number): void {
  const s = SIZE;
  const corners: Readonly<Record<EventKind, readonly (readonly [number, number])[]>> = {
    read: [
      [0, -s],
      [s, s],
      [-s, s],
    ],
    write: [
      [0, s],
      [s, -s],
      [-s, -s],
    ],
    zero: [
      [-s, -s],
      [s, -s],
      [s, s],
      [-s, s],
    ],
    backward: [
      [-s, 0],
      [s, -s],
      [s, s],
    ],
    reset: [
      [0, -s - 1],
      [s + 1, 0],
      [0, s + 1],
      [-s - 1, 0],
    ],
  };
  for (const [i, [dx, dy]] of corners[kind].entries()) {
    if (i === 0) ctx.moveTo(px + dx, py + dy);
    else ctx.lineTo(px + dx, py + dy);
  }
  ctx.closePath();
}

/** The events under the pointer, of a lane whose middle is at `middle`. */
export function hitEvents(
  geometry: Geometry,
  marks: readonly EventMark[],
  middle: number,
  px: number,
  py: number,
): readonly TapeEvent[] {
  let hit: readonly TapeEvent[] = [];
  if (Math.abs(py - middle - BELOW) > NEAR) return hit;
  eachMark(geometry, marks, (at, events) => {
    if (Math.abs(at - px) <= NEAR) hit = events;
  });
  return hit;
}

/** One event as a sentence. */
export function eventText(model: TraceModel, event: TapeEvent): string {
  const { kind, of, how, numbers, again, settled } = event;
  const label = short(model.array(event.array)?.label ?? "an array", 40);
  const what = of === "gradient" ? `gradient of ${label}` : label;
  const by = how === "" ? "" : ` (${short(how, 30)})`;
  const norm = (name: string): string => number(numbers[name] ?? null);
  switch (kind) {
    case "backward":
      if (of === "tape") {
        const same = again ? ", from the same loss and seeds as the one before" : "";
        return `reverse pass ${numbers.pass ?? ""} begins${same}`;
      }
      if (numbers.norm_before === undefined) return `${what}: the reverse pass adds to it`;
      return `${what} was not zero when the pass began: ‖·‖ ${norm("norm_before")} → ${norm("norm_after")}`;
    case "zero":
      return `${what} set to one value${by}`;
    case "read":
      return `${what} read${by}${numbers.norm === undefined ? "" : `: ‖·‖ ${norm("norm")}`}`;
    case "write":
      return `${what} written outside the tape${by}${settled ? ", after a reverse pass: an optimiser's step, most likely" : ""}`;
    case "reset":
      return "the tape forgot what it had recorded";
  }
}

/** When it happened, and from where. */
export function eventPlace(model: TraceModel, event: TapeEvent): string {
  const when = event.at >= model.launchCount ? "after the last launch" : `before launch ${event.at}`;
  return event.callSite === null
    ? when
    : `${when} · ${place(event.callSite)} ${short(event.callSite.function, 30)}`.trim();
}

/** The lines of a tooltip about events. */
export function eventLines(model: TraceModel, events: readonly TapeEvent[]): string[] {
  const lines = events
    .slice(0, MOST_IN_TOOLTIP)
    .flatMap((event) => [eventText(model, event), eventPlace(model, event)]);
  const more = events.length - MOST_IN_TOOLTIP;
  return more > 0 ? [...lines, `and ${plural(more, "event")} more here`] : lines;
}
