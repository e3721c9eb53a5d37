/** Reads one member of a zip in the browser: the central directory, stored and deflated members, nothing else. */
import { TraceError } from "../trace/reader.js";

const END = 0x06054b50;
const ENTRY = 0x02014b50;
const LOCAL = 0x04034b50;
const END_SIZE = 22;
const MOST_COMMENT = 0xffff;
const ZIP64 = 0xffffffff;
const STORED = 0;
const DEFLATED = 8;

/**
 * The highest compression ratio of a member, and the size up to which any ratio is accepted, as in `tapedebug/trace/_file.py`.
 */
const RATIO = 100;
const SMALL = 1 << 20;

interface Entry {
  readonly name: string;
  readonly method: number;
  readonly packed: number;
  readonly size: number;
  readonly crc: number;
  readonly offset: number;
}

export function isZip(bytes: Uint8Array): boolean {
  return bytes[0] === 0x50 && bytes[1] === 0x4b;
}

/**
 * Unpacks a member.
 *
 * @throws {TraceError} if there is none of that name, or the zip is damaged, or more than `limit` bytes would come out of it.
 */
export async function readMember(bytes: Uint8Array, name: string, limit: number): Promise<Uint8Array> {
  const entries = directory(bytes).filter((entry) => entry.name === name);
  const [entry] = entries;
  if (entry === undefined) throw new TraceError(`This zip contains no ${name}, so it is not a tapedebug trace.`);
  if (entries.length > 1) throw new TraceError(`The zip contains ${name} twice.`);
  if (entry.method !== STORED && entry.method !== DEFLATED) {
    throw new TraceError(`${name} uses a compression that traces do not use (zip method ${entry.method}).`);
  }
  if (entry.size === ZIP64 || entry.size > limit) {
    throw new TraceError(`${name} is ${count(entry.size)} bytes long; at most ${count(limit)} are opened.`);
  }
  const most = Math.min(limit, Math.max(SMALL, RATIO * entry.packed));
  if (entry.size > most) {
    throw new TraceError(
      `${name} claims to be ${count(entry.size)} bytes long, packed into ${count(entry.packed)}; at most ${count(most)} are read of that.`,
    );
  }
  const packed = data(bytes, entry);
  const content = entry.method === STORED ? packed : await inflate(packed, entry.size, name);
  if (content.length !== entry.size) {
    throw damaged(`${name} is ${count(content.length)} bytes long, not ${count(entry.size)}`);
  }
  if (crc32(content) !== entry.crc) throw damaged(`the checksum of ${name} does not match`);
  return content;
}

function damaged(why: string): TraceError {
  return new TraceError(`The zip is damaged: ${why}.`);
}

function count(value: number): string {
  return value.toLocaleString("en-US");
}

function view(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function directory(bytes: Uint8Array): Entry[] {
  const numbers = view(bytes);
  const end = endOf(numbers);
  const total = numbers.getUint16(end + 10, true);
  let at = numbers.getUint32(end + 16, true);
  const entries: Entry[] = [];
  for (let i = 0; i < total; i += 1) {
    if (at + 46 > bytes.length || numbers.getUint32(at, true) !== ENTRY) throw damaged("its list of members is broken");
    const nameLength = numbers.getUint16(at + 28, true);
    const next = at + 46 + nameLength + numbers.getUint16(at + 30, true) + numbers.getUint16(at + 32, true);
    if (next > bytes.length) throw damaged("its list of members is cut off");
    entries.push({
      name: new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + nameLength)),
      method: numbers.getUint16(at + 10, true),
      crc: numbers.getUint32(at + 16, true),
      packed: numbers.getUint32(at + 20, true),
      size: numbers.getUint32(at + 24, true),
      offset: numbers.getUint32(at + 42, true),
    });
    at = next;
  }
  return entries;
}

/** The record at the end, before a comment of any length. */
function endOf(numbers: DataView): number {
  const last = numbers.byteLength - END_SIZE;
  for (let at = last; at >= Math.max(0, last - MOST_COMMENT); at -= 1) {
    if (
      numbers.getUint32(at, true) === END &&
      at + END_SIZE + numbers.getUint16(at + 20, true) === numbers.byteLength
    ) {
      return at;
    }
  }
  throw damaged("its end is missing; the file was cut off, or is not a zip");
}

function data(bytes: Uint8Array, { name, offset, packed }: Entry): Uint8Array {
  const numbers = view(bytes);
  if (offset + 30 > bytes.length || numbers.getUint32(offset, true) !== LOCAL) {
    throw damaged(`${name} is not where the zip says`);
  }
  const start = offset + 30 + numbers.getUint16(offset + 26, true) + numbers.getUint16(offset + 28, true);
  if (start + packed > bytes.length) throw damaged(`${name} is cut off`);
  return bytes.subarray(start, start + packed);
}

/** Stops as soon as there is more output than was announced: the sizes in a zip prove nothing. */
async function inflate(packed: Uint8Array, size: number, name: string): Promise<Uint8Array> {
  const result = new Uint8Array(size);
  let at = 0;
  const source = new Blob([packed as Uint8Array<ArrayBuffer>]).stream();
  const reader = source.pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > size) {
        await reader.cancel();
        throw damaged(`${name} is longer than the ${count(size)} bytes that it claims`);
      }
      result.set(value, at);
      at += value.length;
    }
  } catch (error) {
    if (error instanceof TraceError) throw error;
    throw damaged(`${name} cannot be unpacked`);
  }
  return result.subarray(0, at);
}

let table: Uint32Array | undefined;

export function crc32(bytes: Uint8Array): number {
  if (table === undefined) {
    table = new Uint32Array(256);
    for (let i = 0; i < 256; i += 1) {
      let value = i;
      for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
      table[i] = value;
    }
  }
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ (table[(crc ^ byte) & 0xff] as number);
  return (crc ^ 0xffffffff) >>> 0;
}
