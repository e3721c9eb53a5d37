/** The lanes without a canvas: bands of scopes and sequences, events around the tape, keys, and what is there as text. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import { NOTHING, PanelStore } from "../src/trace/store.js";
import { type Band, bandAround, buildBands, eachBand, shownRows } from "../src/views/lanes/bands.js";
import { MergedSpans, SpacedMarks } from "../src/views/lanes/batchPainter.js";
import { buildEvents, eventLines, hitEvents } from "../src/views/lanes/events.js";
import { BAR, type Geometry, x } from "../src/views/lanes/geometry.js";
import { LaunchAxis } from "../src/views/lanes/launchAxis.js";
import { mountPanel } from "../src/views/panel.js";
import { type Json, makeNet } from "./make.js";

function geometry(columns: LaunchAxis, scale: number, left = 0, width = 600): Geometry {
  return {
    width: width + 108,
    height: 400,
    gutter: 100,
    head: 40,
    lane: 40,
    columns,
    viewport: { left, scale, top: 0 },
  };
}

function scope(id: number, parent: number | null, first: number, last: number): Json {
  return { id, name: `scope ${id}`, parent, first, last };
}

function event(patch: Json): Json {
  const site = { file: "/home/ada/net.py", line: 33, column: 4, function: "train" };
  return {
    kind: "write",
    clock: 1,
    at: 0,
    of: "values",
    array: 1,
    how: "numpy",
    call_site: site,
    tape: 3,
    again: false,
    settled: false,
    numbers: {},
    ...patch,
  };
}

const names = (bands: readonly Band[]): string[] =>
  bands.map((band) => (band.kind === "scope" ? band.scope.name : `×${band.sequence.count}`));

describe("bands", () => {
  /** Five scopes one in the other, and a second one at each depth. */
  function nested(): TraceModel {
    const scopes: Json[] = [];
    for (let depth = 0; depth < 5; depth++) {
      scopes.push(scope(2 * depth, depth === 0 ? null : 2 * depth - 2, 0, 63 >> depth));
      scopes.push(scope(2 * depth + 1, depth === 0 ? null : 2 * depth - 2, (63 >> depth) + 1, (63 >> depth) + 1));
    }
    return openJson({ ...makeNet({ steps: 40 }), scopes, sequences: [] });
  }

  it("shows the outer scopes of a whole tape, and those within as one zooms in", () => {
    const bands = buildBands(nested());
    expect(bands.scopes).toHaveLength(5);
    const columns = new LaunchAxis(82);
    const shown = (scale: number): string[] =>
      shownRows(geometry(columns, scale), bands).map((row) => names(row.bands)[0] as string);
    expect(shown(3)).toEqual(["scope 0", "scope 2", "scope 4"]);
    expect(shown(15)).toEqual(["scope 2", "scope 4", "scope 6"]); // 40 launches: all in the first scope
    expect(shown(100)).toEqual(["scope 4", "scope 6", "scope 8"]);
  });

  it("draws one of thousands of scopes that share a few pixels", () => {
    const scopes = Array.from({ length: 5000 }, (_, i) => scope(i, null, i, i));
    const model = openJson({ ...makeNet({ steps: 2500 }), scopes });
    const [row] = buildBands(model).scopes;
    if (!row) throw new Error("there are scopes");
    let visits = 0;
    eachBand(geometry(new LaunchAxis(5002), 0.06), row, () => visits++);
    expect(visits).toBeGreaterThan(50);
    expect(visits).toBeLessThan(160);
  });

  it("survives scopes that are each other's parent, and a hundred thousand one in the other", () => {
    const circle = [scope(0, 1, 0, 5), scope(1, 0, 0, 5)];
    expect(buildBands(openJson({ ...makeNet(), scopes: circle })).scopes.length).toBeGreaterThan(0);
    const deep = Array.from({ length: 100_000 }, (_, i) => scope(i, i === 0 ? null : i - 1, 0, 7));
    expect(buildBands(openJson({ ...makeNet(), scopes: deep })).scopes.length).toBeLessThan(100);
  });

  it("gives a sequence within another a row of its own", () => {
    const sequences = [
      { first: 0, length: 40, count: 2 },
      { first: 0, length: 4, count: 10 },
    ];
    const bands = buildBands(openJson({ ...makeNet({ steps: 40 }), sequences }));
    expect(bands.sequences.map((row) => names(row.bands))).toEqual([["×2"], ["×10"]]);
    expect(bandAround(bands, 12)?.count).toBe(10);
    expect(bandAround(bands, 50)?.count).toBe(2);
    expect(bandAround(bands, 81)).toBeNull();
  });
});

describe("marks that crowd", () => {
  it("are one run where they touch, in either direction", () => {
    const ctx: number[][] = [];
    const canvas = { fillRect: (...box: number[]) => ctx.push(box) } as unknown as CanvasRenderingContext2D;
    const runs = new MergedSpans();
    for (const at of [0, 1, 2, 10, 11]) runs.add(at, at + 1);
    runs.fill(canvas, "red", 5, 3);
    expect(ctx).toEqual([
      [0, 5, 3, 3],
      [10, 5, 2, 3],
    ]);
    const back = new MergedSpans();
    for (const at of [11, 10, 2, 1, 0]) back.add(at, at + 1);
    ctx.length = 0;
    back.fill(canvas, "red", 5, 3);
    expect(ctx).toEqual([
      [10, 5, 2, 3],
      [0, 5, 3, 3],
    ]);
  });

  it("know how much room they have", () => {
    const places = new SpacedMarks();
    for (const at of [0, 2, 12]) places.add(at);
    const rooms: number[] = [];
    places.each((_, room) => rooms.push(room));
    expect(rooms).toEqual([2, 2, 10]);
  });
});

describe("events around the tape", () => {
  const data = makeNet();
  data.events = [
    event({ kind: "zero", at: 0, of: "gradient", how: "zero_" }),
    event({ at: 4, clock: 2 }),
    event({ at: 4, clock: 3, array: 2 }),
    event({ kind: "backward", of: "tape", array: null, at: 8, clock: 4, numbers: { pass: 1 } }),
    event({ kind: "read", of: "gradient", at: 8, clock: 5, numbers: { norm: 2.5 } }),
    event({ kind: "write", at: 8, clock: 6, settled: true, how: "<b>" }),
  ];
  const model = openJson(data);
  const marks = buildEvents(model);

  it("are placed before a launch, between the passes, or behind them", () => {
    expect(marks.get(1)?.map(({ at, phase, events }) => [at, phase, events.length])).toEqual([
      [0, "forward", 1],
      [4, "forward", 1],
      [8, "after", 2],
    ]);
    expect(marks.get(null)?.map(({ phase }) => phase)).toEqual(["pass"]);
  });

  it("are found under the pointer, and say what happened, when and from where", () => {
    const view = geometry(new LaunchAxis(8), 20);
    const at = (launch: number): readonly string[] =>
      eventLines(model, hitEvents(view, marks.get(1) ?? [], 60, x(view, launch) + 3, 60 + BAR / 2 + 6));
    expect(at(0)).toEqual(["gradient of x set to one value (zero_)", "before launch 0 · net.py:33 train"]);
    expect(at(4)).toEqual(["x written outside the tape (numpy)", "before launch 4 · net.py:33 train"]);
    expect(at(17)).toEqual([
      "gradient of x read (numpy): ‖·‖ 2.5",
      "after the last launch · net.py:33 train",
      "x written outside the tape (<b>), after a reverse pass: an optimiser's step, most likely",
      "after the last launch · net.py:33 train",
    ]);
    expect(at(6)).toEqual([]);
  });
});

describe("the lanes in a panel", () => {
  let host: HTMLElement;
  let store: PanelStore;
  let unmount: () => void = () => {};
  beforeEach(() => {
    host = document.createElement("div");
    document.body.append(host);
    const data = makeNet({ steps: 40 });
    data.events = [event({ at: 3 })];
    store = new PanelStore({ trace: openJson(data) });
    unmount = mountPanel(host, store);
  });
  afterEach(() => {
    unmount();
    host.remove();
  });
  const press = (key: string): void => {
    const canvas = host.querySelector(".td-canvas") as HTMLElement;
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  };
  const around = async (): Promise<string> => {
    await new Promise((resolve) => requestAnimationFrame(resolve));
    await new Promise((resolve) => requestAnimationFrame(resolve));
    return host.querySelector(".td-around")?.textContent ?? "";
  };

  it("go to both ends of time, and from lane to lane", () => {
    press("End");
    expect(store.get("selection").launch).toBe(0); // the last that the reverse pass meets
    expect(host.querySelector(".td-scrub-text")?.textContent).toBe("launch 0 backward");
    press("Home");
    expect(host.querySelector(".td-scrub-text")?.textContent).toBe("launch 0");
    press("ArrowDown");
    expect(store.get("selection")).toMatchObject({ array: 0, version: 0 });
    press("ArrowDown");
    expect(store.get("selection")).toMatchObject({ array: 1, version: 0 });
    press("ArrowUp");
    expect(store.get("selection")).toMatchObject({ array: 0, version: 0 });
  });

  it("unfold with Enter what the selected launch is folded in, and fold it again", () => {
    store.select({ launch: 40 });
    const said: string[] = [];
    const live = host.querySelector("[aria-live=polite].td-sr") as HTMLElement;
    press("Enter");
    said.push(live.textContent ?? "");
    press("Enter");
    said.push(live.textContent ?? "");
    expect(said).toEqual(["unfolded", "folded"]);
  });

  it("are there as text around the selection, for those who cannot see a canvas", async () => {
    store.select({ launch: 3, array: 1, version: 0 });
    const text = await around();
    expect(text).toContain("Launches around 3");
    expect(text).toContain("launch 3spring");
    expect(text).toContain("Versions of x");
    expect(text).toContain("the adjoint of launch 1 needs these values");
    expect(text).toContain("x written outside the tape (numpy); before launch 3 · net.py:33 train");
    const go = [...host.querySelectorAll<HTMLElement>(".td-around button")].find((b) => b.textContent === "launch 5");
    go?.click();
    expect(store.get("selection").launch).toBe(5);
    store.set({ selection: NOTHING });
    expect(await around()).toContain("Launches around 0");
  });
});
