/** Parts of the panel that come when somebody looks: what is said meanwhile, what is when they do not come, and no question twice. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import { isUnanswered, PanelStore, Unanswered } from "../src/trace/store.js";
import { fetchChunks, holdChunks, loadAllChunks } from "../src/views/chunks.js";
import { detailsChunk } from "../src/views/details/chunk.js";
import { graphChunk } from "../src/views/graph/chunk.js";
import { mountPanel } from "../src/views/panel.js";
import type { ViewChunk } from "../src/views/spec.js";
import { makeNet } from "./make.js";

const NONE = { details: null, graph: null, jacobian: null };
const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

let ends: (() => void)[] = [];
let asked: string[] = [];
let answer: (name: string) => Promise<unknown>;

function mount(): { host: HTMLElement; store: PanelStore; tab: (name: string) => void; end: () => void } {
  const host = document.createElement("div");
  document.body.append(host);
  const store = new PanelStore({ trace: openJson(makeNet()) });
  const unmount = mountPanel(host, store);
  const end = (): void => {
    unmount();
    host.remove();
  };
  ends.push(end);
  const tab = (name: string): void =>
    [...host.querySelectorAll<HTMLElement>("[role=tab]")].find((one) => one.textContent === name)?.click();
  return { host, store, tab, end };
}

beforeEach(() => {
  holdChunks(NONE);
  asked = [];
  ends = [];
  fetchChunks((_, { name }) => {
    asked.push(name);
    return answer(name);
  });
});
afterEach(async () => {
  for (const end of ends) end();
  vi.useRealTimers();
  await loadAllChunks();
});

describe("parts that are fetched", () => {
  it("are not asked for before somebody looks, and then once for all panels", async () => {
    let give: (make: ViewChunk) => void = () => {};
    answer = () => new Promise((resolve) => (give = resolve as typeof give));
    const [one, other] = [mount(), mount()];
    expect(asked).toEqual([]);
    one.tab("Graph");
    other.tab("Graph");
    expect(asked).toEqual(["graph"]);
    expect(one.host.querySelector(".td-graph [role=status]")?.textContent).toBe("Loading the graph …");
    give(graphChunk);
    await settled();
    for (const { host } of [one, other]) expect(host.querySelectorAll(".td-g-launch")).toHaveLength(8);
    expect(one.host.querySelector(".td-legend ul:not([hidden])")?.textContent).toContain("version of an array");
    const third = mount();
    third.tab("Graph");
    expect(third.host.querySelectorAll(".td-g-launch")).toHaveLength(8);
    expect(asked).toEqual(["graph"]);
  });

  it("show what was chosen while they were on their way", async () => {
    let give: (make: ViewChunk) => void = () => {};
    const graph = new Promise<ViewChunk>((resolve) => (give = resolve));
    answer = (name) => (name === "graph" ? graph : Promise.resolve(detailsChunk));
    const { host, store, tab } = mount();
    tab("Graph");
    store.select({ launch: 3 });
    host.querySelector(".td-graph")?.dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }));
    give(graphChunk);
    await settled();
    expect(host.querySelector(".td-g-chosen")?.getAttribute("aria-label")).toContain("launch 3");
  });

  it("say why they do not come, calmly, and are asked for again when they are opened again", async () => {
    const errors = vi.spyOn(console, "error");
    answer = () => Promise.reject(new Unanswered("This needs the kernel of the tape, which is gone."));
    const { host, tab } = mount();
    tab("Graph");
    await settled();
    expect(host.querySelector(".td-graph")?.textContent).toBe(
      "The graph could not be loaded. This needs the kernel of the tape, which is gone.",
    );
    answer = () => Promise.resolve(graphChunk);
    tab("Lanes");
    tab("Graph");
    await settled();
    expect(host.querySelectorAll(".td-g-launch")).toHaveLength(8);
    expect(errors).not.toHaveBeenCalled();
  });

  it("say that the kernel may be busy where it does not answer", () => {
    vi.useFakeTimers();
    answer = () => new Promise(() => {});
    const { host, tab } = mount();
    tab("Graph");
    vi.advanceTimersByTime(5_000);
    expect(host.querySelector(".td-graph")?.textContent).toBe(
      "The kernel is busy or gone. The graph will appear when it answers.",
    );
  });

  it("leave alone a panel that has ended", async () => {
    let give: (make: ViewChunk) => void = () => {};
    answer = () => new Promise((resolve) => (give = resolve as typeof give));
    const view = vi.spyOn(graphChunk, "view");
    const { tab, end } = mount();
    tab("Graph");
    end();
    give(graphChunk);
    await settled();
    expect(view).not.toHaveBeenCalled();
    view.mockRestore();
  });

  it("leave the source and the figures of the trace to be read where there is no kernel", async () => {
    answer = () => Promise.reject(new Unanswered("This needs the kernel of the tape, which is gone."));
    const { host, store } = mount();
    store.select({ launch: 1 });
    await settled();
    expect(host.querySelector(".td-source .td-code")?.textContent?.length).toBeGreaterThan(20);
    expect(host.querySelector(".td-source .td-why")?.textContent).toContain("which is gone");
    expect(host.querySelector(".td-values .td-figures")?.textContent).toContain("norm");
    expect(host.querySelector(".td-values .td-why")?.textContent).toContain("which is gone");
    answer = () => Promise.resolve(detailsChunk);
    store.select({ launch: 3 });
    await settled();
    expect(host.querySelectorAll(".td-source .td-line").length).toBeGreaterThan(1);
    expect(host.querySelector(".td-why")).toBeNull();
  });
});

it("an error keeps its kind between bundles", () => {
  class Unanswered2 extends Error {
    override readonly name = "Unanswered";
  }
  expect([new Unanswered("x"), new Unanswered2("x"), new Error("x"), "x"].map(isUnanswered)).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
