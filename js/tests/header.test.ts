import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import { NOTHING, PanelStore } from "../src/trace/store.js";
import { mountPanel } from "../src/views/panel.js";
import { type Json, makeNet } from "./make.js";

let host: HTMLElement;
let unmount: () => void = () => {};

function mount(change: (trace: Json) => void = () => {}): PanelStore {
  const trace = makeNet();
  change(trace);
  const store = new PanelStore({ trace: openJson(trace), selection: NOTHING });
  unmount = mountPanel(host, store);
  return store;
}

function find<E extends Element = HTMLElement>(selector: string): E {
  const element = host.querySelector<E>(selector);
  if (!element) throw new Error(`no ${selector} in the panel`);
  return element;
}

function press(key: string, target: Element = find(".td-canvas")): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

beforeEach(() => {
  host = document.createElement("div");
  document.body.append(host);
});

afterEach(() => {
  unmount();
  host.remove();
  vi.useRealTimers();
});

describe("the header", () => {
  it("tells in full what was checked, on demand", () => {
    mount((trace) => {
      const notes = ["launch 4 (far) was not checked: no adjoint"];
      trace.coverage = { summary: "7 of 8 launches", launches: 8, checked: 7, notes };
    });
    const details = find<HTMLDetailsElement>(".td-checked");
    expect(find(".td-checked-body").childElementCount).toBe(0);
    details.querySelector("summary")?.click(); // nobody sees it open and empty: it is filled before it opens
    const text = find(".td-checked-body").textContent;
    expect(text).toContain("✕ WRONG: the gradient that would be consumed is wrong");
    expect(text).toContain("launch 4 (far) was not checked: no adjoint");
    expect(text).toContain("launches7 of 8 checked");
    expect(text).toContain("python3.11.7");
    press("Escape", find(".td-checked summary"));
    expect(details.open).toBe(false);
  });

  it("lists the slowest steps of the diagnosis, with the time of all", () => {
    mount((trace) => {
      const steps = ["seed", "overwrite", "race", "nonfinite", "unused"];
      trace.timings = steps.map((step, i) => ({ step, estimate: null, seconds: i, completed: step !== "unused" }));
    });
    find<HTMLDetailsElement>(".td-checked").querySelector("summary")?.click();
    expect(find(".td-checked-body").textContent).toContain(
      "diagnosis took10 s, of which unused 4 s, not completed, nonfinite 3 s, race 2 s, overwrite 1 s",
    );
  });

  it("names an engine other than that of tapedebug, which has no mode for overwrites", () => {
    const title = "NVIDIA Warp 1.19.0, cpu";
    mount((trace) => {
      Object.assign(trace.tape as object, { engine: title });
    });
    expect(find(".td-engine").textContent).toBe(title);
    find(".td-checked summary").click();
    const text = find(".td-checked-body").textContent;
    expect(text).toContain(`engine${title}`);
    expect(text).not.toContain("on_overwrite");
  });

  it("does not name the engine of tapedebug", () => {
    mount();
    expect(host.querySelector(".td-engine")).toBeNull();
  });
});

describe("the help", () => {
  it("keeps the focus and the keys until it is closed", () => {
    const store = mount();
    find(".td-canvas").focus();
    press("?");
    const close = find<HTMLButtonElement>(".td-help button");
    expect(document.activeElement).toBe(close);
    press("j", close);
    expect(store.get("selection").finding).toBeNull();
    find(".td-search").focus();
    expect(document.activeElement).toBe(close);
    press("Escape", close);
    expect(find(".td-help").hidden).toBe(true);
    expect(document.activeElement).toBe(find(".td-canvas"));
  });
});

describe("search", () => {
  it("says how many matches there are, marks them, and walks on with Enter", () => {
    const store = mount((trace) => {
      const [first] = trace.findings as Json[];
      trace.findings = Array.from({ length: 40 }, (_, id) => ({ ...first, id }));
    });
    const input = find<HTMLInputElement>(".td-search");
    input.focus();
    input.value = "overwrite";
    input.dispatchEvent(new Event("input"));
    expect(host.querySelectorAll(".td-results [role=option]")).toHaveLength(12);
    expect(find(".td-results .td-none").textContent).toBe("and 28 more matches");
    expect(find(".td-results mark").textContent).toBe("overwrite");
    expect(find("[aria-live]").textContent).toBe("40 matches");
    input.value = "launch 6";
    input.dispatchEvent(new Event("input"));
    press("Enter", input);
    expect(store.get("selection").launch).toBe(6);
    input.value = "x[i] * x[i]";
    input.dispatchEvent(new Event("input"));
    press("Enter", input);
    expect(find(".td-line[aria-selected=true] .td-number").textContent).toBe("13");
    press("Escape", input);
    expect(document.activeElement).toBe(find(".td-canvas"));
  });
});

describe("the writers of a value", () => {
  it("goes on with w, back with Shift+W, and shows the way", () => {
    const store = mount();
    store.select({ launch: 7 });
    const way = (): string[] => [...host.querySelectorAll(".td-provenance li")].map((li) => li.textContent ?? "");
    const here = (): string | null => find(".td-provenance [aria-current]").textContent;
    press("w");
    expect(store.get("selection").launch).toBe(6);
    press("w");
    press("w");
    const steps = way();
    expect(steps.length).toBeGreaterThan(3);
    expect(steps[0]).toBe("launch 7");
    expect(here()).toBe(steps.at(-1));
    press("W");
    expect(here()).toBe(steps.at(-2));
    expect(way()).toEqual(steps); // the rest of the way is still there
    find<HTMLButtonElement>(".td-provenance button").click();
    expect(store.get("selection").launch).toBe(7);
    store.select({ launch: 0 });
    expect(host.querySelector(".td-provenance")).toBeNull();
  });
});

describe("what was selected", () => {
  it("can be gone back and forward through; a walk along the launches is one step", async () => {
    const store = mount();
    store.select({ launch: 1 });
    await Promise.resolve();
    store.select({ array: 4, version: 1 });
    await Promise.resolve();
    for (let i = 0; i < 4; i++) {
      press("ArrowRight");
      await Promise.resolve();
    }
    expect(store.get("selection").launch).toBe(5);
    press("[");
    expect(store.get("selection")).toMatchObject({ launch: 1, array: null });
    press("]");
    expect(store.get("selection")).toMatchObject({ launch: 5, array: 4 });
    press("[");
    press("[");
    expect(store.get("selection")).toEqual(NOTHING);
    press("[");
    expect(find("[aria-live]").textContent).toBe("no earlier selection");
    store.select({ launch: 2 });
    await Promise.resolve();
    press("]");
    expect(store.get("selection").launch).toBe(2);
  });
});

describe("play", () => {
  it("walks along the tape until the end, or until somebody goes elsewhere", () => {
    vi.useFakeTimers();
    const store = mount();
    press("p");
    expect(find(".td-play").textContent).toBe("Pause");
    vi.advanceTimersByTime(1100);
    expect(store.get("selection").launch).toBe(4);
    store.select({ launch: 1 });
    vi.advanceTimersByTime(2000);
    expect(store.get("selection").launch).toBe(1);
    expect(find(".td-play").textContent).toBe("Play");
    find<HTMLSelectElement>(".td-speed").value = "60";
    press("p");
    vi.advanceTimersByTime(2000);
    expect(find(".td-scrub-text").textContent).toBe("launch 0 backward");
    expect(find(".td-play").getAttribute("aria-pressed")).toBe("false");
  });

  it("is slow for those who want less motion", () => {
    vi.useFakeTimers();
    vi.spyOn(window, "matchMedia").mockImplementation(
      (query) =>
        ({ matches: query.includes("reduced-motion"), addEventListener() {}, removeEventListener() {} }) as never,
    );
    const store = mount();
    find<HTMLSelectElement>(".td-speed").value = "60";
    press("p");
    vi.advanceTimersByTime(2100);
    expect(store.get("selection").launch).toBeLessThan(4);
    vi.restoreAllMocks();
  });
});
