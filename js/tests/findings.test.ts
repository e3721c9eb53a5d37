import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openJson } from "../src/trace/json.js";
import { NOTHING, PanelStore } from "../src/trace/store.js";
import { mountPanel } from "../src/views/panel.js";
import { type Json, makeNet } from "./make.js";

let host: HTMLElement;
let unmount: () => void = () => {};

function mount(findings: (first: Json) => Json[], change: (trace: Json) => void = () => {}): PanelStore {
  const trace = makeNet();
  change(trace);
  trace.findings = findings((trace.findings as Json[])[0] as Json);
  const store = new PanelStore({ trace: openJson(trace), selection: NOTHING });
  unmount = mountPanel(host, store);
  return store;
}

function all(selector: string): string[] {
  return [...host.querySelectorAll(selector)].map((element) => element.textContent ?? "");
}

function click(text: string, within = ""): void {
  const found = [...host.querySelectorAll<HTMLElement>(`${within} button`)].find((b) => b.textContent === text);
  if (!found) throw new Error(`no button ${text}`);
  found.click();
}

function press(key: string): void {
  const canvas = host.querySelector(".td-canvas");
  canvas?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

/** Many findings: 3 errors and 30 notes of one rule, and a warning of another. */
function many(first: Json): Json[] {
  const notes = Array.from({ length: 30 }, (_, i) => ({ ...first, id: 10 + i, severity: "info" }));
  const errors = [0, 1, 2].map((id) => ({ ...first, id }));
  return [...notes, { ...first, id: 3, rule: "disconnected", severity: "warning" }, ...errors];
}

beforeEach(() => {
  host = document.createElement("div");
  document.body.append(host);
});

afterEach(() => {
  unmount();
  host.remove();
});

describe("findings", () => {
  it("fold a rule that has many, where its worst one is, and open for one that is chosen", () => {
    const store = mount(many);
    expect(all(".td-fold > summary")).toEqual(["✕overwrite ×33"]);
    expect(all(".td-card-title")).toEqual(["!disconnected · x"]);
    store.select({ finding: 20 });
    expect(host.querySelector<HTMLDetailsElement>(".td-fold")?.open).toBe(true);
    expect(host.querySelectorAll(".td-card")).toHaveLength(34);
    expect(host.querySelectorAll(".td-card[aria-pressed=true]")).toHaveLength(1);
  });

  it("are filtered by severity and rule, also for j and k", () => {
    const store = mount(many);
    const boxes = [...host.querySelectorAll<HTMLInputElement>(".td-filters input")];
    expect(all(".td-filters label")).toEqual(["✕ 3 errors", "! 1 warning", "i 30 infos"]);
    boxes[2]?.click();
    expect(all(".td-card-title")).toEqual(["✕overwrite · x", "✕overwrite · x", "✕overwrite · x", "!disconnected · x"]);
    const seen = [1, 2, 3, 4, 5].map(() => {
      press("j");
      return store.get("selection").finding;
    });
    expect(seen).toEqual([0, 1, 2, 3, 0]);
    const select = host.querySelector<HTMLSelectElement>(".td-filters select") as HTMLSelectElement;
    select.value = "1";
    select.dispatchEvent(new Event("change"));
    expect(all(".td-card-title")).toEqual(["!disconnected · x"]);
    boxes[1]?.click();
    expect(all(".td-finding-list .td-empty")).toEqual(["None with the filters above."]);
  });

  it("are not called absent before every rule has run", () => {
    const none = () => [];
    const shown = (partial: boolean) => {
      mount(none, (trace) => Object.assign(trace.coverage as Json, { partial }));
      const [text] = all(".td-finding-list .td-empty");
      unmount();
      return text;
    };
    expect(shown(true)).toBe("None so far: not every rule has run.");
    expect(shown(false)).toBe("None: nothing wrong was found.");
  });

  it("tell their evidence in words and numbers, with links", () => {
    const evidence = {
      harmless: false,
      changed: 256,
      max_change: 0.14508936,
      relative_error: { throw: 0.381 },
      pairs: Array.from({ length: 9 }, (_, i) => [i % 8, 4]),
      reader: { launch: 1, kernel: "spring", param: "x", location: { file: "/a/net.py", line: 62 } },
      where: null,
      operands: [-1, "nan"],
      __proto__: { polluted: 1 },
      deep: { a: { b: { c: { d: 1 } } } },
      "<img src=x>": "</script>",
    };
    const store = mount((first) => [{ ...first, evidence }]);
    host.querySelector<HTMLButtonElement>(".td-card")?.click();
    const names = all(".td-evidence dt");
    const values = all(".td-evidence dd");
    const said = Object.fromEntries(names.map((name, i) => [name, values[i]]));
    expect(said).toEqual({
      harmless: "no",
      "elements changed": "256",
      "largest change": "0.1451",
      "gradient off by": "throw: 38.1 %",
      "reader → overwriter": "0 → 4, 1 → 4, 2 → 4, 3 → 4, 4 → 4, 5 → 4 and 3 more",
      reader: "launch 1 (spring), x at net.py:62",
      operands: "-1, nan",
      deep: "a: b: c: …",
      "<img src=x>": "</script>",
    });
    expect(all(".td-evidence .td-nowrap")).toContain("0 → 4,"); // no line begins with a comma
    click("4", ".td-evidence");
    expect(store.get("selection").launch).toBe(4);
    expect(store.get("selection").finding).toBe(0);
  });

  it("link every launch, array and place that they name", () => {
    const store = mount((first) => [first]);
    host.querySelector<HTMLButtonElement>(".td-card")?.click();
    expect(all(".td-named")).toEqual(["launches 1, 4", "arrays x", "source net.py:23", "called at net.py:82"]);
    click("4", ".td-named");
    expect(store.get("selection")).toMatchObject({ launch: 4, finding: 0 });
    click("x", ".td-named");
    expect(host.querySelector(".td-choice[aria-selected=true]")?.textContent).toBe("Array x v1");
    click("net.py:23", ".td-named");
    expect(store.get("selection").launch).toBe(1);
    expect(all(".td-line[aria-selected=true] .td-number")).toEqual(["23"]);
    click("net.py:82", ".td-named");
    expect(host.querySelector(".td-choice[aria-selected=true]")?.textContent).toBe("Launch 4 · integrate");
  });

  it("are linked from the launch and the array that they concern", () => {
    const store = mount((first) => [first]);
    store.select({ launch: 4 });
    expect(all(".td-concerned li")).toEqual(["✕overwrite · x"]);
    click("overwrite · x", ".td-concerned");
    expect(store.get("selection").finding).toBe(0);
    store.set({ selection: { ...NOTHING, array: "x", version: 0 } });
    click("Array x v0");
    expect(all(".td-concerned li")).toEqual(["✕overwrite · x"]);
    store.set({ selection: { ...NOTHING, array: "v", version: 0 } });
    expect(all(".td-concerned li")).toEqual([]);
  });
});

describe("the arrays that are shown", () => {
  it("can be those alone that a finding names", () => {
    mount((first) => [first]);
    const label = (): string => host.querySelector(".td-canvas")?.getAttribute("aria-label") ?? "";
    expect(label()).toContain("6 arrays shown");
    const box = [...host.querySelectorAll<HTMLElement>(".td-show label")].find(
      (l) => l.textContent === "only arrays in findings",
    );
    box?.querySelector("input")?.click();
    expect(label()).toContain("1 array shown");
    expect(all(".td-show [role=status]")).toEqual(["5 arrays hidden"]);
  });

  it("are not filtered so where no finding names any", () => {
    mount(() => []);
    const boxes = [...host.querySelectorAll<HTMLElement>(".td-show label")];
    const box = boxes.find((l) => l.textContent === "only arrays in findings")?.querySelector("input");
    expect(box?.disabled).toBe(true);
  });
});
