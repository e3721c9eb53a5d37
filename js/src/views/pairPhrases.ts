/** The texts of a cell of the matrix: in the cell, in its tooltip, and for screen readers. Pure. */
import type { Check, Verdict } from "../trace/types.js";
import { number, plural, seconds, short } from "./format.js";
import { type Cell, type Grid, slopesText, WORST_FIRST } from "./pairs.js";
import { VERDICT_MEANINGS, VERDICT_SIGNS } from "./phrases.js";

/** Long verdicts are cut to what fits a column; the title and the screen reader have them whole. */
const SHORT_VERDICTS: Partial<Record<Verdict, string>> = { NONDETERMINISTIC: "NONDETERM.", UNDECIDABLE: "UNDECID." };

export function styleOf(verdict: Verdict | null): string {
  return verdict === null ? "td-verdict-none" : `td-verdict-${verdict.toLowerCase().replace(" ", "-")}`;
}

function isRun({ verdict }: Check): boolean {
  return verdict !== null && verdict !== "NOT CHECKED";
}

export function verdictText({ worst, checks }: Cell): string {
  if (!isRun(worst)) return checks.length > 1 ? `– ×${checks.length}` : "–";
  const { verdict } = worst;
  const name = verdict === null ? "" : `${VERDICT_SIGNS[verdict]} ${SHORT_VERDICTS[verdict] ?? verdict}`;
  if (checks.length === 1) return name;
  return `${name} ${checks.filter((check) => check.verdict === verdict).length}/${checks.length}`;
}

/** The number under a verdict: the largest error, or the slopes of a kink. */
export function errorText({ worst, checks }: Cell): string {
  if (hasSlopes(worst)) return `${number(worst.left, 2)} | ${number(worst.right, 2)}`;
  const sizes = checks.map((check) => check.maxRelError ?? check.maxAbsError).filter((size) => size !== null);
  if (sizes.length === 0) return "";
  return number(
    sizes.reduce((a, b) => (Number.isNaN(a) || a >= b ? a : b)),
    2,
  );
}

function hasSlopes(check: Check): check is Check & { left: number; right: number } {
  return check.verdict === "KINK" && check.left != null && check.right != null;
}

function counts(checks: readonly Check[]): string {
  const parts = WORST_FIRST.map((verdict) => [verdict, checks.filter((c) => c.verdict === verdict).length] as const)
    .filter(([, count]) => count > 0)
    .map(([verdict, count]) => `${count} ${verdict}`);
  const open = checks.filter((check) => !isRun(check)).length;
  return [...parts, ...(open > 0 ? [`${open} not run`] : [])].join(", ");
}

/** The reason of a verdict that decides nothing. */
function why(check: Check): string {
  if (hasSlopes(check)) return slopesText(check.left, check.right);
  const undecided = check.verdict === "UNDECIDABLE" || check.verdict === "NOT CHECKED";
  return undecided && check.message !== "" ? short(check.message, 300) : "";
}

/** For a screen reader: "force by x, AGREE, largest error 3e−8, switched on". `on` is null where nothing can be switched. */
export function cellName(cell: Cell, grid: Grid, on: number | null, pending: boolean): string {
  const { worst, checks, entries } = cell;
  const parts = [`${short(cell.output)} by ${short(cell.input)}`];
  if (checks.length > 1) parts.push(counts(checks));
  else if (isRun(worst)) parts.push(String(worst.verdict));
  else parts.push(worst.verdict === "NOT CHECKED" ? "NOT CHECKED" : "not run");
  const reason = why(worst);
  if (reason !== "") parts.push(reason);
  const error = errorText(cell);
  if (isRun(worst) && error !== "" && !hasSlopes(worst)) parts.push(`largest error ${error}`);
  if (pending) parts.push("being checked");
  if (on !== null) {
    parts.push(
      on === entries.length ? "switched on" : on === 0 ? "switched off" : `${on} of ${entries.length} switched on`,
    );
  }
  if (grid.launches[0] === null) parts.push("whole tape");
  return parts.join(", ");
}

export function cellTitle(cell: Cell): string {
  const { worst, checks } = cell;
  const lines: string[] = [];
  if (checks.length > 1) lines.push(`${plural(checks.length, "launch", "launches")}: ${counts(checks)}`);
  if (!isRun(worst)) {
    lines.push(worst.message === "" ? "not run yet" : `not checked: ${short(worst.message, 600)}`);
    return lines.join("\n");
  }
  if (checks.length > 1 && worst.launch !== null) lines.push(`the worst is launch ${worst.launch}`);
  if (worst.verdict !== null) lines.push(`${worst.verdict}: ${VERDICT_MEANINGS[worst.verdict]}`);
  if (hasSlopes(worst)) lines.push(slopesText(worst.left, worst.right));
  if (worst.maxRelError !== null) lines.push(`largest relative error ${number(worst.maxRelError)}`);
  if (worst.maxAbsError !== null) lines.push(`largest absolute error ${number(worst.maxAbsError)}`);
  if (worst.seconds !== null) lines.push(seconds(worst.seconds));
  if (worst.message !== "") lines.push(short(worst.message, 1000));
  return lines.join("\n");
}
