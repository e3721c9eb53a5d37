/** Finds the element under the pointer. */
import type { TraceModel } from "../../trace/model.js";
import type { TapeEvent, Version } from "../../trace/types.js";
import { short } from "../format.js";
import { launchLines, launchName, versionLines } from "../phrases.js";
import type { Bands } from "./bands.js";
import { type EventMarks, eventLines, hitEvents } from "./events.js";
import { type Geometry, laneAt, u, versionIndexAt, x, y } from "./geometry.js";
import { describeScope, type HeadHit, hitHead, inPlot, tapeEventsAt } from "./laneHeader.js";
import type { Fold } from "./launchAxis.js";
import { lowerBound, type Track } from "./tracks.js";

const NEAR = 7;

export interface Hit {
  readonly head: HeadHit | null;
  readonly lane: number;
  readonly track: Track | null;
  readonly launch: number | null;
  readonly column: number | null;
  readonly backward: boolean;
  /** The pointer is so near to a read or a write that it is the target. */
  readonly event: "read" | "write" | null;
  readonly version: Version | null;
  /** The fold in this column. */
  readonly fold: Fold | null;
  /** The event whose mark is hit. */
  readonly events: readonly TapeEvent[];
}

export function hitTest(
  geometry: Geometry,
  model: TraceModel,
  tracks: readonly Track[],
  bands: Bands,
  marks: EventMarks,
  px: number,
  py: number,
): Hit | null {
  const lane = laneAt(geometry, py);
  const track = tracks[lane] ?? null;
  if (!inPlot(geometry, px)) {
    const latest = track ? model.latest(track.array.id) : null;
    return (
      track && {
        head: null,
        lane,
        track,
        launch: null,
        column: null,
        backward: false,
        event: null,
        version: latest,
        fold: null,
        events: [],
      }
    );
  }
  const at = geometry.columns.at(u(geometry, px));
  const fold = at ? geometry.columns.fold(at.column) : null;
  const eventsOf = (array: number | null, middle: number): readonly TapeEvent[] =>
    hitEvents(geometry, marks.get(array) ?? [], middle, px, py);
  const events = track ? eventsOf(track.array.id, y(geometry, lane)) : eventsOf(null, tapeEventsAt(geometry));
  const place = {
    events,
    lane,
    launch: at?.launch ?? null,
    column: at?.column ?? null,
    backward: at?.backward ?? false,
    fold,
  };
  if (lane < 0) return { ...place, head: hitHead(geometry, bands, px, py), track: null, event: null, version: null };
  if (!track) return { ...place, head: null, track: null, event: null, version: null };
  return { ...place, head: null, track, ...onTrack(geometry, model, track, place, px) };
}

function onTrack(
  geometry: Geometry,
  model: TraceModel,
  track: Track,
  place: { launch: number | null; backward: boolean },
  px: number,
): Pick<Hit, "event" | "version"> & { launch: number | null } {
  const { launch, backward } = place;
  if (launch === null) return { launch, event: null, version: model.latest(track.array.id) };
  const centre = x(geometry, backward ? geometry.columns.backward(launch) : geometry.columns.forward(launch));
  const near = Math.abs(px - centre) <= NEAR;
  // Left of a launch's mark the version is still the one before it.
  const before = backward ? px > centre + NEAR : px < centre - NEAR;
  const alive = (at: number): Version | null => {
    const i = versionIndexAt(track, at);
    return i < 0 ? null : (model.versions(track.array.id, i, 1)[0] ?? null);
  };
  const version = alive(before ? launch - 1 : launch);
  const event = near ? eventAt(track, launch) : null;
  const read = event === "read" ? (alive(launch - 1) ?? version) : version;
  return { launch, event, version: read };
}

function eventAt(track: Track, launch: number): "read" | "write" | null {
  const { writes, reads } = track.life;
  if (writes[lowerBound(writes, launch)] === launch) return "write";
  return reads[lowerBound(reads, launch)] === launch ? "read" : null;
}

export function tooltipLines(model: TraceModel, hit: Hit): string[] {
  const { head, track, version } = hit;
  if (hit.events.length > 0) return eventLines(model, hit.events);
  if (head?.kind === "scope") return [describeScope(head.scope), "click folds or unfolds"];
  if (head?.kind === "sequence") {
    const { first, length, count } = head.sequence;
    return [`${length} launches repeated ${count} times, from launch ${first}`, "click folds or unfolds"];
  }
  if (head && hit.fold)
    return [`launches ${hit.fold.first} to ${hit.fold.last} are folded`, "click the band below to unfold"];
  if (head) {
    const launch = model.launch(hit.launch);
    return launch ? launchLines(model, launch, hit.backward) : [];
  }
  if (track && hit.fold)
    return [
      `${short(track.array.label, 48)}, launches ${hit.fold.first} to ${hit.fold.last}`,
      "folded; click the band above to unfold",
      ...foldLines(track, hit.fold),
    ];
  if (!track || !version) return [];
  const lines = versionLines(model, version);
  if (hit.event && hit.launch !== null) {
    const verb = hit.event === "write" ? "writes" : "reads";
    lines.unshift(`${launchName(model, hit.launch)} ${hit.backward ? "reversed: it " : ""}${verb}`);
  }
  return lines;
}

function foldLines(track: Track, { first, last }: Fold): string[] {
  const within = (sorted: Int32Array): number => lowerBound(sorted, last + 1) - lowerBound(sorted, first);
  const { writes, reads, lost, preserved } = track.life;
  const counts: [number, string][] = [
    [within(writes), "written"],
    [within(reads), "read"],
    [within(lost.first), "lost"],
    [within(preserved.first), "kept"],
  ];
  return counts.filter(([count]) => count > 0).map(([count, what]) => `${what} ${count} ×`);
}
