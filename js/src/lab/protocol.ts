/** What the side bar, the debugger's tab and the kernel say to each other over the comm `tapedebug`. */
import type { JSONObject } from "@lumino/coreutils";
import type { MaskEntry } from "../trace/store.js";

export const TARGET = "tapedebug";
export const TRACE_MIME = "application/vnd.tapedebug.trace+json";
export const WIDGET_MIME = "application/vnd.jupyter.widget-view+json";

export interface Counts {
  readonly error: number;
  readonly warning: number;
  readonly info: number;
}

/** One live tape of a kernel. `findings` is null where nobody has asked for them yet. */
export interface TapeRow {
  readonly tape: number;
  readonly name: string;
  /** Where it was made: "In [4]:12". */
  readonly madeAt: string;
  readonly launches: number;
  readonly arrays: number;
  readonly onOverwrite: string;
  readonly backwardRuns: number;
  readonly preservedBytes: number;
  readonly recording: boolean;
  readonly verdict: string;
  readonly findings: Counts | null;
}

/** How a run of checks on one tape stands; only what has changed is there. */
export interface RunState {
  readonly running?: boolean;
  readonly progress?: number;
  readonly status?: string;
  readonly checks?: readonly unknown[];
}

export type Question =
  | { readonly type: "list" }
  | { readonly type: "trace"; readonly tape: number }
  | { readonly type: "run"; readonly tape: number; readonly mask: readonly MaskEntry[] }
  | { readonly type: "cancel"; readonly tape: number }
  | { readonly type: "export"; readonly tape: number }
  | { readonly type: "diagnose"; readonly tape: number };

export type Answer =
  | { readonly type: "hello"; readonly version: string }
  | { readonly type: "tapes"; readonly tapes: readonly TapeRow[] }
  | {
      readonly type: "trace";
      readonly tape: number;
      readonly trace: unknown;
      readonly mask: readonly MaskEntry[];
      readonly checks: readonly unknown[];
    }
  | { readonly type: "state"; readonly tape: number; readonly state: RunState }
  | { readonly type: "done" }
  | { readonly type: "busy" }
  | { readonly type: "error"; readonly message: string };

/** A message as it travels: a question carries a number, and the answer to it the same one. */
export type Numbered<T> = T & { readonly request?: number };

export function asJson(question: Numbered<Question>): JSONObject {
  return question as unknown as JSONObject;
}

/** A message of the kernel, or null where it is none that this version knows. */
export function readAnswer(data: unknown): Numbered<Answer> | null {
  if (typeof data !== "object" || data === null || !("type" in data)) return null;
  const known = ["hello", "tapes", "trace", "state", "done", "busy", "error"];
  return known.includes(String(data.type)) ? (data as Numbered<Answer>) : null;
}
