/** Green, amber, red or grey: how good a diagnosis is, as badges show it. `tapedebug/trace/level.py` says the same. */
import type { Severity, Verdict } from "../trace/types.js";
import { plural } from "./format.js";
import { VERDICT_SIGNS } from "./phrases.js";

export type Level = "good" | "warning" | "error" | "unknown";

type Counts = Readonly<Record<Severity, number>>;

const NO_FINDINGS: Counts = { error: 0, warning: 0, info: 0 };

export function countOf(findings: readonly { readonly severity: Severity }[]): Counts {
  const counts = { ...NO_FINDINGS };
  for (const { severity } of findings) counts[severity] += 1;
  return counts;
}

/** Good only if everything that was requested is covered and agrees, and no finding is a warning or an error. */
function levelOf(verdict: Verdict, findings: Counts = NO_FINDINGS, partial = false): Level {
  if (verdict === "WRONG" || findings.error > 0) return "error";
  if (findings.warning > 0) return "warning";
  if (verdict === "NOT CHECKED") return "unknown";
  return verdict === "AGREE" && !partial ? "good" : "warning";
}

export interface LevelBadge {
  readonly level: Level;
  readonly text: string;
}

/** "✓ gradient AGREE", "! gradient AGREE, 1 warning": what makes it worse than the verdict is added. */
export function levelBadge(verdict: Verdict, findings: Counts, partial: boolean, unchecked: string): LevelBadge {
  const level = levelOf(verdict, findings, partial);
  const own = levelOf(verdict);
  const text = verdict === "NOT CHECKED" ? unchecked : `gradient ${verdict}`;
  if (level === own) return { level, text: `${VERDICT_SIGNS[verdict]} ${text}` };
  const count = level === "error" ? findings.error : findings.warning;
  const worse = count > 0 ? plural(count, level) : "checked in part";
  return { level, text: `${level === "error" ? "✕" : "!"} ${text}, ${worse}` };
}
