/** The memory view: what overwritten values that adjoints need cost, by region and along the launches, and how it is walked through. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import { PanelStore } from "../src/trace/store.js";
import { byteSize } from "../src/views/format.js";
import { bytesAfter, readMemoryUse, sum } from "../src/views/memory/data.js";
import { memoryLegend } from "../src/views/memory/legend.js";
import { launchAt } from "../src/views/memory/paint.js";
import { mountPanel } from "../src/views/panel.js";
import tape from "./fixtures/net-40-preserve.trace.json" with { type: "json" };
import { type Json, makeNet } from "./make.js";

type Change = (trace: { arrays: Json[]; versions: Json[]; tape: Json }) => void;

function trace(options: Parameters<typeof makeNet>[0] = {}, change: Change = () => {}): TraceModel {
  const made = makeNet(options);
  change(made as unknown as Parameters<Change>[0]);
  return openJson(made);
}

describe("what memory costs", () => {
  it("counts copies by region, those that cost most first", () => {
    const use = readMemoryUse(trace({ steps: 5, mode: "preserve" }));
    const names = ["throw", "x", "x_next", "v", "force", "loss"];
    expect(use.regions.map(({ array, total }) => [names[array], total.copied])).toEqual([
      ["x", 6144],
      ["x_next", 6144],
      ["throw", 0],
      ["v", 0],
      ["force", 0],
      ["loss", 0],
    ]);
    expect(use.total).toEqual({ copied: 12288, recomputed: 0, lost: 0 });
    expect(use.bytes).toBe(6 * 3072);
  });

  it("adds them up along the launches that overwrite", () => {
    const { growth } = readMemoryUse(trace({ steps: 5, mode: "preserve" }));
    expect(growth.launches).toEqual([4, 6, 8, 10]);
    expect([0, 3, 4, 5, 6, 99].map((launch) => bytesAfter(growth, launch).copied)).toEqual([
      0, 0, 3072, 3072, 6144, 12288,
    ]);
  });

  it("tells lost values and values that are computed again from copies", () => {
    expect(readMemoryUse(trace({ steps: 5 })).total).toEqual({ copied: 0, recomputed: 0, lost: 12288 });
    const again = trace({ steps: 5, mode: "preserve" }, ({ versions }) => {
      const first = versions.find((version) => version.preserved);
      Object.assign(first ?? {}, { preserved: false, recomputed: true });
    });
    expect(readMemoryUse(again).total).toEqual({ copied: 9216, recomputed: 3072, lost: 0 });
    const warned = trace({ steps: 5 }, ({ versions }) => {
      for (const version of versions) if (version.status === "lost") version.preserved = true; // as evidence
    });
    expect(readMemoryUse(warned).total).toEqual({ copied: 0, recomputed: 0, lost: 12288 });
  });

  it("counts memory that several arrays share once", () => {
    const shared = trace({ steps: 5, mode: "preserve", extra: 1 }, ({ arrays, versions }) => {
      Object.assign(arrays[6] ?? {}, { label: "half of x", buffer: 1, start: 0, stop: 1536, parent: 1 });
      const parameter = versions.findIndex((version) => version.array === 6);
      const views = versions
        .filter((version) => version.array === 1)
        .map((version) => ({ ...version, array: 6, value: null, adjoint: null }));
      versions.splice(parameter, 1, ...views);
    });
    const { regions, total } = readMemoryUse(shared);
    expect(regions[0]).toMatchObject({ array: 1, views: 1, bytes: 3072, total: { copied: 6144 } });
    expect(total.copied).toBe(12288);
  });

  it("comes to what the tape itself says that it keeps", () => {
    const model = openJson(tape);
    const { total, regions } = readMemoryUse(model);
    expect(total.copied).toBe(model.trace.tape.preservedBytes);
    expect(total.copied).toBeGreaterThan(0);
    expect(regions.reduce((all, { total }) => all + sum(total), 0)).toBe(sum(total));
    const owners = model.trace.arrays.filter(({ parent }) => parent === null);
    expect(regions.reduce((all, { bytes }) => all + bytes, 0)).toBe(owners.reduce((all, a) => all + byteSize(a), 0));
  });

  it("finds the launch at a pixel", () => {
    const span = { from: 10, to: 20 };
    expect([0, 99, 100, 995].map((px) => launchAt(span, 1000, px))).toEqual([10, 10, 11, 19]);
  });
});

describe("the memory view", () => {
  let host: HTMLElement;
  let store: PanelStore;
  let unmount: () => void;
  const mount = (model: TraceModel): void => {
    store = new PanelStore({ trace: model });
    unmount = mountPanel(host, store);
    host.querySelector(".tapedebug")?.dispatchEvent(new KeyboardEvent("keydown", { key: "m", bubbles: true }));
  };
  const text = (selector: string): string => host.querySelector(selector)?.textContent ?? "";
  const rows = (): string[][] =>
    [...host.querySelectorAll(".td-mem-table tbody tr")].map((row) =>
      [...row.querySelectorAll("th, td")].slice(0, 4).map((cell) => cell.textContent ?? ""),
    );
  const press = (key: string): void => {
    document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  };
  beforeEach(() => {
    host = document.createElement("div");
    document.body.append(host);
  });
  afterEach(() => {
    unmount();
    host.remove();
  });

  it("says what the tape keeps, and shows a row for each region", () => {
    mount(trace({ steps: 5, mode: "preserve" }));
    expect(text(".td-mem-says")).toBe(
      "Arrays: 18 kB in 6 regions. Copies for the reverse pass: 12 kB of 4 versions. x has 50 % of these bytes.",
    );
    expect(rows().slice(0, 3)).toEqual([
      ["x", "3.1 kB", "3", "6.1 kB copied"],
      ["x_next", "3.1 kB", "4", "6.1 kB copied"],
      ["throw", "3.1 kB", "1", "–"],
    ]);
    const [x, , other] = [...host.querySelectorAll(".td-mem-table tbody canvas")].map(
      (one) => one.ariaLabel ?? one.getAttribute("aria-label"),
    );
    expect(x).toBe("needed versions overwritten by launches 4, 8");
    expect(other).toBe("no version that an adjoint needs is overwritten");
  });

  it("says what there is after the selected launch, and which budget would be full there", () => {
    mount(trace({ steps: 5, mode: "preserve" }));
    store.select({ launch: 6 });
    expect(text(".td-mem-here")).toBe(
      "After launch 6 (integrate): 6.1 kB copied. A memory_budget below 12 kB would be full here: half of it is for copies.",
    );
    store.select({ launch: 1 });
    expect(text(".td-mem-here")).toBe("After launch 1 (spring): nothing that an adjoint needs is overwritten yet.");
  });

  it("says what is lost without copies", () => {
    mount(trace({ steps: 5 }));
    expect(text(".td-mem-says")).toContain('Lost: 12 kB that adjoints need; on_overwrite="preserve" would copy them.');
    expect(rows()[0]?.[3]).toBe("6.1 kB lost");
  });

  it("says so where nothing is overwritten", () => {
    mount(trace({ steps: 1, mode: "preserve" }));
    expect(text(".td-mem-says")).toContain("No launch overwrites values that an adjoint needs");
    expect(memoryLegend(trace({ steps: 1 })).filter(({ count }) => count === 0)).toHaveLength(3);
  });

  it("draws the bytes in the legend as in the curve: solid copies, striped losses", () => {
    const drawn = (model: TraceModel): (string | null)[] =>
      (memoryLegend(model).at(-1)?.draw ?? []).map((shape) => shape.getAttribute("class"));
    expect(drawn(trace({ steps: 5, mode: "preserve" }))).toEqual(["td-mem-copied"]);
    expect(drawn(trace({ steps: 5 }))).toEqual(["td-mem-lost", "td-s-red"]);
    const both = trace({ steps: 5, mode: "preserve" }, ({ versions }) => {
      Object.assign(versions.find((version) => version.preserved) ?? {}, { preserved: false, status: "lost" });
    });
    expect(drawn(both)).toEqual(["td-mem-copied", "td-mem-lost", "td-s-red"]);
  });

  it("is walked through with the keyboard: regions, and the overwritten versions of one", () => {
    mount(trace({ steps: 5, mode: "preserve" }));
    const heads = [...host.querySelectorAll<HTMLElement>(".td-mem-name")];
    expect(heads.map((head) => head.tabIndex)).toEqual([0, -1, -1, -1, -1, -1]);
    heads[0]?.focus();
    press("ArrowDown");
    expect(document.activeElement).toBe(heads[1]);
    press("End");
    expect(document.activeElement).toBe(heads[5]);
    press("Home");
    expect(document.activeElement).toBe(heads[0]);
    const chosen = (): unknown[] => {
      const { array, version, launch } = store.get("selection");
      return [array, version, launch];
    };
    heads[0]?.click();
    expect(chosen()).toEqual([1, 0, 4]);
    heads[0]?.click();
    expect(chosen()).toEqual([1, 1, 8]);
    heads[0]?.click();
    expect(chosen()).toEqual([1, 0, 4]);
    expect(host.querySelector(".td-mem-chosen .td-mem-name")).toBe(heads[0]);
  });
});
