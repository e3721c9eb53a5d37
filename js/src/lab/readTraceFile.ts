/** Reads the bytes of a trace file. Independent of Jupyter. */
import { TraceError } from "../trace/reader.js";
import { isZip, readMember } from "./zip.js";

const MEMBER = "trace.json";

/**
 * The JSON in the bytes of a file.
 *
 * @throws {TraceError} if it cannot be read; the message says why.
 */
export async function readTraceFile(bytes: Uint8Array, limit: number): Promise<unknown> {
  if (bytes.length === 0) throw new TraceError("The file is empty.");
  const content = isZip(bytes) ? await readMember(bytes, MEMBER, limit) : bytes;
  if (content.length > limit) {
    const [size, most] = [content.length, limit].map((one) => one.toLocaleString("en-US"));
    throw new TraceError(`The trace is ${size} bytes long; at most ${most} are opened.`);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    throw new TraceError("This is neither a zip nor UTF-8 text, so it is not a tapedebug trace.");
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TraceError(`The JSON is damaged: ${error instanceof Error ? error.message : String(error)}.`);
  }
}
