import { describe, expect, it } from "vitest";
import { openJson, parseTrace } from "../src/trace/json.js";
import wrong from "./fixtures/net.trace.json";
import kept from "./fixtures/net-40-preserve.trace.json";
import recordedWrong from "./fixtures/recorded-ignore.trace.json";
import recordedKept from "./fixtures/recorded-preserve.trace.json";
import { type Json, makeNet } from "./make.js";

function list(data: Json, key: string): Json[] {
  return data[key] as Json[];
}

describe("columnsOf", () => {
  it.each([
    ["net", wrong],
    ["net-40-preserve", kept],
    ["recorded-ignore", recordedWrong],
    ["recorded-preserve", recordedKept],
    ["made", makeNet({ steps: 9, mode: "preserve", extra: 3 })],
  ])("gives back the launches and versions of %s as they were read", (_, data) => {
    const { trace } = parseTrace(data);
    const model = openJson(data);
    const launches = trace.launches.map((launch) => model.launch(launch.index));
    expect(launches).toEqual(trace.launches);
    const versions = trace.arrays.flatMap(({ id }) => model.versions(id));
    const order = [...trace.versions].sort((a, b) => a.array - b.array || a.version - b.version);
    expect(versions).toEqual(order);
    for (const version of order) expect(model.version(version.array, version.version)).toEqual(version);
    expect(model.launch(trace.launches.length)).toBeNull();
    expect(model.version(0, 10_000)).toBeNull();
  });

  it("lets versions that were written outside of the tape stand from their first reader on", () => {
    const data = makeNet();
    const force = list(data, "versions").filter((version) => version.array === 4);
    expect(force.map((version) => version.written_by)).toEqual([null, 1, 3, 5]);
    Object.assign(force[2] as Json, { written_by: null });
    const model = openJson(data);
    const { of, since } = model.columns.versions;
    expect([...since.subarray(of[4], of[5])]).toEqual([-1, 1, 4, 5]);
    expect([0, 1, 3, 4, 5].map((launch) => model.versionAt(4, launch)?.version)).toEqual([0, 1, 1, 2, 3]);
  });

  it("puts what hostile data has in any order into order", () => {
    const data = makeNet();
    list(data, "versions").reverse();
    Object.assign(list(data, "versions")[0] as Json, { reads: [7, 2, 5], needed_by: [5, 2] });
    const { array } = list(data, "versions")[0] as { array: number };
    const model = openJson(data);
    expect(model.versions(array).map((version) => version.version)).toEqual([0, 1]);
    expect(model.latest(array)?.reads).toEqual([2, 5, 7]);
    expect(model.latest(array)?.neededBy).toEqual([2, 5]);
  });

  it("finds versions whose numbers have gaps", () => {
    const data = makeNet();
    for (const version of list(data, "versions")) version.version = (version.version as number) * 10;
    const model = openJson(data);
    expect(model.version(4, 20)?.writtenBy).toBe(3);
    expect(model.version(4, 2)).toBeNull();
  });
});

describe("groups of launches", () => {
  it("counts them by name and by line, and walks on from one to the next", () => {
    const model = openJson(makeNet());
    const names = model.launchNames();
    expect(names.map(({ name, count }) => [name, count])).toEqual([
      ["launch_net", 1],
      ["spring", 3],
      ["integrate", 3],
      ["target_loss", 1],
    ]);
    expect([-1, 1, 3, 5, 7].map((launch) => names[1]?.after(launch))).toEqual([1, 3, 5, 1, 1]);
    const sites = model.launchSites((file, line) => `${file.slice(-6)}:${line}`);
    expect(sites.map(({ name, count }) => `${name} ${count}`)).toEqual([
      "net.py:80 1",
      "net.py:81 3",
      "net.py:82 3",
      "net.py:83 1",
    ]);
  });
});

describe("scopes", () => {
  it("survive a nesting of 100,000", () => {
    const data = makeNet();
    const count = 100_000;
    data.scopes = Array.from({ length: count }, (_, id) => ({
      id,
      name: "in",
      parent: id + 1 < count ? id + 1 : null,
      first: 0,
      last: 1,
    }));
    const model = openJson(data);
    expect(model.scopeDepth[0]).toBe(count - 1);
    const launch = model.launch(1) as NonNullable<ReturnType<typeof model.launch>>;
    expect(model.scopesOf({ ...launch, scope: 0 })).toHaveLength(count);
  });
});
