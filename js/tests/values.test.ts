import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import {
  type Answer,
  NOTHING,
  type PanelActions,
  type PanelState,
  PanelStore,
  type Question,
  Unanswered,
} from "../src/trace/store.js";
import { elementAt, indexOf, readValues } from "../src/trace/values.js";
import { mountPanel } from "../src/views/panel.js";
import { Lookup, questionOf, type Wanted } from "../src/views/values/lookup.js";
import { rangeOf } from "../src/views/values/picture.js";
import { readIndex } from "../src/views/values/table.js";
import { pythonFor } from "../src/views/values/view.js";
import { valuesAnswer } from "./answers.js";
import { type Json, makeNet } from "./make.js";

let host: HTMLElement;
let unmount: () => void = () => {};

function mount(state: Partial<PanelState>, actions: Partial<PanelActions>): PanelStore {
  const store = new PanelStore({ trace: openJson(makeNet()), canRun: true, ...state }, actions);
  unmount = mountPanel(host, store);
  return store;
}

function text(selector: string): string {
  const found = host.querySelector(selector);
  if (!found) throw new Error(`no ${selector} in the panel`);
  return found.textContent ?? "";
}

function linkNamed(name: string): HTMLButtonElement {
  const found = [...host.querySelectorAll("button")].find((b) => b.textContent === name);
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

/** Lets the pause before a question pass, and its answer arrive. */
async function settle(): Promise<void> {
  for (let i = 0; i < 4; i++) await vi.advanceTimersByTimeAsync(100);
}

beforeEach(() => {
  vi.useFakeTimers();
  host = document.createElement("div");
  document.body.append(host);
});

afterEach(() => {
  unmount();
  host.remove();
  vi.useRealTimers();
});

describe("an answer about values", () => {
  it("is read with its dtype, in little-endian order", () => {
    const view = new DataView(new ArrayBuffer(24));
    view.setBigInt64(0, 9007199254740993n, true);
    view.setBigInt64(8, -2n, true);
    view.setBigInt64(16, 7n, true);
    const { data } = valuesAnswer([1, 2, 3], { sent: "<i8", dtype: "int64" });
    const values = readValues({ data, buffers: [view] });
    expect([values.values.exact(0), values.values.at(1), values.values.whole]).toEqual(["9007199254740993", -2, true]);
  });

  it.each([
    ["no buffer", { data: valuesAnswer([1, 2]).data, buffers: [] }],
    ["a buffer that is too short", { ...valuesAnswer([1]), data: valuesAnswer([1, 2]).data }],
    ["a dtype that nobody knows", valuesAnswer([1, 2], { sent: "<c8" })],
    ["a window outside the array", valuesAnswer([1, 2], { shape: [10], start: 9 })],
    ["nothing", { data: {}, buffers: [] }],
  ])("with %s is refused in words", (_, answer) => {
    expect(() => readValues(answer as Answer)).toThrow(Unanswered);
  });

  it("is drawn with a line for each component of short vectors, and by the norm of long ones", () => {
    const two = readValues(valuesAnswer([3, 4, 0, 1], { shape: [2], element: [2] })).picture;
    expect([two.rows, two.columns, two.series, ...(two.low as Float64Array)]).toEqual([1, 2, 2, 3, 4, 0, 1]);
    const nine = readValues(valuesAnswer([...Array(9).fill(0), ...Array(9).fill(1)], { shape: [2], element: [3, 3] }));
    expect([nine.picture.series, ...(nine.picture.low as Float64Array)]).toEqual([1, 0, 3]);
    const grid = readValues(valuesAnswer([3, 4, 6, 8], { shape: [1, 2], element: [2] })).picture;
    expect([grid.rows, grid.columns, grid.series, ...(grid.low as Float64Array)]).toEqual([1, 2, 1, 5, 10]);
  });

  it("keeps NaN and Inf out of the range, and counts them", () => {
    const { picture } = readValues(valuesAnswer([1, Number.NaN, Number.POSITIVE_INFINITY, -4]));
    expect(rangeOf(picture)).toEqual({ low: -4, high: 1, bad: 2 });
    expect(rangeOf(readValues(valuesAnswer([Number.NaN])).picture)).toEqual({
      low: Number.NaN,
      high: Number.NaN,
      bad: 1,
    });
  });
});

describe("an index", () => {
  it.each([
    ["3", [5], 3],
    ["[3]", [5], 3],
    ["5", [5], null],
    ["1, 2", [2, 3], 5],
    ["(1 2)", [2, 3], 5],
    ["2, 0", [2, 3], null],
    ["4", [2, 3], 4],
    ["6", [2, 3], null],
    ["x", [5], null],
    ["-1", [5], null],
    ["", [5], null],
  ])("%j in %j is %j", (typed, shape, element) => {
    expect(readIndex(typed, shape)).toBe(element);
  });

  it("goes to the element and back", () => {
    expect(indexOf([4, 3, 2], 17)).toEqual([2, 2, 1]);
    expect(elementAt([4, 3, 2], [2, 2, 1])).toBe(17);
  });
});

describe("the lookup", () => {
  const wanted = (version: number, start?: number): Wanted => ({
    ...{ array: 1, version, of: "value" },
    ...(start === undefined ? {} : { start }),
  });

  it("asks after a pause, for the last wish alone, and not twice", async () => {
    const ask = vi.fn((_: Question) => Promise.resolve(valuesAnswer([1])));
    const changed = vi.fn();
    const lookup = new Lookup(new PanelStore({}, { ask }), changed);
    for (let version = 0; version < 50; version++) lookup.want([wanted(version)]);
    expect(ask).not.toHaveBeenCalled();
    await settle();
    expect(ask.mock.calls.map(([question]) => question.version)).toEqual([49]);
    expect(lookup.find(wanted(49)).state).toBe("known");
    lookup.want([wanted(49)]);
    await settle();
    expect(ask).toHaveBeenCalledTimes(1);
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("has two questions under way at most, and drops those that nobody waits for", async () => {
    const open: (() => void)[] = [];
    const ask = vi.fn((_: Question) => new Promise<Answer>((resolve) => open.push(() => resolve(valuesAnswer([1])))));
    const changed = vi.fn();
    const lookup = new Lookup(new PanelStore({}, { ask }), changed);
    lookup.want([0, 1, 2, 3].map((version) => wanted(version)));
    await settle();
    expect(ask).toHaveBeenCalledTimes(2);
    lookup.want([wanted(9)]);
    await settle();
    expect(ask).toHaveBeenCalledTimes(2);
    open[0]?.();
    await settle();
    expect(ask.mock.calls.map(([question]) => question.version)).toEqual([0, 1, 9]);
    expect(changed).not.toHaveBeenCalled(); // what came is not what is looked at
    open[2]?.();
    await settle();
    expect(changed).toHaveBeenCalledTimes(1);
  });

  it("keeps the reason of a refusal while it is looked at, and asks again next time", async () => {
    const ask = vi.fn((_: Question) => Promise.reject(new Unanswered("The kernel is gone.")));
    const lookup = new Lookup(new PanelStore({}, { ask }), () => {});
    lookup.want([wanted(1)]);
    await settle();
    expect(lookup.find(wanted(1))).toEqual({ state: "refused", why: "The kernel is gone." });
    lookup.want([]);
    lookup.want([wanted(1)]);
    await settle();
    expect(ask).toHaveBeenCalledTimes(2);
  });

  it("forgets adjoints when another reverse pass has run, and those that are on their way", async () => {
    const open: ((answer: Answer) => void)[] = [];
    const ask = vi.fn((_: Question) => new Promise<Answer>((resolve) => open.push(resolve)));
    const lookup = new Lookup(new PanelStore({}, { ask }), () => {});
    const both: Wanted[] = [wanted(1), { ...wanted(1), of: "adjoint" }];
    lookup.want(both);
    await settle();
    open[0]?.(valuesAnswer([1]));
    await settle();
    lookup.forgetAdjoints(); // the answer under way is of the pass before
    open[1]?.(valuesAnswer([2]));
    await settle();
    expect(both.map((one) => lookup.find(one).state)).toEqual(["known", "waiting"]);
    expect(ask.mock.calls.map(([question]) => question.of)).toEqual(["value", "adjoint", "adjoint"]);
    open[2]?.(valuesAnswer([3]));
    await settle();
    expect(both.map((one) => lookup.find(one).state)).toEqual(["known", "known"]);
    lookup.forgetAdjoints();
    expect(both.map((one) => lookup.find(one).state)).toEqual(["known", "waiting"]);
  });

  it("asks the beginning without a window, as reports embed it", () => {
    expect(questionOf(wanted(2, 0))).toEqual({ type: "values", array: 1, version: 2, of: "value" });
    expect(questionOf(wanted(2, 4096))).toEqual({ type: "values", array: 1, version: 2, of: "value", start: 4096 });
  });
});

describe("values then", () => {
  const selection = { ...NOTHING, launch: 3 };

  it("show figures from the trace at once, numbers when they have come", async () => {
    const ask = vi.fn((question: Question) =>
      Promise.resolve(valuesAnswer(question.of === "value" ? [1.5, 2] : [0.25, Number.NaN], { element: [] }, null)),
    );
    mount({ selection }, { ask });
    expect(text(".td-values h2")).toContain("force v2");
    expect(host.querySelectorAll(".td-values .td-figures")).toHaveLength(2);
    expect(text(".td-awaited")).toBe("…");
    await settle();
    expect(ask.mock.calls.map(([{ array, version, of }]) => [array, version, of])).toEqual([
      [4, 2, "value"],
      [4, 2, "adjoint"],
    ]);
    expect([...host.querySelectorAll(".td-numbers tbody tr")].map((row) => row.textContent)).toEqual([
      "[0]1.50.25",
      "[1]2NaN✕",
    ]);
    expect(host.querySelector(".td-awaited")).toBeNull();
  });

  it("follow the launch for the array that is watched, also where the launch does not touch it", async () => {
    const asked: unknown[] = [];
    const ask = (question: Question): Promise<Answer> => {
      asked.push([question.array, question.version]);
      return Promise.resolve(valuesAnswer([1]));
    };
    const store = mount({ selection: { ...NOTHING, launch: 1, array: "v", version: 1 } }, { ask });
    await settle();
    const slider = host.querySelector<HTMLInputElement>(".td-slider") as HTMLInputElement;
    slider.value = "6";
    slider.dispatchEvent(new Event("input"));
    expect(store.get("selection")).toMatchObject({ launch: 6, array: "v", version: 1 });
    expect(text(".td-values h2")).toContain("v v1");
    slider.value = "0";
    slider.dispatchEvent(new Event("input"));
    await settle();
    expect(new Set(asked.map(String))).toEqual(new Set(["3,1"]));
  });

  it("say what a launch changed, and go there", async () => {
    const change = { of: 1, changed: 2, total: 40, largest: 3, at: [33], before: 1, after: 4 };
    const values = Array.from({ length: 40 }, (_, i) => i);
    const before = values.map((value) => (value === 33 ? 30 : value));
    mount({ selection }, { ask: () => Promise.resolve(valuesAnswer(values, { change }, before)) });
    await settle();
    expect(text(".td-change")).toBe("launch 3 (spring) changed 2 of 40 elements, most at [33]: 1 → 4, by 3");
    linkNamed("[33]").click();
    expect(text(".td-numbers tr.td-chosen th")).toBe("[33]");
    expect(text(".td-numbers tr.td-chosen .td-changed")).toBe("33 was 30");
    expect(text(".td-pager span")).toBe("[32] to [39] of 40 elements");
  });

  it("link the first NaN", async () => {
    const first = { nan: [1, 2], inf: null };
    const values = [1, 2, 3, 4, 5, Number.NaN];
    mount({ selection }, { ask: () => Promise.resolve(valuesAnswer(values, { first, shape: [2, 3] })) });
    await settle();
    linkNamed("✕ first NaN at [1, 2]").click();
    expect(text(".td-numbers tr.td-chosen")).toBe("[1, 2]NaN✕NaN✕");
  });

  it("page through what is too large to be sent whole", async () => {
    const ask = vi.fn((question: Question) => {
      const start = Number(question.start ?? 0);
      const overview = { rows: 1, columns: 1, series: 1 };
      const answer = valuesAnswer(
        Array.from({ length: Math.min(32, 70 - start) }, (_, i) => start + i),
        { shape: [70], start, size: 70, overview, buffers: ["values", "overview"] },
      );
      return Promise.resolve({
        ...answer,
        buffers: [...answer.buffers, new DataView(Float64Array.from([0, 69, 0]).buffer)],
      });
    });
    mount({ selection, trace: openJson({ ...makeNet(), backward: { ran: false, loss: null, order: [] } }) }, { ask });
    await settle();
    const input = host.querySelector<HTMLInputElement>(".td-goto") as HTMLInputElement;
    input.value = "65";
    input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect(text(".td-values")).toContain("Waiting for the numbers …");
    await settle();
    expect(text(".td-numbers tr.td-chosen")).toBe("[65]65");
    expect(ask.mock.calls.at(-1)?.[0].start).toBe(64);
    expect(text(".td-values .td-empty")).toBe("No adjoint: no reverse pass has run.");
    const wrong = host.querySelector<HTMLInputElement>(".td-goto") as HTMLInputElement;
    wrong.value = "70";
    wrong.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
    expect(wrong.getAttribute("aria-invalid")).toBe("true");
  });

  it("say calmly why there are none, once, and keep the figures", async () => {
    const why = "This needs the kernel that recorded the tape.";
    mount({ selection, canRun: false }, { ask: () => Promise.reject(new Unanswered(why)) });
    await settle();
    expect([...host.querySelectorAll(".td-why")].map((p) => p.textContent)).toEqual([why]);
    expect(host.querySelectorAll(".td-values .td-figures")).toHaveLength(2);
    expect(host.querySelector(".td-numbers")).toBeNull();
  });

  it("show the adjoints of the last reverse pass, and none of those before", async () => {
    let pass = 7;
    const ask = (question: Question): Promise<Answer> =>
      Promise.resolve(valuesAnswer(question.of === "adjoint" ? [pass, pass] : [1, 2]));
    const store = mount({ selection }, { ask });
    await settle();
    expect(text(".td-numbers tbody tr")).toBe("[0]17");
    pass = 8;
    store.set({ passes: 2 });
    expect(host.querySelector(".td-of-adjoint .td-figures")).toBeNull();
    await settle();
    expect(text(".td-numbers tbody tr")).toBe("[0]18");
  });

  it("keep the focus where it is when they are drawn anew", async () => {
    const values = Array.from({ length: 40 }, (_, i) => i);
    const store = mount({ selection }, { ask: () => Promise.resolve(valuesAnswer(values)) });
    await settle();
    const next = host.querySelector<HTMLButtonElement>("[data-key=rows-next]") as HTMLButtonElement;
    next.focus();
    next.click();
    expect((document.activeElement as HTMLElement).dataset.key).toBe("rows-next");
    store.select({ launch: 4, array: 4, version: 2 });
    expect((document.activeElement as HTMLElement).dataset.key).toBe("rows-next");
  });

  it("give the line of Python that shows the same", () => {
    const array = { label: "x" } as Parameters<typeof pythonFor>[0];
    const version = (more: Json): Parameters<typeof pythonFor>[1] =>
      ({ version: 2, writtenBy: 7, reads: [9], ...more }) as never;
    expect(pythonFor(array, version({}), true)).toBe(
      'with tape.at(7, "after", backward=True): print(x.numpy(), x.grad.numpy())',
    );
    expect(pythonFor(array, version({ version: 0, writtenBy: null }), false)).toBe("with tape.at(0): print(x.numpy())");
    expect(pythonFor(array, version({ writtenBy: null }), false)).toBe("with tape.at(9): print(x.numpy())");
    expect(pythonFor({ ...array, label: "x[0] (old)" }, version({}), false)).toBe(
      'with tape.at(7, "after"): print(x.numpy())',
    );
  });
});
