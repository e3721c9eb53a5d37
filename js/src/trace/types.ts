/** The trace as the rest of the front end sees it: checked, with non-finite numbers as numbers. Written by `tapedebug.trace`. */

export type Verdict = "AGREE" | "WRONG" | "UNDECIDABLE" | "KINK" | "NONDETERMINISTIC" | "NOT CHECKED";
export type Severity = "error" | "warning" | "info";
export type AccessKind = "read" | "write" | "atomic";
export type LaunchKind = "kernel" | "copy" | "fill" | "func" | "python";
export type Role = "input" | "intermediate" | "output" | "constant";

/**
 * The fate of one version of an array's values. `lost`: an adjoint needs them and they were overwritten; `preserved`: the
 * same, but the tape kept a copy; `harmless`: overwritten, and no adjoint needs them; `kept`: needed and never overwritten;
 * `live`: the last version.
 */
export type VersionStatus = "kept" | "preserved" | "lost" | "harmless" | "live";

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly function: string;
}

export interface Histogram {
  readonly low: number;
  readonly high: number;
  readonly counts: readonly number[];
}

export interface Summary {
  readonly count: number;
  readonly nan: number;
  readonly inf: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
  readonly norm: number;
  readonly histogram: Histogram | null;
}

export interface Param {
  readonly name: string;
  readonly type: string;
  readonly array: boolean;
}

export interface Access {
  readonly param: number;
  readonly kind: AccessKind;
  readonly line: number;
  readonly column: number;
  readonly endColumn: number;
  readonly needed: boolean;
  /** The file of the function that contains the access, if the kernel calls one; empty in the kernel itself. */
  readonly file: string;
}

/** Source: of a kernel, or of a function that one calls. */
export interface Code {
  readonly name: string;
  readonly file: string;
  readonly line: number;
  readonly lines: readonly string[];
}

export interface Kernel extends Code {
  readonly id: number;
  readonly functions: readonly Code[];
  readonly params: readonly Param[];
  readonly accesses: readonly Access[];
  readonly adjoint: string | null;
}

export interface ArrayInfo {
  readonly id: number;
  readonly label: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly requiresGrad: boolean;
  readonly buffer: number;
  readonly start: number;
  readonly stop: number;
  readonly parent: number | null;
  readonly role: Role;
}

export type ArgValue = number | string | readonly number[] | null;

export interface Arg {
  readonly name: string;
  readonly array: number | null;
  readonly value: ArgValue;
  readonly reads: boolean;
  readonly writes: boolean;
  readonly readVersion: number | null;
  readonly writeVersion: number | null;
  readonly needed: boolean;
}

export interface Launch {
  readonly index: number;
  readonly kind: LaunchKind;
  readonly kernel: number | null;
  readonly name: string;
  readonly dim: readonly number[];
  readonly scope: number | null;
  readonly seconds: number | null;
  readonly backwardSeconds: number | null;
  readonly callSite: Place | null;
  readonly args: readonly Arg[];
}

export interface Scope {
  readonly id: number;
  readonly name: string;
  readonly parent: number | null;
  readonly first: number;
  readonly last: number;
}

export interface Version {
  readonly array: number;
  readonly version: number;
  readonly writtenBy: number | null;
  readonly reads: readonly number[];
  readonly neededBy: readonly number[];
  readonly overwrittenBy: number | null;
  readonly preserved: boolean;
  readonly recomputed: boolean;
  readonly status: VersionStatus;
  readonly value: Summary | null;
  readonly adjoint: Summary | null;
}

export interface Sequence {
  readonly first: number;
  readonly length: number;
  readonly count: number;
}

export interface Finding {
  readonly id: number;
  readonly rule: string;
  readonly severity: Severity;
  readonly message: string;
  readonly launches: readonly number[];
  readonly arrays: readonly string[];
  readonly location: Place | null;
  readonly callSite: Place | null;
  readonly evidence: Readonly<Record<string, unknown>>;
  readonly fix: string;
  /** Position among the tapes that were diagnosed together; null for one alone. */
  readonly tape: number | null;
}

/** One cell of the mask matrix; `launch` null is the whole tape, `verdict` null has not been run. */
export interface Check {
  readonly launch: number | null;
  readonly input: string;
  readonly output: string;
  readonly verdict: Verdict | null;
  readonly maxAbsError: number | null;
  readonly maxRelError: number | null;
  readonly message: string;
  readonly seconds: number | null;
  /** The slopes on both sides of a kink. */
  readonly left?: number | null;
  readonly right?: number | null;
}

/** The duration of one step of a diagnosis, in seconds; `estimate` was made before it ran. */
export interface Timing {
  readonly step: string;
  readonly estimate: number | null;
  readonly seconds: number;
  readonly completed: boolean;
}

export interface Coverage {
  readonly summary: string;
  readonly launches: number;
  readonly checked: number;
  readonly notes: readonly string[];
  /** A rule did not get to the end. */
  readonly partial: boolean;
}

export interface TapeInfo {
  readonly id: number;
  readonly onOverwrite: string;
  readonly launches: number;
  readonly backwardRuns: number;
  readonly preservedBytes: number;
  readonly liveinBytes: number;
  readonly began: number;
  readonly ended: number;
  /** The engine that ran the launches, if it is not that of tapedebug: "NVIDIA Warp 1.19.0, cpu". */
  readonly engine: string;
}

export type EventKind = "backward" | "zero" | "read" | "write" | "reset";

/**
 * Something that happened around a tape and is not a launch on it: to the `values` or the `gradient` of an array, or to the tape
 * itself. `clock` orders the events of all tapes of the process; `at` is the number of launches that the tape had then.
 */
export interface TapeEvent {
  readonly kind: EventKind;
  readonly clock: number;
  readonly at: number;
  readonly of: "values" | "gradient" | "tape";
  readonly array: number | null;
  readonly how: string;
  readonly callSite: Place | null;
  readonly tape: number;
  readonly again: boolean;
  readonly settled: boolean;
  readonly numbers: Readonly<Record<string, number>>;
}

export interface Backward {
  readonly ran: boolean;
  readonly loss: number | null;
  readonly order: ArrayLike<number>;
}

/** The small fields of a trace. Launches and versions, of which there may be millions, are columns: see `columns.ts`. */
export interface Trace {
  readonly name: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly tape: TapeInfo;
  readonly kernels: readonly Kernel[];
  readonly arrays: readonly ArrayInfo[];
  readonly scopes: readonly Scope[];
  readonly sequences: readonly Sequence[];
  readonly verdict: Verdict;
  readonly coverage: Coverage;
  readonly findings: readonly Finding[];
  readonly checks: readonly Check[];
  /** The steps of the diagnosis, in the order in which they began; empty if there was none. */
  readonly timings: readonly Timing[];
  readonly backward: Backward;
  readonly events: readonly TapeEvent[];
  readonly eventsDropped: number;
  /** Sentences about what the trace leaves out. */
  readonly notes: readonly string[];
}

/** A trace as it is read from JSON, before its launches and versions become columns. */
export interface CheckedTrace extends Trace {
  readonly launches: readonly Launch[];
  readonly versions: readonly Version[];
}
