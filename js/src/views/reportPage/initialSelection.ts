/** The initial selection of a report: its worst finding. Traces are read before they are checked. */
import { headOf } from "../../trace/open.js";
import { NOTHING, type Selection } from "../../trace/store.js";
import { short, tapeTitle } from "../format.js";

/** Return the name of a tape in a list of several. */
export function tapeName(trace: unknown): string {
  const { name, verdict, tape } = headOf(trace) as { name?: unknown; verdict?: unknown; tape?: { id?: unknown } };
  const called = tapeTitle(short(String(name ?? "tape"), 60), String(tape?.id ?? "?"));
  const worst = worstOf(trace);
  return `${called} · ${short(String(verdict ?? ""), 40)}${worst === "info" ? "" : ` · ${worst}`}`;
}

function findingsOf(trace: unknown): Record<string, unknown>[] {
  const { findings } = headOf(trace);
  return Array.isArray(findings) ? (findings as Record<string, unknown>[]) : [];
}

/** The severity of the worst finding. */
function worstOf(trace: unknown): string {
  const found = findingsOf(trace);
  return ["error", "warning"].find((severity) => found.some((finding) => finding?.severity === severity)) ?? "info";
}

/** Of several tapes a report opens on the one with the worst finding. */
export function worstTape(traces: readonly unknown[]): number {
  const worst = traces.map(worstOf);
  return Math.max(0, worst.includes("error") ? worst.indexOf("error") : worst.indexOf("warning"));
}

/** A report opens on what is wrong; where nothing is, on a launch of the first finding. */
export function initialSelection(trace: unknown): Selection {
  const findings = findingsOf(trace);
  const worst = findings.find((f) => f?.severity === "error") ?? findings.find((f) => f?.severity === "warning");
  if (typeof worst?.id === "number") return { ...NOTHING, finding: worst.id };
  const named = findings[0]?.launches;
  const first = Array.isArray(named) ? named[0] : null;
  return { ...NOTHING, launch: typeof first === "number" && first >= 0 ? first : null };
}

/** The first kernel, where a trace has nothing else to open on. */
export function firstKernel(count: number, kind: (launch: number) => string | undefined): number | null {
  for (let i = 0; i < Math.min(count, 1_000); i++) if (kind(i) === "kernel") return i;
  return null;
}
