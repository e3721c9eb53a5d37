/** The messages between side bar, tab and kernel over the comm `tapedebug`. */
import type { JSONObject } from "@lumino/coreutils";
import type { Question as Asked, MaskEntry } from "../trace/store.js";

export const TARGET = "tapedebug";
export const TRACE_MIME = "application/vnd.tapedebug.trace+json";
export const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";

export interface Counts {
  readonly error: number;
  readonly warning: number;
  readonly info: number;
}

/** One live tape of a kernel. `findings` is null before the tape has been diagnosed. */
export interface TapeRow {
  readonly tape: number;
  readonly name: string;
  /** The place where it was recorded: "In [4]:12". */
  readonly madeAt: string;
  readonly launches: number;
  readonly arrays: number;
  readonly onOverwrite: string;
  /** The engine that ran the launches, if it is not that of tapedebug. */
  readonly engine?: string;
  readonly backwardRuns: number;
  readonly preservedBytes: number;
  readonly recording: boolean;
  /** Some panel is running checks on it. */
  readonly checking: boolean;
  /** The kernel is diagnosing it: `verdict` and `findings` are those so far, of the rules but `rulesLeft`. */
  readonly diagnosing?: boolean;
  readonly rulesLeft?: number | null;
  readonly verdict: string;
  /** A rule of the diagnosis did not get to the end. */
  readonly partial: boolean;
  readonly findings: Counts | null;
}

/** Whether the next executed cell will be recorded, and the result of the last one that was. */
export interface NextCell {
  readonly state: "off" | "armed" | "recording";
  readonly tape: number | null;
  readonly message: string;
}

/** A mark beside one line of a cell; a click opens `launch` and `finding`. */
export interface Mark {
  readonly kind: "read" | "write" | "overwrite" | "lost-read" | "finding";
  readonly severity: "error" | "warning" | "info" | null;
  readonly text: string;
  readonly title: string;
  readonly launch: number | null;
  readonly finding: number | null;
}

/** The marks of one cell, by line from 1. They hold for the text that was executed, and for no other. */
export interface CellMarks {
  /** The id of the cell; null if the kernel does not know it, in which case the execution count identifies it. */
  readonly cell: string | null;
  readonly count: number;
  readonly source: string;
  readonly tape: number;
  readonly name: string;
  readonly lines: readonly { readonly line: number; readonly marks: readonly Mark[] }[];
}

/** The state of a run of checks on one tape; it contains only the fields that changed. */
export interface RunState {
  readonly running?: boolean;
  readonly progress?: number;
  readonly status?: string;
  readonly checks?: readonly unknown[];
  readonly beat?: number;
}

export type Question =
  | { readonly type: "list" }
  | { readonly type: "trace"; readonly tape: number }
  | { readonly type: "run"; readonly tape: number; readonly mask: readonly MaskEntry[] }
  | { readonly type: "cancel"; readonly tape: number }
  | { readonly type: "export"; readonly tape: number }
  | { readonly type: "ask"; readonly tape: number; readonly question: Asked }
  | { readonly type: "diagnose"; readonly tape: number }
  | { readonly type: "arm"; readonly on: boolean }
  | { readonly type: "marks" }
  | { readonly type: "forget"; readonly tape: number };

export type Answer =
  | {
      readonly type: "hello";
      readonly version: string;
      /** Identifies the process: a restarted kernel keeps its id. */
      readonly process: string;
      readonly next: NextCell;
    }
  | { readonly type: "tapes"; readonly tapes: readonly TapeRow[]; readonly busy?: boolean }
  /** One tape has changed: what its diagnosis has found so far. */
  | { readonly type: "row"; readonly row: TapeRow }
  | ({ readonly type: "next" } & NextCell)
  | { readonly type: "marks"; readonly cells: readonly CellMarks[] }
  | {
      readonly type: "trace";
      readonly tape: number;
      /** Packed: `{head, columns}`. */
      readonly trace: unknown;
      readonly mask: readonly MaskEntry[];
      readonly checks: readonly unknown[];
    }
  | { readonly type: "state"; readonly tape: number; readonly state: RunState }
  | { readonly type: "done"; readonly message?: string }
  /** Not while something else accesses the tapes: "the running cell", "the diagnosis of tape 3". */
  | { readonly type: "busy"; readonly holder: string | null }
  | { readonly type: "error"; readonly message: string };

/** Says that a question can be answered when something else has ended. */
export function busyMessage(holder: string | null, then: string): string {
  return `This has to wait for ${holder ?? "the running cell"}. ${then}`;
}

/** A message as it travels: a question carries a number, and the answer to it the same one. */
export type Numbered<T> = T & { readonly request?: number };

export function asJson(question: Numbered<Question>): JSONObject {
  return question as unknown as JSONObject;
}

/** A trace as it travels: `columns` names the buffers of the message, in their order. */
interface TraceMessage {
  readonly head?: unknown;
  readonly columns?: unknown;
}

function packedOf({ head, columns }: TraceMessage, buffers: readonly DataView[]): unknown {
  const names = Array.isArray(columns) ? columns : [];
  return { head, columns: Object.fromEntries(names.map((name, i) => [String(name), buffers[i]])) };
}

/** A message of the kernel, or null if this version does not support it. */
export function readAnswer(data: unknown, buffers: readonly DataView[] = []): Numbered<Answer> | null {
  if (typeof data !== "object" || data === null || !("type" in data)) return null;
  const known = ["hello", "tapes", "row", "next", "marks", "trace", "state", "done", "busy", "error"];
  if (!known.includes(String(data.type))) return null;
  const answer = data as Numbered<Answer>;
  return answer.type === "trace" ? { ...answer, trace: packedOf(data as TraceMessage, buffers) } : answer;
}
