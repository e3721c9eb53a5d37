// @ts-expect-error: the types of Node are not part of this project
import { deflateRawSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { readTraceFile } from "../../src/lab/readTraceFile.js";
import { crc32, readMember } from "../../src/lab/zip.js";

const LIMIT = 10_000_000;
const encode = (text: string) => new TextEncoder().encode(text);

interface Member {
  name: string;
  data: Uint8Array;
  method?: number;
  size?: number;
  crc?: number;
  packed?: Uint8Array;
}

/** A zip as Python's zipfile writes it; anything about a member may be a lie. */
function zip(members: Member[], comment = ""): Uint8Array {
  const parts: Uint8Array[] = [];
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const { name, data, method = 8, ...lies } of members) {
    const packed = lies.packed ?? (method === 8 ? new Uint8Array(deflateRawSync(data)) : data);
    const head = (size: number, fixed: [number, number, 2 | 4][]) => {
      const bytes = new Uint8Array(size + encode(name).length);
      const view = new DataView(bytes.buffer);
      for (const [offset, value, width] of fixed) {
        if (width === 2) view.setUint16(offset, value, true);
        else view.setUint32(offset, value >>> 0, true);
      }
      bytes.set(encode(name), size);
      return bytes;
    };
    const crc = lies.crc ?? crc32(data);
    const size = lies.size ?? data.length;
    const local = head(30, [
      [0, 0x04034b50, 4],
      [8, method, 2],
      [14, crc, 4],
      [18, packed.length, 4],
      [22, size, 4],
      [26, encode(name).length, 2],
    ]);
    directory.push(
      head(46, [
        [0, 0x02014b50, 4],
        [10, method, 2],
        [16, crc, 4],
        [20, packed.length, 4],
        [24, size, 4],
        [28, encode(name).length, 2],
        [42, at, 4],
      ]),
    );
    parts.push(local, packed);
    at += local.length + packed.length;
  }
  const listed = directory.reduce((sum, one) => sum + one.length, 0);
  const end = new Uint8Array(22 + comment.length);
  const view = new DataView(end.buffer);
  view.setUint32(0, 0x06054b50, true);
  view.setUint16(10, members.length, true);
  view.setUint32(12, listed, true);
  view.setUint32(16, at, true);
  view.setUint16(20, comment.length, true);
  end.set(encode(comment), 22);
  return Uint8Array.from([...parts, ...directory, end].flatMap((one) => [...one]));
}

const TRACE = JSON.stringify({ format: "tapedebug-trace", name: "net", note: "é".repeat(300) });
const member = (patch: Partial<Member> = {}): Member => ({ name: "trace.json", data: encode(TRACE), ...patch });

describe("a trace file", () => {
  it("is unpacked, deflated or stored, with arrays and a comment beside it", async () => {
    for (const method of [0, 8]) {
      const file = zip([{ name: "a.bin", data: encode("1234"), method: 0 }, member({ method })], "a comment");
      expect(await readTraceFile(file, LIMIT)).toEqual(JSON.parse(TRACE));
    }
    expect(await readTraceFile(encode(TRACE), LIMIT)).toEqual(JSON.parse(TRACE));
  });

  it("knows the checksum of the standard", () => {
    expect(crc32(encode("123456789"))).toBe(0xcbf43926);
  });

  it.each([
    ["empty", new Uint8Array(), "The file is empty."],
    [
      "no trace",
      zip([member({ name: "other.json" })]),
      "This zip contains no trace.json, so it is not a tapedebug trace.",
    ],
    ["two traces", zip([member(), member()]), "The zip contains trace.json twice."],
    ["another method", zip([member({ method: 12 })]), "uses a compression that traces do not use (zip method 12)"],
    ["a wrong checksum", zip([member({ crc: 1 })]), "the checksum of trace.json does not match"],
    ["cut off", zip([member()]).subarray(0, -10), "its end is missing"],
    ["a bomb", zip([member({ size: 5_000_000 })]), "trace.json claims to be 5,000,000 bytes long, packed into"],
    ["too large", zip([member({ size: 50_000_000 })]), "is 50,000,000 bytes long; at most 10,000,000 are opened"],
    ["longer than it says", zip([member({ size: 10 })]), "trace.json is longer than the 10 bytes that it claims"],
    ["shorter than it says", zip([member({ size: 100_000 })]), "not 100,000"],
    ["no deflate", zip([member({ packed: encode("\u0007nonsense") })]), "trace.json cannot be unpacked"],
    ["no JSON", encode("{nonsense"), "The JSON is damaged"],
    ["no text", Uint8Array.from([0xff, 0xfe, 0, 1]), "neither a zip nor UTF-8 text"],
  ])("that is %s says so", async (_, file, message) => {
    await expect(readTraceFile(file, LIMIT)).rejects.toThrow(message);
    await expect(readTraceFile(file, LIMIT)).rejects.toMatchObject({ name: "TraceError" });
  });

  it("says so where its members are not where it claims", async () => {
    const file = zip([member()]);
    file[0] = 0;
    await expect(readMember(file, "trace.json", LIMIT)).rejects.toThrow("trace.json is not where the zip says");
  });

  it("never crashes on damage", async () => {
    const sound = zip([member()]);
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % below;
    };
    for (let i = 0; i < 300; i += 1) {
      const file = sound.slice();
      for (let k = 0; k < 3; k += 1) file[random(file.length)] = random(256);
      await readTraceFile(file, LIMIT).catch((error: Error) => expect(error.name).toBe("TraceError"));
    }
  });
});
