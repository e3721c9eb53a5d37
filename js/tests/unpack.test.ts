import { describe, expect, it } from "vitest";
import { decompress } from "../src/trace/compressed.js";
import { openJson } from "../src/trace/json.js";
import { openTrace } from "../src/trace/open.js";
import { TraceError } from "../src/trace/reader.js";
import type { Packed } from "../src/trace/unpack.js";
import packedNet from "./fixtures/net.packed.json";
import net from "./fixtures/net.trace.json";
import packedRecorded from "./fixtures/recorded-preserve.packed.json";
import recorded from "./fixtures/recorded-preserve.trace.json";
import type { Json } from "./make.js";

type Columns = Record<string, Uint8Array>;

async function fresh(
  compressed: unknown = packedNet,
): Promise<{ head: Json; columns: Columns; specs: Record<string, Json> }> {
  const { head, columns } = (await decompress(structuredClone(compressed))) as Packed;
  const copy = Object.fromEntries(
    Object.entries(columns).map(([name, bytes]) => [name, (bytes as Uint8Array).slice()]),
  );
  return { head: head as Json, columns: copy, specs: head.columns as Record<string, Json> };
}

describe("packed traces", () => {
  it.each([
    ["net", packedNet, net],
    ["recorded-preserve", packedRecorded, recorded],
  ])("show %s as its JSON does", async (_, compressed, data) => {
    const packed = openTrace(await decompress(compressed));
    const json = openJson(data);
    expect(packed.problems).toEqual([]);
    expect({ ...packed.trace, backward: null }).toEqual({ ...json.trace, backward: null });
    expect([...Array.from(packed.trace.backward.order)]).toEqual(json.trace.backward.order);
    expect(packed.launchCount).toBe(json.launchCount);
    for (let i = 0; i < json.launchCount; i++) expect(packed.launch(i)).toEqual(json.launch(i));
    for (const { id } of json.trace.arrays) expect(packed.versions(id)).toEqual(json.versions(id));
    expect(packed.columns.versions.since).toEqual(json.columns.versions.since);
  });

  it("reads columns wherever they lie in a buffer", async () => {
    const { head, columns } = await fresh();
    const shifted = Object.fromEntries(
      Object.entries(columns).map(([name, bytes]) => {
        const buffer = new ArrayBuffer(bytes.length + 3);
        new Uint8Array(buffer).set(bytes, 3);
        return [name, new DataView(buffer, 3, bytes.length)];
      }),
    );
    expect(openTrace({ head, columns: shifted }).launch(3)).toEqual(openJson(net).launch(3));
  });

  it("says which entries point at nothing, and shows the rest", async () => {
    const { head, columns, specs } = await fresh();
    const set = (name: string, values: number[]): void => {
      specs[name] = { length: (specs[name] as Json).length, dtype: "i4" };
      columns[name] = new Uint8Array(Int32Array.from(values).buffer);
    };
    const launches = openJson(net).launchCount;
    set("launches.kernel", [99, -7, ...new Array(launches - 2).fill(0)]);
    set("launches.name", [12345, ...new Array(launches - 1).fill(0)]);
    specs["launches.kind"] = { length: launches, value: 77 };
    const model = openTrace({ head, columns });
    expect(model.problems.slice(0, 4)).toEqual([
      "trace.launches.kind[0] is 77, expected from 0 to 4",
      "trace.launches.kind[1] is 77, expected from 0 to 4",
      "trace.launches.kind[2] is 77, expected from 0 to 4",
      "trace.launches.kind[3] is 77, expected from 0 to 4",
    ]);
    expect(model.problems).toContain("trace.launches.kernel[0] is 99, expected from -1 to 4");
    expect(model.launch(0)).toMatchObject({ kind: "kernel", kernel: null, name: model.columns.strings[0] });
  });

  it.each([
    [
      "no column",
      (p: Json) => delete (p.specs as Json)["args.flags"],
      "cannot be shown: column args.flags is undefined",
    ],
    ["no bytes", (p: Json) => delete (p.columns as Json)["args.flags"], 'args.flags ("u1") has no bytes for'],
    [
      "too few bytes",
      (p: Json) => Object.assign(p.columns as Json, { "args.flags": new Uint8Array(3) }),
      'args.flags ("u1") has 3 bytes for',
    ],
    [
      "another length",
      (p: Json) => Object.assign((p.specs as Json)["launches.name"] as Json, { length: 3 }),
      "column launches.name has 3 entries instead of 11",
    ],
    [
      "a type of its own",
      (p: Json) => Object.assign((p.specs as Json)["args.flags"] as Json, { dtype: "constructor" }),
      'column args.flags ("constructor")',
    ],
    [
      "offsets that go back",
      (p: Json) => Object.assign(p.specs as Json, { "launches.args": { length: 12, first: 0, value: -1 } }),
      "damaged",
    ],
    [
      "no end of launches",
      (p: Json) => Object.assign(p.specs as Json, { "launches.kind": { length: 1e12, value: 0 } }),
      "too large to show: launches.kind has 1000000000000 entries",
    ],
    [
      "a schema to come",
      (p: Json) => Object.assign(p.head as Json, { schema: 2 }),
      "schema 2; this panel reads schema 1",
    ],
  ])("refuses data with %s", async (_, damage, message) => {
    const packed = await fresh();
    damage(packed as unknown as Json);
    const { head, columns } = packed;
    expect(() => openTrace({ head, columns })).toThrow(TraceError);
    expect(() => openTrace({ head, columns })).toThrow(message);
  });

  it("never hangs or breaks on random damage: a TraceError, or a model whose every index is sound", async () => {
    const whole = await fresh();
    let seed = 12345;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2 ** 31;
      return seed % below;
    };
    let shown = 0;
    for (let round = 0; round < 100; round++) {
      const { head, columns, specs } = structuredClone(whole);
      const names = Object.keys(columns);
      for (let hit = 0; hit <= random(3); hit++) {
        const name = names[random(names.length)] as string;
        const bytes = columns[name] as Uint8Array;
        if (random(4) === 0) Object.assign(specs[name] as Json, { dtype: ["u1", "i1", "i2", "f4"][random(4)] });
        else if (random(6) === 0) Object.assign(specs[name] as Json, { first: random(1000) - 500 });
        else for (let i = 0; i < 4; i++) bytes[random(bytes.length)] = random(256);
      }
      for (const key of ["strings", "places", "dims", "values", "arrays", "kernels"]) {
        if (random(40) === 0) head[key] = [[], null, "x", [1, null, {}]][random(4)];
      }
      try {
        const model = openTrace({ head: { ...head, columns: specs }, columns });
        walk(model);
        shown++;
      } catch (error) {
        expect(error).toBeInstanceOf(TraceError);
      }
    }
    expect(shown).toBeGreaterThan(20);
  }, 60_000);
});

/** MatrixState at everything, as views do; every index has to lead somewhere. */
function walk(model: ReturnType<typeof openTrace>): void {
  for (let i = 0; i < model.launchCount; i++) {
    const launch = model.launch(i);
    expect(typeof launch?.name).toBe("string");
    if (launch?.kernel != null) expect(model.kernel(launch)).not.toBeNull();
    for (const arg of launch?.args ?? []) if (arg.array !== null) expect(model.array(arg.array)).not.toBeNull();
    model.scopesOf(launch as never);
  }
  const { since, of } = model.columns.versions;
  for (const { id } of model.trace.arrays) {
    for (const version of model.versions(id)) {
      for (const at of [...version.reads, ...version.neededBy]) expect(model.launch(at)).not.toBeNull();
      expect(version.reads).toEqual([...version.reads].sort((a, b) => a - b));
    }
    for (let v = (of[id] as number) + 1; v < (of[id + 1] as number); v++) {
      expect(since[v] as number).toBeGreaterThanOrEqual(since[v - 1] as number);
    }
  }
  for (const scope of model.trace.scopes) expect(scope.last).toBeGreaterThanOrEqual(scope.first);
}

describe("compressed columns", () => {
  it("leaves what is not compressed as it is", async () => {
    for (const data of [null, 3, "x", net, { head: {}, columns: {} }]) expect(await decompress(data)).toBe(data);
  });

  it.each(["%%%", "aGVsbG8=", packedNet.columns.slice(0, 400), packedRecorded.columns])(
    "refuses damaged columns",
    async (columns) => {
      const error = await decompress({ head: packedNet.head, columns });
      expect(error).toBeInstanceOf(TraceError);
      expect(() => openTrace(error)).toThrow(error as TraceError);
    },
  );
});
