/** Findings in the lanes: a sign at the first place of each, and an arc for overwrites that the versions do not show. */
import { LOST, PRESERVED } from "../../trace/columns.js";
import type { TraceModel } from "../../trace/model.js";
import type { Finding, Severity } from "../../trace/types.js";
import { findingPlace } from "../findingPlace.js";
import { short } from "../format.js";
import { messageParts, SEVERITY_SIGNS } from "../phrases.js";
import { BAR, type Geometry, x, y } from "./geometry.js";
import type { Scene } from "./paint.js";
import type { Tone } from "./palette.js";
import type { Track } from "./tracks.js";

export interface FindingMark {
  readonly finding: Finding;
  /** Null: before the first launch. */
  readonly launch: number | null;
  /** Null: above the lanes. */
  readonly array: number | null;
  /**
   * From a reader to the launch that overwrote it, if no version is marked as lost or preserved there: another finding hides
   * it.
   */
  readonly arc: readonly [reader: number, overwriter: number] | null;
}

/** The most signs in a picture; the worst ones come first. */
const MOST_MARKS = 500;
const RADIUS = 5.5;
const NEAR = 8;
/** Pixels between two signs of a lane. */
const APART = 12;

export const TONES: Readonly<Record<Severity, Tone>> = { error: "red", warning: "amber", info: "fg-2" };

export function buildFindingMarks(model: TraceModel): readonly FindingMark[] {
  return model.findings.slice(0, MOST_MARKS).map((finding) => {
    const { launch, array, pair } = findingPlace(model, finding);
    return { finding, launch, array, arc: pair && array !== null && !isShown(model, array, pair[1]) ? pair : null };
  });
}

/** True if a version of the array records that this launch overwrote needed values. */
function isShown(model: TraceModel, array: number, overwriter: number): boolean {
  const { of, overwrittenBy, status } = model.columns.versions;
  for (let v = of[array] as number; v < (of[array + 1] as number); v++) {
    if (overwrittenBy[v] === overwriter && (status[v] === LOST || status[v] === PRESERVED)) return true;
  }
  return false;
}

interface Sign {
  readonly px: number;
  readonly py: number;
  /** Findings near enough to share one sign, worst first. */
  readonly findings: Finding[];
}

/** The signs that can be seen. */
export function findingSigns(
  geometry: Geometry,
  tracks: readonly Track[],
  marks: readonly FindingMark[],
): readonly Sign[] {
  const lanes = new Map(tracks.map((track, lane) => [track.array.id, lane]));
  const signs: Sign[] = [];
  for (const { finding, launch, array } of marks) {
    const lane = array === null ? undefined : lanes.get(array);
    const px = signPlace(geometry, launch);
    const py = lane === undefined ? geometry.head - RADIUS : y(geometry, lane) + BAR / 2 + below(geometry);
    if (px < geometry.gutter - 2 || px > geometry.width + RADIUS) continue;
    if (py < geometry.head - RADIUS - 1 || py > geometry.height + RADIUS) continue;
    const near = signs.find((sign) => sign.py === py && Math.abs(sign.px - px) < APART);
    if (near) near.findings.push(finding);
    else signs.push({ px, py, findings: [finding] });
  }
  return signs;
}

function below({ lane }: Geometry): number {
  return Math.min(9, (lane - BAR) / 2 - 1);
}

/** Beside the middle of a fold there stands how much trouble is in it. */
function signPlace(geometry: Geometry, launch: number | null): number {
  const { columns } = geometry;
  if (launch === null) return x(geometry, 0) + RADIUS;
  const middle = x(geometry, columns.forward(launch));
  return columns.foldHiding(launch) === null ? middle : middle - 24;
}

export function paintFindings(ctx: CanvasRenderingContext2D, scene: Scene): void {
  const { geometry, palette, tracks, findingMarks, finding: focused } = scene;
  const lanes = new Map(tracks.map((track, lane) => [track.array.id, lane]));
  const strength = (some: readonly Finding[]): number => (focused === null || some.includes(focused) ? 1 : 0.4);
  for (const mark of findingMarks) {
    const lane = mark.array === null ? undefined : lanes.get(mark.array);
    if (lane === undefined || mark.arc === null) continue;
    ctx.globalAlpha = strength([mark.finding]);
    ctx.strokeStyle = palette[TONES[mark.finding.severity]];
    dashedArc(ctx, geometry, lane, mark.arc);
  }
  ctx.font = `700 9px ${palette.font}`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const { px, py, findings } of findingSigns(geometry, tracks, findingMarks)) {
    const [worst] = findings as [Finding];
    ctx.globalAlpha = strength(findings);
    ctx.beginPath();
    ctx.arc(px, py, RADIUS + 1.5, 0, 2 * Math.PI);
    ctx.fillStyle = palette.bg;
    ctx.fill();
    ctx.beginPath();
    ctx.arc(px, py, RADIUS, 0, 2 * Math.PI);
    ctx.fillStyle = palette[TONES[worst.severity]];
    ctx.fill();
    ctx.fillStyle = palette.bg;
    ctx.fillText(
      findings.length > 1 ? String(Math.min(9, findings.length)) : SEVERITY_SIGNS[worst.severity],
      px,
      py + 0.5,
    );
  }
  ctx.globalAlpha = 1;
}

function dashedArc(
  ctx: CanvasRenderingContext2D,
  geometry: Geometry,
  lane: number,
  [reader, overwriter]: readonly [number, number],
): void {
  const { columns } = geometry;
  const from = x(geometry, columns.forward(reader));
  const to = x(geometry, columns.forward(overwriter));
  if (Math.max(from, to) < geometry.gutter || Math.min(from, to) > geometry.width || Math.abs(to - from) < 4) return;
  const foot = y(geometry, lane) - BAR / 2 - 3;
  const top = foot - Math.min(24, 8 + Math.abs(to - from) / 3);
  ctx.lineWidth = 1.5;
  ctx.setLineDash([4, 3]);
  ctx.beginPath();
  ctx.moveTo(from, foot);
  ctx.bezierCurveTo(from + 2, top, to - 2, top, to, foot - 1);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.beginPath();
  ctx.moveTo(to - 4, foot - 5);
  ctx.lineTo(to, foot);
  ctx.lineTo(to + 4, foot - 5);
  ctx.stroke();
}

/** The findings whose sign is under the pointer. */
export function hitFindings(
  geometry: Geometry,
  tracks: readonly Track[],
  marks: readonly FindingMark[],
  px: number,
  py: number,
): readonly Finding[] {
  const hit = findingSigns(geometry, tracks, marks).find(
    (sign) => Math.abs(sign.px - px) <= NEAR && Math.abs(sign.py - py) <= NEAR,
  );
  return hit?.findings ?? [];
}

const MOST_IN_TOOLTIP = 4;

/** The lines of a tooltip about findings. */
export function findingLines(findings: readonly Finding[]): string[] {
  const lines = findings
    .slice(0, MOST_IN_TOOLTIP)
    .flatMap(({ severity, rule, arrays, message }) => [
      `${SEVERITY_SIGNS[severity]} ${short([rule, ...arrays.slice(0, 3)].join(" · "), 60)}`,
      short(messageParts(message).cause, 160),
    ]);
  const more = findings.length - MOST_IN_TOOLTIP;
  return [...lines, more > 0 ? `and ${more} more; a click opens the first` : "a click opens it"];
}
