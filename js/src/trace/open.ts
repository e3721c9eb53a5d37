/** What a panel is handed as a trace, packed or as JSON, and the model of it. */
import { TraceModel } from "./model.js";
import { parseTrace } from "./parse.js";
import { isRecord, type Raw, TraceError } from "./reader.js";
import { isPacked, unpack } from "./unpack.js";

/**
 * Checks a trace and indexes it.
 *
 * @throws {TraceError} if it is no trace at all, or one that this panel is too old for.
 */
export function openTrace(data: unknown): TraceModel {
  if (data instanceof TraceError) throw data; // of a file that could not be read so far
  if (isPacked(data)) {
    const { trace, columns, problems } = unpack(data);
    return new TraceModel(trace, problems, columns);
  }
  const { trace, problems } = parseTrace(data);
  return new TraceModel(trace, problems);
}

/** What there is little of (name, verdict, arrays, findings), in either form, and not checked. */
export function headOf(data: unknown): Raw {
  if (isPacked(data)) return data.head;
  return isRecord(data) ? data : {};
}
