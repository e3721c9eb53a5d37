/** A Jacobian as the kernel answers it (`tapedebug/panel/jacobian_query.py`), checked. Pure. */
import { isRecord } from "../../trace/reader.js";
import type { Answer, MaskEntry } from "../../trace/store.js";
import type { Verdict } from "../../trace/types.js";
import { number } from "../format.js";
import { VERDICT_SIGNS } from "../phrases.js";

/** The state of a cell; the numbers are those of the answer. */
export const NOTHING_KNOWN = 0;
export const COMPARED = 1;
export const ZERO = 2;
export const ADJOINT_ALONE = 3;

/** An output or an input: how flat positions are elements and components. */
export interface Side {
  readonly name: string;
  readonly shape: readonly number[];
  /** One for each component: ".x"; a single empty one for scalars. */
  readonly suffixes: readonly string[];
}

export interface WorstEntry {
  readonly row: number;
  readonly column: number;
  readonly output: string;
  readonly input: string;
  readonly ad: number | null;
  readonly fd: number | null;
  readonly bar: number | null;
  readonly reference: number | null;
  readonly error: number | null;
  readonly wrong: boolean;
}

export interface CodePlace {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** Cells of a window of the Jacobian, in C order; a cell stands for one entry or for a block of them. */
export interface Cells {
  /** From, to. */
  readonly rows: readonly [number, number];
  readonly columns: readonly [number, number];
  readonly height: number;
  readonly width: number;
  readonly ad: Float64Array;
  readonly fd: Float64Array;
  readonly error: Float64Array;
  readonly bar: Float64Array;
  /** The float64 adjoint, of the whole tape. */
  readonly reference: Float64Array | null;
  /** Which entry a cell shows; -1 for none. */
  readonly row: Int32Array;
  readonly column: Int32Array;
  readonly known: Uint8Array;
  readonly pooled: readonly [number, number] | null;
}

export interface Jacobian {
  readonly pair: MaskEntry;
  readonly subject: string;
  readonly verdict: Verdict;
  readonly message: string;
  readonly slopes: readonly [number, number] | null;
  readonly maxAbsError: number | null;
  readonly maxRelError: number | null;
  readonly tolerance: string;
  readonly evaluation: string;
  readonly notes: readonly string[];
  /** Some entries were not evaluated, and could be. */
  readonly lacks: boolean;
  readonly script: boolean;
  readonly output: Side;
  readonly input: Side;
  readonly shape: readonly [number, number];
  readonly scale: { readonly value: number; readonly error: number };
  readonly against: string;
  readonly worst: readonly WorstEntry[];
  readonly line: CodePlace | null;
  readonly further: readonly number[];
  readonly thread: string;
  /** Null where no entry was evaluated. */
  readonly cells: Cells | null;
}

/** Reads an answer; throws an error with a message if anything in it is invalid. */
export function readJacobian(pair: MaskEntry, { data, buffers }: Answer): Jacobian {
  const shape = twoWhole(data.shape) ?? [0, 0];
  return {
    pair,
    subject: text(data.subject),
    verdict: verdictOf(data.verdict),
    message: text(data.message),
    slopes: slopesOf(data.slopes),
    maxAbsError: numeric(data.max_abs_error),
    maxRelError: numeric(data.max_rel_error),
    tolerance: text(data.tolerance),
    evaluation: text(data.evaluation),
    notes: Array.isArray(data.notes) ? data.notes.map(text) : [],
    lacks: data.lacks === true,
    script: data.script === true,
    output: sideOf(data.output),
    input: sideOf(data.input),
    shape,
    scale: scaleOf(data.scale),
    against: text(data.against) || "FD",
    worst: Array.isArray(data.worst) ? data.worst.filter(isRecord).map(worstOf) : [],
    line: placeOf(data.line),
    further: Array.isArray(data.further) ? data.further.filter((line) => Number.isInteger(line)) : [],
    thread: text(data.thread),
    cells: data.cells === null || data.cells === undefined ? null : readCells(data, buffers),
  };
}

function readCells(data: Answer["data"], buffers: readonly DataView[]): Cells {
  const rows = twoWhole(data.rows);
  const columns = twoWhole(data.columns);
  const cells = twoWhole(data.cells);
  const list = Array.isArray(data.buffers) ? data.buffers.filter(isRecord) : [];
  if (!rows || !columns || !cells || list.length !== buffers.length) throw new Error("The answer is incomplete.");
  const [height, width] = cells;
  const count = height * width;
  const found = new Map<string, DataView>();
  for (const [i, { name }] of list.entries()) found.set(String(name), buffers[i] as DataView);
  const take = (name: string, bytes: number): ArrayBuffer => {
    const view = found.get(name);
    if (view?.byteLength !== count * bytes) throw new Error(`The answer has no ${name} of ${height} × ${width} cells.`);
    // a copy: the view need not be aligned
    return view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength) as ArrayBuffer;
  };
  return {
    rows,
    columns,
    height,
    width,
    ad: new Float64Array(take("ad", 8)),
    fd: new Float64Array(take("fd", 8)),
    error: new Float64Array(take("error", 8)),
    bar: new Float64Array(take("bar", 8)),
    reference: found.has("reference") ? new Float64Array(take("reference", 8)) : null,
    row: new Int32Array(take("row", 4)),
    column: new Int32Array(take("column", 4)),
    known: new Uint8Array(take("known", 1)),
    pooled: twoWhole(data.pooled),
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Numbers that are not finite travel as text. */
function numeric(value: unknown): number | null {
  if (typeof value === "number") return value;
  if (value === "nan") return Number.NaN;
  if (value === "inf") return Number.POSITIVE_INFINITY;
  return value === "-inf" ? Number.NEGATIVE_INFINITY : null;
}

function twoWhole(value: unknown): [number, number] | null {
  if (!Array.isArray(value) || value.length !== 2) return null;
  const [a, b] = value as unknown[];
  const sound = Number.isInteger(a) && Number.isInteger(b) && (a as number) >= 0 && (b as number) >= 0;
  return sound ? [a as number, b as number] : null;
}

function slopesOf(value: unknown): [number, number] | null {
  if (!Array.isArray(value) || value.length !== 2) return null;
  const [left, right] = value.map(numeric);
  return left === null || right === null || left === undefined || right === undefined ? null : [left, right];
}

function verdictOf(value: unknown): Verdict {
  return typeof value === "string" && Object.hasOwn(VERDICT_SIGNS, value) ? (value as Verdict) : "NOT CHECKED";
}

function sideOf(value: unknown): Side {
  const raw = isRecord(value) ? value : {};
  const suffixes = Array.isArray(raw.suffixes) && raw.suffixes.length > 0 ? raw.suffixes.map(text) : [""];
  const shape = Array.isArray(raw.shape) ? raw.shape.filter((n): n is number => Number.isInteger(n) && n >= 0) : [];
  return { name: text(raw.name), shape, suffixes };
}

function scaleOf(value: unknown): { value: number; error: number } {
  const raw = isRecord(value) ? value : {};
  return { value: numeric(raw.value) ?? 0, error: numeric(raw.error) ?? 0 };
}

function placeOf(value: unknown): CodePlace | null {
  if (!isRecord(value) || !Number.isInteger(value.line)) return null;
  return { file: text(value.file), line: value.line as number, text: text(value.text) };
}

function worstOf(raw: Readonly<Record<string, unknown>>): WorstEntry {
  return {
    row: numeric(raw.row) ?? 0,
    column: numeric(raw.column) ?? 0,
    output: text(raw.output),
    input: text(raw.input),
    ad: numeric(raw.ad),
    fd: numeric(raw.fd),
    bar: numeric(raw.bar),
    reference: numeric(raw.reference),
    error: numeric(raw.error),
    wrong: raw.wrong === true,
  };
}

/** `force[4].y`: as the kernel's messages call the entry at a flat position. */
export function entryName(side: Side, flat: number): string {
  const count = side.suffixes.length;
  let element = Math.floor(flat / count);
  const index: number[] = [];
  for (const size of [...side.shape].reverse()) {
    index.unshift(element % Math.max(1, size));
    element = Math.floor(element / Math.max(1, size));
  }
  const place = index.length > 0 ? `[${index.join(", ")}]` : "";
  return `${side.name}${place}${side.suffixes[flat % count] ?? ""}`;
}

function elements(side: Side): number {
  return side.shape.reduce((product, size) => product * size, 1);
}

/** "10 elements × 3 components". */
export function sideSize(side: Side): string {
  const count = elements(side);
  const named = `${count.toLocaleString("en-US")} ${count === 1 ? "element" : "elements"}`;
  return side.suffixes.length > 1 ? `${named} × ${side.suffixes.length} components` : named;
}

/** The index of the cell that shows an entry; null outside of the window. */
export function cellAt(cells: Cells, row: number, column: number): number | null {
  const [top, bottom] = cells.rows;
  const [left, right] = cells.columns;
  if (row < top || row >= bottom || column < left || column >= right) return null;
  const y = Math.floor(((row - top) * cells.height) / (bottom - top));
  const x = Math.floor(((column - left) * cells.width) / (right - left));
  return y * cells.width + x;
}

/** The numbers of an entry, in words: "AD 2, FD 6 ± 1e−9, error 4". */
export function entryNumbers(
  entry: Pick<WorstEntry, "ad" | "fd" | "bar" | "reference" | "error">,
  against: string,
): string {
  const parts = [`AD ${number(entry.ad, 6)}`];
  if (entry.reference !== null) parts.push(`float64 adjoint ${number(entry.reference, 6)}`);
  if (entry.fd !== null && !(Number.isNaN(entry.fd) && entry.reference !== null)) {
    const bar = entry.bar === null || Number.isNaN(entry.bar) ? "" : ` ± ${number(entry.bar, 1)}`;
    parts.push(`FD ${number(entry.fd, 6)}${bar}`);
  } else parts.push("no difference taken");
  if (entry.error !== null && !(Number.isNaN(entry.error) && entry.fd === null))
    parts.push(`error ${number(entry.error, 3)}${entry.reference === null ? "" : ` against ${against}`}`);
  return parts.join(", ");
}
