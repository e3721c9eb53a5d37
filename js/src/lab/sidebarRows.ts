/** The texts of a row of the side bar. */
import type { Verdict } from "../trace/types.js";
import { type LevelBadge, levelBadge } from "../views/level.js";
import { VERDICT_SIGNS } from "../views/phrases.js";
import type { Counts, TapeRow } from "./protocol.js";

interface Badge {
  readonly kind: "error" | "warning" | "info" | "none";
  readonly text: string;
  readonly title: string;
}

const KINDS = [
  ["error", "✕", "error"],
  ["warning", "!", "warning"],
  ["info", "i", "info"],
] as const;

/** Findings by severity, worst first; none before the tape has been diagnosed. While that goes on, more may come. */
export function counts(findings: Counts | null, unfinished = false): Badge[] {
  if (findings === null) return [];
  const badges = KINDS.filter(([kind]) => findings[kind] > 0).map(([kind, sign, word]) => ({
    kind,
    text: `${sign} ${findings[kind]}`,
    title: amount(findings[kind], word, `${word}s`) + (unfinished ? " so far" : ""),
  }));
  if (badges.length > 0 || unfinished) return badges;
  return [{ kind: "none", text: "✓ no findings", title: "The tape was diagnosed, and nothing was found" }];
}

/** The variable that holds the tape, else the cell that made it, and its number; `tape` and `tape 4` add nothing as names. */
export function title(row: Pick<TapeRow, "tape" | "name"> & Partial<TapeRow>): string {
  const cell = /^In \[\d+\]/.exec(row.madeAt ?? "")?.[0] ?? "";
  const name = /^(tape( \d+)?)?$/.test(row.name) ? cell : row.name;
  return name === "" ? `Tape ${row.tape}` : `${name} · tape ${row.tape}`;
}

export function facts(row: TapeRow): string {
  const parts = [amount(row.launches, "launch", "launches"), amount(row.arrays, "array", "arrays")];
  parts.push(row.backwardRuns === 0 ? "no backward yet" : `backward ×${row.backwardRuns}`);
  if (row.engine) parts.push(row.engine);
  else if (row.onOverwrite !== "preserve") parts.push(`on_overwrite=${row.onOverwrite}`);
  else if (row.preservedBytes > 0) parts.push(`kept ${bytes(row.preservedBytes)}`);
  return parts.map((part) => part.replaceAll(" ", "\u00a0")).join(" · ");
}

/** Return the current activity on a tape in a few words; empty if there is none. */
export function activity(row: TapeRow, diagnosing: boolean, progress: number | null): string {
  if (row.recording) return "● recording";
  if (diagnosing || row.diagnosing) return `… diagnosing${left(row)}`;
  if (progress !== null) return `… running checks, ${Math.round(100 * progress)} %`;
  return row.checking ? "… running checks" : "";
}

function left({ rulesLeft }: TapeRow): string {
  return typeof rulesLeft === "number" ? `, ${amount(rulesLeft, "rule", "rules")} left` : "";
}

/** The verdict of a diagnosis, also of an unfinished one; null before there is one. */
export function verdict(row: TapeRow): LevelBadge | null {
  if (row.findings === null || (row.diagnosing && row.verdict === "NOT CHECKED")) return null;
  const known = Object.hasOwn(VERDICT_SIGNS, row.verdict) ? (row.verdict as Verdict) : "NOT CHECKED";
  return levelBadge(known, row.findings, row.partial, "gradient not checked");
}

export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const text = unit > 0 && value < 10 ? value.toFixed(1) : String(Math.round(value));
  return `${text} ${units[unit]}`;
}

export function amount(count: number, one: string, many: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}
