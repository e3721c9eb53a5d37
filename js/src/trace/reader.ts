/**
 * Reads untrusted values. A trace comes from a file, a notebook's metadata or another program: each field is
 * checked as it is read, an invalid one is replaced by a harmless value and its path is noted, so that the rest can still be shown.
 */

/** The longest text kept of any one field; a label of megabytes would stall every layout that it takes part in. */
export const MAX_TEXT = 10_000;
const MAX_PROBLEMS = 50;

export class TraceError extends Error {
  override name = "TraceError";
}

export type Raw = Readonly<Record<string, unknown>>;

const NON_FINITE: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  inf: Number.POSITIVE_INFINITY,
  "-inf": Number.NEGATIVE_INFINITY,
};

export function isRecord(value: unknown): value is Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  const text = typeof value === "string" ? JSON.stringify(value) : String(value);
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}

/** Characters that reverse the direction of text: text after a name must not read as something else. */
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function clip(text: string, most = MAX_TEXT): string {
  const all = text.length <= most;
  const kept = (all ? text : text.slice(0, most)).replace(TURNING, "\ufffd");
  return all ? kept : `${kept}… (${text.length - most} more characters not shown)`;
}

export class Reader {
  readonly problems: string[] = [];
  private dropped = 0;

  /** All problems as sentences, at most a screenful. */
  report(): string[] {
    return this.dropped === 0 ? this.problems : [...this.problems, `… and ${this.dropped} more`];
  }

  problem(path: string, expected: string, value: unknown): void {
    if (this.problems.length >= MAX_PROBLEMS) this.dropped++;
    else this.problems.push(`${path} is ${describe(value)}, expected ${expected}`);
  }

  text(raw: Raw, key: string, path: string, fallback = ""): string {
    const value = raw[key];
    if (typeof value === "string") return clip(value);
    if (value !== undefined) this.problem(`${path}.${key}`, "text", value);
    return fallback;
  }

  textOrNull(raw: Raw, key: string, path: string, most = MAX_TEXT): string | null {
    const value = raw[key];
    if (typeof value === "string") return clip(value, most);
    if (value !== undefined && value !== null) this.problem(`${path}.${key}`, "text or null", value);
    return null;
  }

  flag(raw: Raw, key: string, path: string): boolean {
    const value = raw[key];
    if (typeof value === "boolean") return value;
    if (value !== undefined) this.problem(`${path}.${key}`, "true or false", value);
    return false;
  }

  /** A whole number that is not negative. */
  count(raw: Raw, key: string, path: string, fallback = 0): number {
    const value = raw[key];
    if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return value;
    if (value !== undefined) this.problem(`${path}.${key}`, "a whole number from 0", value);
    return fallback;
  }

  /** An index below `limit`, or null. */
  index(raw: Raw, key: string, path: string, limit: number): number | null {
    const value = raw[key];
    if (value === null || value === undefined) return null;
    if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit) return value;
    this.problem(`${path}.${key}`, limit > 0 ? `null or an index from 0 to ${limit - 1}` : "null", value);
    return null;
  }

  number(raw: Raw, key: string, path: string): number | null {
    const value = raw[key];
    if (typeof value === "number") return value;
    if (value === null || value === undefined) return null;
    const special = typeof value === "string" ? NON_FINITE[value] : undefined;
    if (special !== undefined) return special;
    this.problem(`${path}.${key}`, "a number", value);
    return null;
  }

  oneOf<T extends string>(raw: Raw, key: string, path: string, options: readonly T[], fallback: T): T {
    const value = raw[key];
    if (options.includes(value as T)) return value as T;
    if (value !== undefined) this.problem(`${path}.${key}`, `one of ${options.join(", ")}`, value);
    return fallback;
  }

  list(raw: Raw, key: string, path: string): readonly unknown[] {
    const value = raw[key];
    if (Array.isArray(value)) return value;
    if (value !== undefined && value !== null) this.problem(`${path}.${key}`, "a list", value);
    return [];
  }

  /** The whole numbers from 0, below `limit`, of a list; others are left out. */
  indices(raw: Raw, key: string, path: string, limit = Number.MAX_SAFE_INTEGER): number[] {
    const result: number[] = [];
    for (const value of this.list(raw, key, path)) {
      if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value < limit) result.push(value);
      else
        this.problem(
          `${path}.${key}`,
          limit === Number.MAX_SAFE_INTEGER ? "whole numbers from 0" : `indices below ${limit}`,
          value,
        );
    }
    return result;
  }

  texts(raw: Raw, key: string, path: string, most = MAX_TEXT): string[] {
    const result: string[] = [];
    for (const value of this.list(raw, key, path)) {
      if (typeof value === "string") result.push(clip(value, most));
      else this.problem(`${path}.${key}`, "a list of text", value);
    }
    return result;
  }

  /** Reads each object of a list with `read`; other items are left out. */
  records<T>(raw: Raw, key: string, path: string, read: (item: Raw, path: string, index: number) => T | null): T[] {
    const result: T[] = [];
    const list = this.list(raw, key, path);
    for (let i = 0; i < list.length; i++) {
      const item = list[i];
      const at = `${path}.${key}[${i}]`;
      const value = isRecord(item) ? read(item, at, i) : null;
      if (value !== null) result.push(value);
      else if (!isRecord(item)) this.problem(at, "an object", item);
    }
    return result;
  }
}
