/** Packed traces inside of JSON, as reports and saved notebooks have them: all columns as one text, base64 of gzip. */
import { isRecord, type Raw, TraceError } from "./reader.js";
import { type Packed, widthOf } from "./unpack.js";

/** The most bytes of unpacked columns; anything longer was made to fill the browser's memory. */
const MOST_BYTES = 2_000_000_000;

interface Compressed {
  readonly head: Raw;
  readonly columns: string;
}

function isCompressed(data: unknown): data is Compressed {
  return isRecord(data) && isRecord(data.head) && typeof data.columns === "string";
}

/**
 * Return a saved trace in a form that panels accept. Data that is not compressed stays as it is; for damaged data, the error is
 * returned, which the panel shows.
 */
export async function decompress(data: unknown): Promise<unknown> {
  if (!isCompressed(data)) return data;
  try {
    const whole = await inflate(bytesOf(data.columns), expected(data.head));
    return { head: data.head, columns: apart(data.head, whole) };
  } catch (error) {
    if (error instanceof TraceError) return error;
    return new TraceError("The columns of this trace are damaged: they cannot be unpacked. Write it again.");
  }
}

/** Base64 as bytes; megabytes of it at a time. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

/** The browser undoes gzip by itself. */
async function inflate(packed: Uint8Array<ArrayBuffer>, size: number): Promise<Uint8Array> {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const whole = new Uint8Array(size);
  let at = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (at + part.value.length > size) throw new TraceError(`This trace is damaged: it has more than ${size} bytes.`);
    whole.set(part.value, at);
    at += part.value.length;
  }
  if (at !== size) throw new TraceError(`This trace is damaged: it has ${at} bytes of ${size}.`);
  return whole;
}

function sizeOf(spec: unknown): number {
  if (!isRecord(spec) || typeof spec.length !== "number" || !(spec.length >= 0)) return 0;
  return widthOf(spec.dtype) * (spec.first === undefined ? spec.length : Math.max(0, spec.length - 1));
}

function expected(head: Raw): number {
  let size = 0;
  for (const spec of Object.values(isRecord(head.columns) ? head.columns : {})) size += sizeOf(spec);
  if (!Number.isSafeInteger(size) || size > MOST_BYTES) throw new TraceError("This trace is too large to show.");
  return size;
}

function apart(head: Raw, whole: Uint8Array): Packed["columns"] {
  const columns: Record<string, Uint8Array> = {};
  let at = 0;
  // by name: Jupyter sorts the keys of what it saves
  const specs = Object.entries(isRecord(head.columns) ? head.columns : {}).sort(([a], [b]) => (a < b ? -1 : 1));
  for (const [name, spec] of specs) {
    const size = sizeOf(spec);
    if (size > 0) columns[name] = whole.subarray(at, at + size);
    at += size;
  }
  return columns;
}
