/** Reads the data that a panel receives as a trace. */
import { TraceModel } from "./model.js";
import { describe, isRecord, type Raw, TraceError } from "./reader.js";
import { FORMAT, isPacked, unpack } from "./unpack.js";

/**
 * Checks a packed trace and indexes it; what has been opened already (`json.ts`) stays as it is.
 *
 * @throws {TraceError} if it is not a trace, or if this panel is too old for it.
 */
export function openTrace(data: unknown): TraceModel {
  if (data instanceof TraceModel) return data;
  if (data instanceof TraceError) throw data; // the file could not be read
  if (!isPacked(data)) throw new TraceError(`This is not a tapedebug trace: it is ${describeHead(data)}.`);
  const { trace, columns, problems } = unpack(data);
  return new TraceModel(trace, columns, problems);
}

function describeHead(data: unknown): string {
  const head = isRecord(data) && isRecord(data.head) ? data.head : data;
  if (!isRecord(head)) return `${describe(head)}, not an object`;
  return `of the format ${describe(head.format)}, not "${FORMAT}"`;
}

/** The small fields (name, verdict, arrays, findings), not checked. */
export function headOf(data: unknown): Raw {
  return isPacked(data) ? data.head : {};
}
