import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import { type Answer, type MaskEntry, NOTHING, type PanelState, PanelStore, Unanswered } from "../src/trace/store.js";
import { fetchChunks, holdChunks } from "../src/views/chunks.js";
import { type HeatColours, heatBar, heatScale, heatShade } from "../src/views/colormap.js";
import { ANSWER_SECONDS, HEARTBEAT_TIMEOUT } from "../src/views/heartbeat.js";
import { jacobianChunk } from "../src/views/jacobian/chunk.js";
import { cellColour, errorShade } from "../src/views/jacobian/colours.js";
import { cellAt, entryName, entryNumbers, readJacobian } from "../src/views/jacobian/data.js";
import { fieldCells, fieldShape, linesOf } from "../src/views/jacobian/field.js";
import { asked, clamped, closeTo, following, whole, zoomed } from "../src/views/jacobian/window.js";
import { mountPanel } from "../src/views/panel.js";
import { makeNet } from "./make.js";

const EVIL = "</script><img src=x onerror=alert(1)>";
const PAIR: MaskEntry = [1, "x", "force"];

function bytes(array: ArrayBufferView): DataView {
  // not aligned, as in a message with several buffers
  const padded = new Uint8Array(array.byteLength + 3);
  padded.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), 3);
  return new DataView(padded.buffer, 3);
}

/** A Jacobian of two vec2 by one vec2, with a wrong entry at (3, 1) and one that was not evaluated at (0, 1). */
function answer(more: Record<string, unknown> = {}): Answer {
  const fd = [1, Number.NaN, 0, -2, 0, 0, 0, 4];
  const ad = [1, Number.NaN, 0, -2, 0, 0, 0, 1];
  const buffers = [
    new Float64Array(ad),
    new Float64Array(fd),
    new Float64Array(fd.map((value, i) => Math.abs(value - (ad[i] as number)))),
    new Float64Array(8).fill(1e-9),
    new Int32Array([0, -1, 1, 1, 2, 2, 3, 3]),
    new Int32Array([0, -1, 0, 1, 0, 1, 0, 1]),
    new Uint8Array([1, 0, 1, 1, 1, 2, 1, 1]),
  ];
  const names = ["ad", "fd", "error", "bar", "row", "column", "known"];
  return {
    data: {
      verdict: "WRONG",
      message: "d force[1].y / d x[0].y: AD 1, FD 4 ± 1e-09",
      evaluation: "7 of 8 entries were evaluated one by one.",
      tolerance: "agrees where it does",
      notes: [],
      output: { name: "force", shape: [2], suffixes: [".x", ".y"] },
      input: { name: "x", shape: [1], suffixes: [".x", ".y"] },
      shape: [4, 2],
      rows: [0, 4],
      columns: [0, 2],
      cells: [4, 2],
      pooled: null,
      scale: { value: 4, error: 3 },
      against: "FD",
      worst: [
        { row: 3, column: 1, output: "force[1].y", input: "x[0].y", ad: 1, fd: 4, bar: 1e-9, error: 3, wrong: true },
      ],
      line: { file: "/home/ada/net.py", line: 23, text: "force[i] = …" },
      script: true,
      lacks: true,
      buffers: names.map((name) => ({ name })),
      ...more,
    },
    buffers: buffers.map(bytes),
  };
}

describe("the answer", () => {
  it("is read, with buffers that are not aligned", () => {
    const { cells, verdict, line } = readJacobian(PAIR, answer());
    expect([...(cells?.ad ?? [])].slice(2)).toEqual([0, -2, 0, 0, 0, 1]);
    expect(cells?.known[5]).toBe(2);
    expect([verdict, line?.line]).toEqual(["WRONG", 23]);
  });

  it.each([
    [{ cells: [4, 3] }, "The answer has no ad of 4 × 3 cells."],
    [{ buffers: [] }, "The answer is incomplete."],
    [{ rows: [0, -4] }, "The answer is incomplete."],
  ])("is refused where it makes no sense: %j", (more, message) => {
    expect(() => readJacobian(PAIR, answer(more))).toThrow(message);
  });

  it("may have nothing to be seen, and odd values everywhere", () => {
    const odd = { cells: null, verdict: "FINE", worst: "none", line: 3, scale: [], output: null, notes: "x" };
    const found = readJacobian(PAIR, { data: odd, buffers: [] });
    expect([found.cells, found.verdict, found.worst, found.output.suffixes]).toEqual([null, "NOT CHECKED", [], [""]]);
  });

  it("names entries as the kernel does", () => {
    const side = { name: "s", shape: [2, 3], suffixes: ["[0, 0]", "[0, 1]"] };
    expect([0, 1, 7, 11].map((flat) => entryName(side, flat))).toEqual([
      "s[0, 0][0, 0]",
      "s[0, 0][0, 1]",
      "s[1, 0][0, 1]",
      "s[1, 2][0, 1]",
    ]);
    expect(entryName({ name: "k", shape: [], suffixes: [""] }, 0)).toBe("k");
  });

  it("tells numbers with their bars, and what was not taken", () => {
    const entry = { ad: 2, fd: 6, bar: 1e-9, reference: null, error: 4 };
    expect(entryNumbers(entry, "FD")).toBe("AD 2, FD 6 ± 1e−9, error 4");
    expect(entryNumbers({ ...entry, fd: null, bar: null, reference: 3 }, "float64 adjoint")).toBe(
      "AD 2, float64 adjoint 3, no difference taken, error 4 against float64 adjoint",
    );
  });

  it("finds the cell of an entry, also where cells are blocks", () => {
    const { cells } = readJacobian(PAIR, answer());
    if (!cells) throw new Error("no cells");
    expect([cellAt(cells, 3, 1), cellAt(cells, 4, 0), cellAt({ ...cells, rows: [0, 40] }, 39, 0)]).toEqual([
      7,
      null,
      6,
    ]);
  });
});

describe("the window", () => {
  const shape = [100, 40] as const;

  it("zooms about a point, which stays where it is", () => {
    const seen = zoomed(whole(shape), shape, 4, 50, 10);
    expect(seen).toEqual({ top: 37.5, left: 7.5, height: 25, width: 10 });
    expect((50 - seen.top) / seen.height).toBe(0.5);
    expect(zoomed(seen, shape, 1e9)).toMatchObject({ height: 2, width: 2 });
    expect(zoomed(seen, shape, 1e-9)).toEqual(whole(shape));
  });

  it("stays within the Jacobian, and follows an entry", () => {
    expect(clamped({ top: -5, left: 99, height: 20, width: 20 }, shape)).toEqual({
      top: 0,
      left: 20,
      height: 20,
      width: 20,
    });
    expect(following({ top: 0, left: 0, height: 10, width: 10 }, shape, 30, 5)).toMatchObject({ top: 21, left: 0 });
    expect(closeTo(shape, 99, 0)).toEqual({ top: 84, left: 0, height: 16, width: 16 });
  });

  it("asks for whole entries with a margin", () => {
    const window = { top: 10.5, left: 0, height: 8, width: 8 };
    expect(asked(window, shape)).toEqual({ rows: [8, 21], columns: [0, 10] });
  });
});

describe("colours", () => {
  const colours: HeatColours = {
    page: [255, 255, 255],
    plus: [0, 0, 255],
    minus: [200, 100, 0],
    wrong: [255, 0, 0],
    broken: [128, 0, 128],
  };
  const scale = { value: 4, error: 3 };

  it("are those of the page for zero, full for the largest, and never so faint that one misses them", () => {
    const { value: top } = scale;
    expect([0, 4, -4].map((value) => heatShade(value, { base: 0, top }))).toEqual([0, 1, 1]);
    expect(heatShade(1e-9, { base: 0, top })).toBeGreaterThan(0.1);
    expect([errorShade(0, scale), errorShade(3, scale)]).toEqual([0, 1]);
    expect(errorShade(0.3, scale)).toBeLessThan(errorShade(3, scale));
    expect(errorShade(1e-7, { value: 4, error: 1e-7 })).toBe(0); // tiny beside the derivatives
  });

  it("are of one map for values, gradients and derivatives: from zero on both sides, or from the smallest far from zero", () => {
    expect(heatScale(-1, 4)).toEqual({ base: 0, top: 4 });
    expect(heatScale(1, 4)).toEqual({ base: 0, top: 4 });
    expect(heatScale(300, 310)).toEqual({ base: 300, top: 10 });
    expect(heatScale(-310, -300)).toEqual({ base: -300, top: 10 });
    expect(heatScale(5, 5)).toEqual({ base: 0, top: 5 });
    expect(heatShade(300, heatScale(300, 310))).toBeLessThan(0.2);
    expect(heatShade(310, heatScale(300, 310))).toBe(1);
    expect(heatBar(-1, 4)).toBe(
      "linear-gradient(to right, color-mix(in srgb, var(--td-ramp-minus) 36%, var(--td-bg)), var(--td-bg) 20%, color-mix(in srgb, var(--td-ramp) 100%, var(--td-bg)))",
    );
  });

  it("hatch what was not evaluated, and mark what is not finite", () => {
    const { cells } = readJacobian(PAIR, answer());
    if (!cells) throw new Error("no cells");
    expect(cellColour(cells, "ad", 1, scale, colours)).toBeNull();
    expect(cellColour(cells, "fd", 7, scale, colours)).toEqual([0, 0, 255]);
    expect(cellColour(cells, "error", 7, scale, colours)).toEqual([255, 0, 0]);
    cells.ad[0] = Number.POSITIVE_INFINITY;
    expect(cellColour(cells, "ad", 0, scale, colours)).toEqual(colours.broken);
    cells.known[3] = 3; // the gradient alone
    cells.fd[3] = Number.NaN;
    expect(cellColour(cells, "fd", 3, scale, colours)).toBeNull();
    expect(cellColour(cells, "ad", 3, scale, colours)).not.toBeNull();
  });
});

describe("fields", () => {
  const side = (name: string, shape: number[], suffixes = [""]) => ({ name, shape, suffixes });

  it("are what a side of two axes is; a list is none", () => {
    expect(fieldShape(side("u", [32, 32]))).toEqual([32, 32]);
    expect(fieldShape(side("v", [4, 8, 16], [".x", ".y"]))).toEqual([32, 32]);
    expect([fieldShape(side("x", [1024])), fieldShape(side("loss", [1])), fieldShape(side("r", [1, 9]))]).toEqual([
      null,
      null,
      null,
    ]);
  });

  it("are the row of the entry that is pointed at by the input, and its column by the output", () => {
    const { jacobian, cells } = read(PAIR, answer());
    const field = { ...jacobian, input: side("x", [2, 1]), output: side("force", [2, 2]), worst: [] };
    expect(linesOf(field, { row: 3, column: 1 })).toEqual([{ along: "column", index: 1 }]);
    const column = fieldCells(cells, { along: "column", index: 1 }, [2, 2]);
    expect([...(column?.ad ?? [])]).toEqual([0, 1, 2, 3].map((row) => cells.ad[row * cells.width + 1]));
    const row = fieldCells(cells, { along: "row", index: 3 }, [1, 2]);
    expect([...(row?.ad ?? [])]).toEqual([...cells.ad.slice(3 * cells.width, 4 * cells.width)]);
    expect(fieldCells({ ...cells, pooled: [2, 1] }, { along: "row", index: 3 }, [1, 2])).toBeNull();
    expect(fieldCells(cells, { along: "row", index: 9 }, [1, 2])).toBeNull();
  });
});

function read(...question: Parameters<typeof readJacobian>) {
  const jacobian = readJacobian(...question);
  if (!jacobian.cells) throw new Error("no cells");
  return { jacobian, cells: jacobian.cells };
}

let host: HTMLElement;
let unmount: () => void = () => {};

function mount(state: Partial<PanelState>, actions: ConstructorParameters<typeof PanelStore>[1] = {}): PanelStore {
  const store = new PanelStore({ trace: openJson(makeNet()), canRun: true, ...state }, actions);
  unmount = mountPanel(host, store);
  return store;
}

const text = (selector: string): string => host.querySelector(selector)?.textContent ?? "";
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

beforeEach(() => {
  holdChunks({ jacobian: jacobianChunk });
  host = document.createElement("div");
  document.body.append(host);
});
afterEach(() => {
  unmount();
  host.remove();
  vi.useRealTimers();
});

describe("the Jacobian tab", () => {
  const chosen = { selection: { ...NOTHING, launch: 1 } };

  it("opens with a click on a cell, names the worst entry and lists it for a screen reader", async () => {
    const ask = vi.fn(() => Promise.resolve(answer()));
    const store = mount(chosen, { ask });
    host.querySelector<HTMLElement>(".td-mask td.td-verdict-agree")?.click();
    await settled();
    await settled();
    expect(store.get("selection").pair).toEqual(PAIR);
    expect(ask).toHaveBeenCalledWith({ type: "jacobian", launch: 1, input: "x", output: "force" });
    expect(text(".td-jac .td-badge")).toBe("✕ WRONG");
    expect(text(".td-jac-worstline")).toBe("worst: force[1].y by x[0].y: error 3");
    expect(text(".td-jac-where")).toContain("written at net.py:23");
    expect(text(".td-jac-table tbody tr")).toBe("force[1].y by x[0].y14 ±\u00a01e−9✕\u00a03");
    expect(host.querySelector(".td-jac-maps")?.getAttribute("aria-label")).toContain("d force by d x, 4 by 2");
  });

  it("is moved with keys of its own, which leave the launch alone", async () => {
    const store = mount({ selection: { ...NOTHING, launch: 1, pair: PAIR } }, { ask: () => Promise.resolve(answer()) });
    await settled();
    await settled();
    const maps = host.querySelector(".td-jac-maps") as HTMLElement;
    const press = (key: string) =>
      maps.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
    press("Home");
    expect(text(".td-jac-readout")).toBe("force[1].y by x[0].y: AD 1, FD 4 ± 1e−9, error 3");
    press("ArrowUp");
    press("ArrowUp");
    press("ArrowUp");
    expect(text(".td-jac-readout")).toBe("force[0].x by x[0].y: not evaluated");
    press("ArrowLeft");
    expect(text(".td-jac-readout")).toContain("force[0].x by x[0].x: AD 1");
    expect(store.get("selection").launch).toBe(1);
  });

  it("says why there is nothing to be seen, and keeps names text", async () => {
    const pair: MaskEntry = [null, "throw", "loss"];
    mount({ selection: { ...NOTHING, pair } }, { ask: () => Promise.reject(new Unanswered(`No: ${EVIL}`)) });
    await settled();
    await settled();
    expect(text(".td-jac-refusal")).toBe(`No: ${EVIL}`);
    expect(host.querySelector("img")).toBeNull();
  });

  it("lets a pair that nobody has checked be run, it alone", async () => {
    const run = vi.fn();
    const ask = vi.fn(() => Promise.resolve(answer()));
    const pair: MaskEntry = [null, "x", "loss"];
    const store = mount({ selection: { ...NOTHING, pair } }, { run, ask });
    await settled();
    expect(text(".td-jac .td-hint")).toBe("This pair has not been checked yet.");
    expect(ask).not.toHaveBeenCalled();
    host.querySelector<HTMLElement>(".td-jac-run")?.click();
    expect(run).toHaveBeenCalledWith([pair]);
    store.set({ running: true });
    expect(text(".td-jac")).toContain("It is being checked …");
    store.set({ checks: [{ launch: null, input: "x", output: "loss", verdict: "WRONG" }], running: false });
    await settled();
    expect(ask).toHaveBeenCalledTimes(1);
    expect(text(".td-jac .td-badge")).toBe("✕ WRONG");
  });

  it("says so where its code cannot be had, and asks again when it is opened again", async () => {
    holdChunks({ jacobian: null });
    fetchChunks(() => Promise.reject(new Unanswered("The kernel has gone.")));
    const store = mount({ selection: { ...NOTHING, pair: PAIR } }, { ask: () => Promise.resolve(answer()) });
    await settled();
    expect(text(".td-jac-refusal")).toBe("The kernel has gone.");
    fetchChunks(() => Promise.resolve(jacobianChunk));
    store.select({ launch: 2 });
    for (const name of ["Launch", "Jacobian"])
      [...host.querySelectorAll<HTMLElement>("[role=tab]")].find((tab) => tab.textContent?.startsWith(name))?.click();
    await settled();
    await settled();
    expect(text(".td-jac .td-badge")).toBe("✕ WRONG");
  });
});

describe("the mask as a grid", () => {
  const state = { mask: [[1, "x", "force"]] as MaskEntry[], selection: { ...NOTHING, launch: 1 } };
  const cells = (): HTMLElement[] => [...host.querySelectorAll<HTMLElement>(".td-mask [role=gridcell]")];
  const press = (key: string): void => {
    document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  };

  it("says of each cell what it is, and is walked with the arrows", () => {
    const store = mount(state);
    expect(cells().map((cell) => cell.getAttribute("aria-description"))).toEqual([
      "force by x, AGREE, largest error 3e−8, switched on",
      "loss by throw, WRONG, largest error 0.38, switched off, whole tape",
      "loss by x, not run, switched off, whole tape",
    ]);
    expect(cells()[0]?.tabIndex).toBe(0);
    cells()[1]?.focus();
    press("ArrowRight");
    expect(document.activeElement).toBe(cells()[2]);
    press(" ");
    expect(store.get("mask")).toEqual([PAIR, [null, "x", "loss"]]);
    expect(document.activeElement?.getAttribute("aria-description")).toContain("loss by x, not run, switched on");
    press("ArrowLeft");
    press("ArrowLeft");
    press(" "); // the row of loss: on where one was off
    expect(store.get("mask")).toHaveLength(3);
    press(" ");
    expect(store.get("mask")).toEqual([PAIR]);
    expect(store.get("selection").launch).toBe(1);
  });

  it("shows all launches of a kernel together, the worst of them first", () => {
    const store = mount({
      ...state,
      checks: [
        { launch: 3, input: "x_next", output: "force", verdict: "WRONG", max_rel_error: 0.5 },
        { launch: 5, input: "x", output: "force", verdict: "KINK", left: -1, right: 1 },
      ],
    });
    [...host.querySelectorAll<HTMLElement>(".td-scope")][1]?.click();
    expect(text(".td-mask caption")).toBe("all launches of spring (3)");
    expect(cells()[0]?.textContent).toBe("∧ KINK 1/2−1 | 1");
    expect(cells()[0]?.getAttribute("aria-description")).toContain(
      "1 KINK, 1 AGREE, slopes −1 on the left, 1 on the right",
    );
    const box = cells()[0]?.querySelector("input");
    expect([box?.checked, box?.indeterminate]).toEqual([false, true]);
    box?.click();
    expect(store.get("mask")).toEqual([PAIR, [5, "x", "force"]]);
    cells()[1]?.click();
    expect(store.get("selection")).toMatchObject({ launch: 3, pair: [3, "x_next", "force"] });
  });

  it("marks what a run has no result for yet, one by one", () => {
    const store = mount({ ...state, mask: [PAIR, [null, "x", "loss"]] });
    store.set({ running: true });
    expect(host.querySelectorAll(".td-pending")).toHaveLength(2);
    store.set({
      checks: [{ launch: null, input: "x", output: "loss", verdict: "AGREE", max_rel_error: 0, seconds: 1 }],
    });
    expect(host.querySelectorAll(".td-pending")).toHaveLength(1);
    store.set({ running: false });
    expect(host.querySelectorAll(".td-pending")).toHaveLength(0);
  });

  it("says why nothing was decided", () => {
    const message = "not checked: the kernel does not read x";
    mount({ ...state, checks: [{ launch: 1, input: "x", output: "force", verdict: "UNDECIDABLE", message }] });
    expect(cells()[0]?.getAttribute("aria-description")).toContain(`UNDECIDABLE, ${message}`);
    expect(cells()[0]?.title).toContain(message);
  });
});

describe("a kernel that says nothing", () => {
  const state = { mask: [PAIR], selection: { ...NOTHING, launch: 1 } };
  const wait = (seconds: number): void => void vi.advanceTimersByTime(seconds * 1000);

  it("is noticed during a run, and one can stop waiting", () => {
    vi.useFakeTimers();
    const store = mount(state);
    store.set({ running: true, beat: 1 });
    for (let beat = 2; beat < 30; beat++) {
      wait(1);
      store.set({ beat });
    }
    expect(text(".td-silence")).toBe("");
    wait(HEARTBEAT_TIMEOUT + 1);
    expect(text(".td-silence")).toMatch(
      /^! No news from the kernel for 1\d s: it is busy with one long step, or it has died\./,
    );
    store.set({ beat: 99 });
    expect(text(".td-silence")).toBe("");
    wait(HEARTBEAT_TIMEOUT + 1);
    host.querySelector<HTMLElement>(".td-stop")?.click();
    expect([store.get("running"), text(".td-silence")]).toEqual([false, ""]);
    expect(store.get("status")).toContain("the results so far stay");
  });

  it("is noticed where it does not even hear the press of Run", () => {
    vi.useFakeTimers();
    const store = mount(state, { run: () => {} });
    host.querySelector<HTMLElement>(".td-run")?.click();
    expect(text(".td-run")).toBe("Asking the kernel …");
    wait(ANSWER_SECONDS + 1);
    expect(text(".td-silence")).toMatch(/^! The kernel has not answered for \d s/);
    host.querySelector<HTMLElement>(".td-stop")?.click();
    expect(text(".td-run")).toBe("Run checks");
    expect(store.get("asked")).toBeNull();
  });

  it("cannot be reached at all", () => {
    const store = mount(state, {
      run() {
        throw new Error("closed");
      },
    });
    host.querySelector<HTMLElement>(".td-run")?.click();
    expect(store.get("status")).toBe("The kernel cannot be reached.");
    expect(store.get("asked")).toBeNull();
  });
});
