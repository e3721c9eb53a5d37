/** The pairs of the mask matrix: which there are, which are switched on, what is known of each. Pure. */
import { type CheckKey, checkKey, mergeChecks, type TraceModel } from "../trace/model.js";
import { readCheck } from "../trace/parse.js";
import { isRecord, Reader } from "../trace/reader.js";
import type { MaskEntry } from "../trace/store.js";
import type { Check, Verdict } from "../trace/types.js";

/** A matrix of outputs (rows) and inputs (columns) of one launch, or of the whole tape. */
export interface Matrix {
  readonly launch: number | null;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly cells: ReadonlyMap<CheckKey, Check>;
}

export function entryKey([launch, input, output]: MaskEntry): CheckKey {
  return checkKey(launch, input, output);
}

/** What came back from a run, checked; entries that make no sense are left out. */
export function readChecks(raw: readonly unknown[], launches: number): Check[] {
  const reader = new Reader();
  const checks: Check[] = [];
  for (const item of raw) {
    const check = isRecord(item) ? readCheck(reader, item, "checks", launches) : null;
    if (check) checks.push(check);
  }
  return checks;
}

export function allChecks(model: TraceModel, newer: readonly unknown[]): ReadonlyMap<CheckKey, Check> {
  return mergeChecks(model.trace.checks, readChecks(newer, model.launchCount));
}

/** The matrix of a launch (null: the whole tape); null where it has no pair to check. */
export function matrixOf(
  model: TraceModel,
  launch: number | null,
  checks: ReadonlyMap<CheckKey, Check>,
): Matrix | null {
  const known = [...checks.values()].filter((check) => check.launch === launch);
  const cells = new Map<CheckKey, Check>();
  // a run of some pairs must not hide the others
  for (const check of [...possiblePairs(model, launch), ...known]) {
    cells.set(checkKey(launch, check.input, check.output), check);
  }
  if (cells.size === 0) return null;
  const inputs = new Set<string>();
  const outputs = new Set<string>();
  for (const { input, output } of cells.values()) {
    inputs.add(input);
    outputs.add(output);
  }
  return { launch, inputs: [...inputs], outputs: [...outputs], cells };
}

const WORST_FIRST = ["WRONG", "NONDETERMINISTIC", "UNDECIDABLE", "KINK", "AGREE"] as const satisfies readonly Verdict[];

/**
 * The verdict on the tape and how far it reaches: the diagnosis's own, or, where nobody has diagnosed the tape yet, the worst
 * of the whole-tape pairs that were run.
 */
export function judgement(model: TraceModel, newer: readonly unknown[]): { verdict: Verdict; summary: string } {
  const { verdict, coverage } = model.trace;
  const whole = [...allChecks(model, newer).values()].filter((check) => check.launch === null);
  const run = whole.filter((check) => check.verdict !== null && check.verdict !== "NOT CHECKED");
  const worst = WORST_FIRST.find((candidate) => run.some((check) => check.verdict === candidate));
  if (verdict === "NOT CHECKED" && worst !== undefined) {
    return { verdict: worst, summary: `${run.length} of ${whole.length} whole-tape pairs checked` };
  }
  const summary = coverage.summary || `${coverage.checked} of ${coverage.launches} launches checked`;
  return { verdict, summary: summary.replace(/\.$/, "") };
}

/** What could be checked of a launch that no check names yet: arguments with a gradient, read × written. */
function possiblePairs(model: TraceModel, index: number | null): Check[] {
  const launch = model.launch(index);
  if (launch?.kind !== "kernel") return [];
  const differentiable = launch.args.filter((arg) => model.array(arg.array)?.requiresGrad);
  const pairs: Check[] = [];
  for (const output of differentiable.filter((arg) => arg.writes)) {
    for (const input of differentiable.filter((arg) => arg.reads)) pairs.push(notRun(index, input.name, output.name));
  }
  return pairs;
}

function notRun(launch: number | null, input: string, output: string): Check {
  return { launch, input, output, verdict: null, maxAbsError: null, maxRelError: null, message: "", seconds: null };
}

/** Switches pairs on or off; the order of the others is kept. */
export function toggled(mask: readonly MaskEntry[], entries: readonly MaskEntry[], on: boolean): readonly MaskEntry[] {
  const keys = new Set(entries.map(entryKey));
  const others = mask.filter((entry) => !keys.has(entryKey(entry)));
  return on ? [...others, ...entries] : others;
}

export function entriesOf(matrix: Matrix): MaskEntry[] {
  return [...matrix.cells.values()].map((check) => [matrix.launch, check.input, check.output] as const);
}

export interface RunCounts {
  /** Pairs that a run would recompute. */
  readonly chosen: number;
  /** Pairs that could be chosen: of all that were checked, of the matrices shown, and of the mask. */
  readonly total: number;
}

export function countPairs(
  mask: readonly MaskEntry[],
  shown: readonly (Matrix | null)[],
  checks: Iterable<CheckKey>,
): RunCounts {
  const chosen = new Set(mask.map(entryKey));
  const total = new Set<CheckKey>([...chosen, ...checks]);
  for (const matrix of shown) if (matrix) for (const key of matrix.cells.keys()) total.add(key);
  return { chosen: chosen.size, total: total.size };
}
