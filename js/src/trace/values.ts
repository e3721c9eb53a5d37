/** The answer to `{type: "values"}`, checked: the values of one version of an array. Written by `tapedebug/panel/values_query.py`. */
import { readSummary } from "./head.js";
import { isRecord, Reader } from "./reader.js";
import { type Answer, Unanswered } from "./store.js";
import type { Summary } from "./types.js";

export type Of = "value" | "adjoint";

/** Scalars of any dtype that a browser can read. */
export interface Numbers {
  readonly length: number;
  readonly whole: boolean;
  at(index: number): number;
  /** Whole numbers of 64 bits have more digits than a number. */
  exact(index: number): string | null;
}

/** Cells of a small picture: the lowest and the highest finite value in each (NaN: there is none), and how many are not finite. */
export interface Picture {
  readonly rows: number;
  readonly columns: number;
  readonly series: number;
  readonly low: ArrayLike<number>;
  readonly high: ArrayLike<number>;
  readonly bad: ArrayLike<number>;
}

export interface Change {
  /** The version that it is measured against. */
  readonly of: number;
  readonly changed: number;
  readonly total: number;
  readonly largest: number | null;
  readonly at: readonly number[] | null;
  readonly before: number | null;
  readonly after: number | null;
}

export interface VersionValues {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly element: readonly number[];
  /** Scalars of one element. */
  readonly components: number;
  /** Elements of the array. */
  readonly size: number;
  /** The elements that `values` and `before` hold. */
  readonly start: number;
  readonly count: number;
  readonly values: Numbers;
  readonly before: Numbers | null;
  readonly summary: Summary | null;
  readonly firstNan: readonly number[] | null;
  readonly firstInf: readonly number[] | null;
  readonly change: Change | null;
  readonly picture: Picture;
}

/** Vectors of up to so many components are drawn as one line each, others by their norm. As in `values_overview.py`. */
const LINES = 4;
const MOST_CELLS = 1 << 20;

/**
 * Reads an answer.
 *
 * @throws {Unanswered} if it is invalid.
 */
export function readValues({ data, buffers }: Answer): VersionValues {
  const r = new Reader();
  const shape = r.indices(data, "shape", "values");
  const element = r.indices(data, "element", "values");
  const size = product(shape);
  const components = product(element);
  const start = r.count(data, "start", "values");
  const count = r.count(data, "count", "values");
  const names = r.texts(data, "buffers", "values");
  const named = (name: string): DataView | null => buffers[names.indexOf(name)] ?? null;
  const sent = r.text(data, "sent", "values");
  const values = numbers(named("values"), sent, count * components);
  if (values === null || start + count > size) throw new Unanswered("The answer to this question is invalid.");
  const complete = start === 0 && count === size;
  const picture = complete ? draw(values, shape, components) : readPicture(r, data.overview, named("overview"));
  const first = isRecord(data.first) ? data.first : {};
  const place = (key: string): readonly number[] | null =>
    Array.isArray(first[key]) ? r.indices(first, key, "values.first") : null;
  return {
    dtype: r.text(data, "dtype", "values"),
    ...{ shape, element, components, size, start, count, values, picture },
    before: numbers(named("before"), sent, count * components),
    summary: readSummary(r, data, "summary", "values"),
    firstNan: place("nan"),
    firstInf: place("inf"),
    change: readChange(r, data.change),
  };
}

function product(values: readonly number[]): number {
  return values.reduce((a, b) => a * b, 1);
}

function readChange(r: Reader, raw: unknown): Change | null {
  if (!isRecord(raw)) return null;
  const value = (key: string): number | null =>
    typeof raw[key] === "boolean" ? Number(raw[key]) : r.number(raw, key, "values.change");
  return {
    of: r.count(raw, "of", "values.change"),
    changed: r.count(raw, "changed", "values.change"),
    total: r.count(raw, "total", "values.change"),
    largest: value("largest"),
    at: Array.isArray(raw.at) ? r.indices(raw, "at", "values.change") : null,
    before: value("before"),
    after: value("after"),
  };
}

const READ: Readonly<Record<string, readonly [bytes: number, read: (view: DataView, at: number) => number | bigint]>> =
  {
    "<f4": [4, (view, at) => view.getFloat32(at, true)],
    "<f8": [8, (view, at) => view.getFloat64(at, true)],
    "|i1": [1, (view, at) => view.getInt8(at)],
    "|u1": [1, (view, at) => view.getUint8(at)],
    "<i2": [2, (view, at) => view.getInt16(at, true)],
    "<u2": [2, (view, at) => view.getUint16(at, true)],
    "<i4": [4, (view, at) => view.getInt32(at, true)],
    "<u4": [4, (view, at) => view.getUint32(at, true)],
    "<i8": [8, (view, at) => view.getBigInt64(at, true)],
    "<u8": [8, (view, at) => view.getBigUint64(at, true)],
  };

/** The scalars of a buffer; null where it does not hold as many as it should. */
function numbers(view: DataView | null, dtype: string, length: number): Numbers | null {
  const known = READ[dtype];
  if (!view || !known || view.byteLength !== length * known[0]) return null;
  const [bytes, read] = known;
  return {
    length,
    whole: !dtype.includes("f"),
    at: (index) => Number(read(view, index * bytes)),
    exact: (index) => {
      const value = read(view, index * bytes);
      return typeof value === "bigint" ? value.toString() : null;
    },
  };
}

/** The picture of a complete array: a list is one row; the last axis of a grid is horizontal. */
function draw(values: Numbers, shape: readonly number[], components: number): Picture {
  const columns = shape.at(-1) ?? 1;
  const series = components <= (shape.length < 2 ? LINES : 1) ? components : 1;
  const cells = values.length === 0 ? 0 : (values.length / components) * series;
  const low = new Float64Array(cells);
  const bad = new Uint8Array(cells);
  for (let i = 0; i < cells; i++) {
    const value = series === components ? values.at(i) : norm(values, i * components, components);
    bad[i] = Number.isFinite(value) ? 0 : 1;
    low[i] = bad[i] ? Number.NaN : value;
  }
  return { rows: columns === 0 ? 0 : cells / series / columns, columns, series, low, high: low, bad };
}

function norm(values: Numbers, start: number, count: number): number {
  let sum = 0;
  for (let i = 0; i < count; i++) sum += values.at(start + i) ** 2;
  return Math.sqrt(sum);
}

function readPicture(r: Reader, raw: unknown, view: DataView | null): Picture {
  const shape = isRecord(raw) ? raw : {};
  const [rows, columns, series] = (["rows", "columns", "series"] as const).map((key) =>
    r.count(shape, key, "values.overview"),
  ) as [number, number, number];
  const cells = rows * columns * series;
  const found = cells <= MOST_CELLS ? numbers(view, "<f8", 3 * cells) : null;
  if (!found) return { rows: 0, columns: 0, series: 0, low: [], high: [], bad: [] };
  const part = (index: number): Float64Array =>
    Float64Array.from({ length: cells }, (_, i) => found.at(index * cells + i));
  return { rows, columns, series, low: part(0), high: part(1), bad: part(2) };
}

/** "[3, 1]" of an element, or of one of its components. */
export function indexText(index: readonly number[]): string {
  return `[${index.join(", ")}]`;
}

/** The position of an element in C order; components that follow the array's own indices are left out. */
export function elementAt(shape: readonly number[], index: readonly number[]): number {
  return shape.reduce((at, size, axis) => at * size + (index[axis] ?? 0), 0);
}

export function indexOf(shape: readonly number[], element: number): number[] {
  const index: number[] = [];
  let rest = element;
  for (const size of [...shape].reverse()) {
    index.unshift(size > 0 ? rest % size : 0);
    rest = size > 0 ? Math.floor(rest / size) : 0;
  }
  return index;
}
