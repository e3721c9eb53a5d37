/** The pairs of the mask matrix: which exist, which are switched on, and the results of each. Pure. */

import { readCheck } from "../trace/head.js";
import { type CheckKey, checkKey, mergeChecks, type TraceModel } from "../trace/model.js";
import { isRecord, Reader } from "../trace/reader.js";
import type { MaskEntry } from "../trace/store.js";
import type { Check, Verdict } from "../trace/types.js";
import { number } from "./format.js";

export function entryKey([launch, input, output]: MaskEntry): CheckKey {
  return checkKey(launch, input, output);
}

/** Return the results of a run, checked; invalid entries are left out. */
export function readChecks(raw: readonly unknown[], launches: number): Check[] {
  const reader = new Reader();
  const checks: Check[] = [];
  for (const item of raw) {
    const check = isRecord(item) ? readCheck(reader, item, "checks", launches) : null;
    if (check) checks.push(check);
  }
  return checks;
}

const MERGED = new WeakMap<TraceModel, { newer: readonly unknown[]; merged: ReadonlyMap<CheckKey, Check> }>();

/** The results of all pairs; several views need them when a result arrives, so the last ones are cached. */
export function allChecks(model: TraceModel, newer: readonly unknown[]): ReadonlyMap<CheckKey, Check> {
  const known = MERGED.get(model);
  if (known?.newer === newer) return known.merged;
  const merged = mergeChecks(model.trace.checks, readChecks(newer, model.launchCount));
  MERGED.set(model, { newer, merged });
  return merged;
}

export function checkOf(checks: ReadonlyMap<CheckKey, Check>, pair: MaskEntry): Check | null {
  return checks.get(entryKey(pair)) ?? null;
}

/** "slopes −1 on the left, 1 on the right". */
export function slopesText(left: number, right: number): string {
  return `slopes ${number(left, 4)} on the left, ${number(right, 4)} on the right`;
}

export const WORST_FIRST = [
  "WRONG",
  "NONDETERMINISTIC",
  "UNDECIDABLE",
  "KINK",
  "AGREE",
] as const satisfies readonly Verdict[];

/**
 * The verdict on the tape and its coverage: those of the diagnosis or, before the tape has been diagnosed, the worst
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

/** Return the pairs of a launch that no check names yet: arguments with a gradient, read × written. */
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

/** Launches of one kernel of which a matrix is shown together; of more, this many, evenly spaced. */
const MOST_TOGETHER = 500;

export interface KernelGroup {
  /** The launches of which pairs are shown. */
  readonly launches: readonly number[];
  /** All launches of the kernel. */
  readonly total: number;
}

/** The launches of the kernel that a launch runs. */
export function launchesOfKernel(model: TraceModel, launch: number): KernelGroup {
  const { kernel, count } = model.columns.launches;
  const wanted = kernel[launch] ?? -1;
  if (wanted < 0) return { launches: [launch], total: 1 };
  const all: number[] = [];
  for (let i = 0; i < count; i++) if (kernel[i] === wanted) all.push(i);
  if (all.length <= MOST_TOGETHER) return { launches: all, total: all.length };
  const step = (all.length - 1) / (MOST_TOGETHER - 1);
  const some = new Set(Array.from({ length: MOST_TOGETHER }, (_, i) => all[Math.round(i * step)] as number));
  return { launches: [...some], total: all.length };
}

/** One cell of a matrix: the pairs that it switches, and their results. */
export interface Cell {
  readonly input: string;
  readonly output: string;
  readonly entries: readonly MaskEntry[];
  readonly checks: readonly Check[];
  /** The check that is shown: the worst one. */
  readonly worst: Check;
}

export interface Grid {
  readonly launches: readonly (number | null)[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** By output, then input; a pair that there is not has none. */
  readonly cells: readonly (readonly (Cell | null)[])[];
}

/** The matrix of several launches together, or of one, or of the whole tape (null). */
export function gridOf(
  model: TraceModel,
  launches: readonly (number | null)[],
  checks: ReadonlyMap<CheckKey, Check>,
): Grid | null {
  const byPair = new Map<string, Check[]>();
  const wanted = new Set(launches);
  const known = [...checks.values()].filter((check) => wanted.has(check.launch));
  const all = new Map<CheckKey, Check>();
  for (const launch of launches)
    for (const check of possiblePairs(model, launch)) all.set(checkKey(launch, check.input, check.output), check);
  for (const check of known) all.set(checkKey(check.launch, check.input, check.output), check);
  for (const check of all.values()) {
    const name = JSON.stringify([check.input, check.output]);
    const list = byPair.get(name);
    if (list) list.push(check);
    else byPair.set(name, [check]);
  }
  if (byPair.size === 0) return null;
  const inputs = [...new Set([...all.values()].map((check) => check.input))];
  const outputs = [...new Set([...all.values()].map((check) => check.output))];
  const cells = outputs.map((output) =>
    inputs.map((input) => {
      const found = byPair.get(JSON.stringify([input, output]));
      return found ? cellOf(input, output, found) : null;
    }),
  );
  return { launches, inputs, outputs, cells };
}

function cellOf(input: string, output: string, checks: readonly Check[]): Cell {
  const entries = checks.map((check) => [check.launch, check.input, check.output] as const);
  const rank = ({ verdict }: Check): number => {
    const at = (WORST_FIRST as readonly (Verdict | null)[]).indexOf(verdict);
    return at < 0 ? WORST_FIRST.length : at;
  };
  const size = (check: Check): number => check.maxRelError ?? check.maxAbsError ?? 0;
  const [worst] = [...checks].sort((a, b) => rank(a) - rank(b) || size(b) - size(a));
  return { input, output, entries, checks, worst: worst as Check };
}

export function entriesOfGrid(grid: Grid): MaskEntry[] {
  return grid.cells.flat().flatMap((cell) => (cell ? [...cell.entries] : []));
}
