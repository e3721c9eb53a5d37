import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import { type MaskEntry, NOTHING, type PanelActions, type PanelState, PanelStore } from "../src/trace/store.js";
import { mountPanel } from "../src/views/panel.js";
import { type Json, makeNet } from "./make.js";

const EVIL = "</script><img src=x onerror=alert(1)>";

let host: HTMLElement;
let unmount: () => void = () => {};

function mount(state: Partial<PanelState> = {}, actions: Partial<PanelActions> = {}): PanelStore {
  const store = new PanelStore({ trace: openJson(makeNet()), ...state }, actions);
  unmount = mountPanel(host, store);
  return store;
}

function find<E extends Element = HTMLElement>(selector: string): E {
  const element = host.querySelector<E>(selector);
  if (!element) throw new Error(`no ${selector} in the panel`);
  return element;
}

function text(selector: string): string {
  return find(selector).textContent ?? "";
}

function press(key: string, target: Element = find(".td-canvas")): void {
  target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
}

function buttonNamed(name: string): HTMLButtonElement {
  const found = [...host.querySelectorAll("button")].find((b) => b.textContent === name);
  if (!found) throw new Error(`no button ${name}`);
  return found;
}

function cell(pair: MaskEntry): HTMLInputElement {
  const found = [...host.querySelectorAll<HTMLInputElement>(".td-mask input")].find(
    (input) => input.getAttribute("data-pair") === JSON.stringify(pair),
  );
  if (!found) throw new Error(`no cell ${JSON.stringify(pair)}`);
  return found;
}

beforeEach(() => {
  host = document.createElement("div");
  document.body.append(host);
});

afterEach(() => {
  unmount();
  host.remove();
});

describe("panel", () => {
  it("names the tape once", () => {
    mount({ trace: openJson({ ...makeNet(), name: "net.py · tape 3", tape: { id: 3, launches: 8 } }) });
    expect(text(".td-name")).toBe("net.py · tape 3");
    unmount();
    mount({ trace: openJson({ ...makeNet(), name: "net", tape: { id: 3, launches: 8 } }) });
    expect(text(".td-name")).toBe("net · tape 3");
    unmount();
    mount({ trace: openJson({ ...makeNet(), name: "tape", tape: { id: 33, launches: 8 } }) });
    expect(text(".td-name")).toBe("tape 33");
  });

  it("takes the verdict on a tape that nobody has diagnosed from the whole-tape pairs that were run", () => {
    const pair = (input: string, verdict: string | null): Json => ({
      ...{ launch: null, input, output: "loss", verdict, max_abs_error: null, max_rel_error: null },
      ...{ message: "", seconds: null },
    });
    const trace = openJson({
      ...makeNet(),
      verdict: "NOT CHECKED",
      findings: [],
      checks: [pair("throw", null), pair("v", null)],
    });
    const store = mount({ trace });
    expect(text(".td-badge")).toContain("not checked");
    store.set({ checks: [pair("throw", "AGREE")] });
    expect(text(".td-badge")).toBe("✓ gradient AGREE");
    expect(text(".td-coverage")).toContain("1 of 2 whole-tape pairs checked");
    store.set({ checks: [pair("throw", "AGREE"), pair("v", "WRONG")] });
    expect(text(".td-badge")).toBe("✕ gradient WRONG");
  });

  it("says the verdict, the coverage and the findings", () => {
    mount();
    expect(text(".td-badge")).toBe("✕ gradient WRONG");
    expect(text(".td-coverage")).toBe("8 of 8 launches checked end to end · 1 error");
    expect(text(".td-card-title")).toBe("✕overwrite · x");
    expect(text(".td-card-fix")).toBe("Fix: give each step its own x");
    expect(find(".td-canvas").getAttribute("aria-label")).toBe(
      "Lanes: 8 launches, 6 arrays shown; 2 needed values overwritten and lost, 0 overwritten but kept. Arrow keys walk along the launches.",
    );
  });

  it("opens the launch and the source line of a finding that is clicked, and closes it again", () => {
    const store = mount();
    find<HTMLButtonElement>(".td-card").click();
    expect(store.get("selection")).toEqual({ launch: 1, array: 1, version: 0, finding: 0, pair: null });
    expect(text(".td-choice[aria-selected=true]")).toBe("Launch 1 · spring");
    expect(text(".td-line.td-marked .td-number")).toBe("23");
    expect(text(".td-line.td-chosen .td-badges")).toBe("✕ errorr x ● ×2w force");
    expect(find(".td-line.td-chosen").getAttribute("aria-description")).toBe(
      "reads x; the adjoint needs these values; writes force; the finding: error",
    );
    expect(host.querySelector(".td-adjoint")).toBeNull(); // nobody has asked for it
    find(".td-line.td-marked").click();
    expect(find(".td-line.td-chosen").parentElement?.nextElementSibling?.className).toBe("td-adjoint");
    expect(text(".td-adjoint pre")).toBe("adj_x = 2.0 * x * adj_force");
    find(".td-line.td-marked").click();
    expect(host.querySelector(".td-adjoint")).toBeNull();
    find<HTMLButtonElement>(".td-card").click();
    expect(store.get("selection").finding).toBeNull();
  });

  it("completes a finding that is chosen from outside by its id", () => {
    const store = mount({ selection: { ...NOTHING, finding: 0 } });
    expect(store.get("selection")).toEqual({ launch: 1, array: 1, version: 0, finding: 0, pair: null });
  });

  it("walks along the tape with the arrows, forward and then backward", () => {
    const store = mount();
    for (let i = 0; i < 9; i++) press("ArrowRight");
    expect(store.get("selection").launch).toBe(7);
    expect(text(".td-scrub-text")).toBe("launch 7 backward");
    press("ArrowRight");
    expect(text(".td-scrub-text")).toBe("launch 6 backward");
    press("ArrowLeft");
    press("ArrowLeft");
    expect(text(".td-scrub-text")).toBe("launch 7");
    for (let i = 0; i < 20; i++) press("ArrowLeft");
    expect(text(".td-scrub-text")).toBe("launch 0");
  });

  it("takes what is folded in the lanes as one step, in both directions and both passes", () => {
    const store = mount({ trace: openJson(makeNet({ steps: 40 })), selection: { ...NOTHING, launch: 8 } });
    const walk = (key: string, times: number): (number | null)[] =>
      Array.from({ length: times }, () => {
        press(key);
        return store.get("selection").launch;
      });
    expect(walk("ArrowRight", 3)).toEqual([9, 81, 81]);
    expect(text(".td-scrub-text")).toBe("launch 81 backward");
    expect(walk("ArrowRight", 2)).toEqual([80, 8]);
    expect(walk("ArrowLeft", 2)).toEqual([9, 81]);
    expect(walk("ArrowLeft", 3)).toEqual([81, 80, 8]);
    press("g");
    expect(walk("ArrowRight", 2)).toEqual([9, 10]);
  });

  it("goes back to who wrote a value", () => {
    const store = mount({ selection: { ...NOTHING, launch: 3 } });
    press("w");
    expect(store.get("selection")).toMatchObject({ launch: 2, array: 2, version: 1 });
    expect(text(".td-choice[aria-selected=true]")).toBe("Launch 2 · integrate");
  });

  it("says so where a value was there before the tape", () => {
    mount({ selection: { ...NOTHING, launch: 1 } });
    press("w");
    expect(text(".td-choice[aria-selected=true]")).toBe("Array x v0");
    expect(text("[aria-live]")).toBe("x version 0 was set before the tape began");
  });

  it("goes through the findings with j and k, opens help with ?, clears with Escape", () => {
    const data = makeNet();
    const [first] = data.findings as Json[];
    data.findings = [first, { ...first, id: 1, severity: "warning", rule: "disconnected" }];
    const store = mount({ trace: openJson(data) });
    press("j");
    press("j");
    expect(store.get("selection").finding).toBe(1);
    press("j");
    expect(store.get("selection").finding).toBe(0);
    press("k");
    expect(store.get("selection").finding).toBe(1);
    press("?");
    expect(find(".td-help").hidden).toBe(false);
    press("Escape");
    expect(find(".td-help").hidden).toBe(true);
    press("Escape");
    expect(store.get("selection").finding).toBeNull();
    press("Escape");
    expect(store.get("selection")).toEqual(NOTHING);
  });

  it("shows the functions that a kernel calls below it, and a finding in one of them", () => {
    const data = makeNet();
    for (const kernel of data.kernels as Json[]) {
      kernel.functions = [
        { name: "square", file: "/home/ada/helpers.py", line: 7, lines: ["def square(x):", "    x"] },
      ];
    }
    const [finding] = data.findings as Json[];
    (finding as Json).location = { file: "/home/ada/helpers.py", line: 8, column: 4, function: "square" };
    const store = mount({ trace: openJson(data) });
    find<HTMLButtonElement>(".td-card").click();
    store.select({ launch: 1 });
    expect(text(".td-called")).toBe("calls square helpers.py:7");
    const marked = host.querySelectorAll(".td-source .td-marked");
    expect([...marked].map((row) => [row.textContent, row.getAttribute("aria-description")])).toEqual([
      ["8    x✕ error", "the finding: error"],
    ]);
  });

  it("walks the lines of the source with up and down", () => {
    mount({ selection: { ...NOTHING, launch: 1 } });
    const code = find(".td-code");
    const down = new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true, cancelable: true });
    code.dispatchEvent(down);
    expect(text(".td-line[aria-selected=true] .td-number")).toBe("20");
    for (let i = 0; i < 9; i++) press("ArrowDown", code);
    expect(text(".td-line[aria-selected=true] .td-number")).toBe("23");
    press("ArrowUp", code);
    expect(text(".td-line[aria-selected=true] .td-number")).toBe("22");
  });

  it("forgets the line of another kernel when a launch is chosen from outside", () => {
    const store = mount();
    find<HTMLButtonElement>(".td-card").click();
    store.select({ launch: 2 });
    expect(text(".td-choice[aria-selected=true]")).toBe("Launch 2 · integrate");
    expect(host.querySelector(".td-adjoint pre, .td-line[aria-selected=true]")).toBeNull();
  });

  it("is heard before a host that listens on the document, and only for keys of its own", () => {
    mount();
    const host_ = vi.fn();
    document.addEventListener("keydown", host_, true);
    press("j");
    press("x");
    press("j", document.body);
    document.removeEventListener("keydown", host_, true);
    expect(host_.mock.calls.map(([event]) => [event.key, event.target === document.body])).toEqual([
      ["x", false],
      ["j", true],
    ]);
  });

  it("does not take keys from the search field", () => {
    const store = mount();
    press("/");
    expect(document.activeElement).toBe(find(".td-search"));
    press("j", find(".td-search"));
    expect(store.get("selection")).toEqual(NOTHING);
  });

  it("finds arrays, kernels, lines and launches by name", () => {
    const store = mount();
    const input = find<HTMLInputElement>(".td-search");
    const search = (query: string): string[] => {
      input.focus();
      input.value = query;
      input.dispatchEvent(new Event("input"));
      return [...host.querySelectorAll(".td-results li")].map((li) => li.textContent ?? "");
    };
    expect(search("spri")).toEqual([
      "kernelspring3 launches",
      "findingoverwrite · xerror",
      "codedef spring(x, force):net.py:21",
    ]);
    expect(search("net.py:81")).toEqual(["linenet.py:813 launches"]);
    expect(search("nowhere")).toEqual(["no match"]);
    expect(search("5")[0]).toBe("launchlaunch 5spring");
    search("spring");
    press("Enter", input);
    expect(store.get("selection").launch).toBe(1);
    press("Enter", input);
    expect(store.get("selection").launch).toBe(3);
  });

  it("keeps names text", () => {
    const data = makeNet();
    data.name = EVIL;
    for (const key of ["arrays", "kernels", "launches", "scopes"]) {
      for (const item of data[key] as Json[])
        Object.assign(item, { name: EVIL, label: EVIL, lines: [EVIL], file: EVIL, adjoint: EVIL });
    }
    for (const launch of data.launches as Json[]) {
      for (const arg of launch.args as Json[]) arg.name = EVIL;
      Object.assign(launch.call_site as Json, { file: EVIL, function: EVIL });
    }
    Object.assign((data.findings as Json[])[0] as Json, { rule: EVIL, message: EVIL, fix: EVIL, arrays: [EVIL] });
    for (const check of data.checks as Json[]) Object.assign(check, { input: EVIL, output: EVIL, message: EVIL });
    const store = mount({ trace: openJson(data), status: EVIL });
    find<HTMLButtonElement>(".td-card").click();
    store.select({ array: 1, version: 0 });
    buttonNamed(`Array ${EVIL} v0`).click();
    expect(host.querySelectorAll("img, script")).toHaveLength(0);
    expect(text(".td-card-title")).toContain(EVIL);
  });
});

describe("panel without a sound trace", () => {
  it.each([
    [
      { format: "nonsense" },
      "This trace cannot be shown",
      'This is not a tapedebug trace: it is of the format "nonsense", not "tapedebug-columns".',
    ],
    ["text", "This trace cannot be shown", 'This is not a tapedebug trace: it is "text", not an object.'],
  ])("says what is wrong with %j", (trace, title, message) => {
    mount({ trace });
    expect(text(".td-failure h2")).toBe(title);
    expect(text(".td-failure p")).toBe(message);
  });

  it("shows what is sound of a damaged one, and says what is not", () => {
    const data = makeNet();
    Object.assign((data.launches as Json[])[2] as Json, { args: "none", dim: {} });
    mount({ trace: openJson(data) });
    expect(text(".td-problems summary")).toBe("This trace has 2 fields that are invalid and left out.");
    expect(text(".td-badge")).toBe("✕ gradient WRONG");
  });

  it("waits for a tape, shows it when it comes, and another after it", () => {
    const store = mount({ trace: {} });
    expect(text(".td-hint")).toBe("No tape yet.");
    store.set({ trace: openJson(makeNet({ mode: "preserve" })) });
    expect(text(".td-badge")).toBe("✓ gradient AGREE");
    store.set({ trace: openJson(makeNet()) });
    expect(text(".td-badge")).toBe("✕ gradient WRONG");
    expect(host.querySelectorAll(".td-header")).toHaveLength(1);
  });

  it("shows an empty tape", () => {
    const data = makeNet();
    for (const key of ["launches", "arrays", "versions", "scopes", "findings", "checks", "kernels"]) data[key] = [];
    data.backward = { ran: false, loss: null, order: [] };
    mount({ trace: openJson(data) });
    expect(text(".td-findings .td-empty")).toBe("None: this tape has no launch.");
    press("ArrowRight");
    press("j");
    press("w");
    expect(find<HTMLInputElement>(".td-slider").disabled).toBe(true);
  });

  it("takes itself down", () => {
    const store = mount();
    unmount();
    expect(host.childElementCount).toBe(0);
    store.select({ launch: 2 }); // nobody listens any more
    store.set({ trace: openJson(makeNet()) });
    expect(host.childElementCount).toBe(0);
  });
});

describe("mask matrix", () => {
  const live = { canRun: true, mask: [[null, "throw", "loss"]] as MaskEntry[], selection: { ...NOTHING, launch: 1 } };

  it("shows the pairs of the launch and of the tape with their verdicts in words", () => {
    mount(live);
    expect([...host.querySelectorAll(".td-mask caption")].map((c) => c.textContent)).toEqual([
      "launch 1 · spring",
      "whole tape",
    ]);
    expect([...host.querySelectorAll(".td-mask td")].map((td) => td.textContent)).toEqual([
      "✓ AGREE3e−8",
      "✕ WRONG0.38",
      "–",
    ]);
    expect(cell([null, "throw", "loss"]).checked).toBe(true);
    expect(cell([null, "throw", "loss"]).getAttribute("aria-label")).toBe(
      "check loss by throw, WRONG, largest error 0.38, switched on, whole tape",
    );
    expect(cell([1, "x", "force"]).checked).toBe(false);
  });

  it("switches pairs, all, none, and counts what would run", () => {
    const run = vi.fn();
    const store = mount(live, { run });
    cell([1, "x", "force"]).click();
    expect(store.get("mask")).toEqual([
      [null, "throw", "loss"],
      [1, "x", "force"],
    ]);
    expect([text(".td-run"), text(".td-run-head"), text(".td-controls .td-empty")]).toEqual([
      "Run checks",
      "Run checks",
      "2 of 3 pairs switched on",
    ]);
    buttonNamed("none").click();
    expect(store.get("mask")).toEqual([]);
    expect(find<HTMLButtonElement>(".td-run").disabled).toBe(true);
    buttonNamed("all").click();
    expect(text(".td-controls .td-empty")).toBe("3 of 3 pairs switched on");
    find<HTMLButtonElement>(".td-run").click();
    expect(run).toHaveBeenCalledTimes(1);
  });

  it("follows the mask and the results that Python sets", () => {
    const store = mount(live);
    store.set({ mask: [[null, "x", "loss"]] });
    expect(cell([null, "throw", "loss"]).checked).toBe(false);
    expect(cell([null, "x", "loss"]).checked).toBe(true);
    store.set({
      checks: [
        { launch: null, input: "x", output: "loss", verdict: "KINK", max_rel_error: 0.1, message: "slopes differ" },
      ],
    });
    const shown = cell([null, "x", "loss"]).closest("td");
    expect(shown?.textContent).toBe("∧ KINK0.1");
    expect(shown?.title).toContain("slopes differ");
  });

  it("shows progress and cancels", () => {
    const cancel = vi.fn();
    const store = mount(live, { cancel });
    store.set({ running: true, progress: 0.4, status: "3 of 7 pairs" });
    expect(text(".td-status")).toBe("3 of 7 pairs");
    expect(find("[role=progressbar]").getAttribute("aria-valuenow")).toBe("40");
    expect(cell([null, "throw", "loss"]).disabled).toBe(true);
    buttonNamed("Cancel · 40 %").click();
    expect(cancel).toHaveBeenCalledTimes(1);
  });

  it("is off where there is no kernel, and says why", () => {
    const run = vi.fn();
    mount({ ...live, canRun: false }, { run });
    const button = find<HTMLButtonElement>(".td-run");
    expect([button.disabled, button.title]).toEqual([true, "needs the kernel that recorded this tape"]);
    expect(buttonNamed("Export report").disabled).toBe(true);
    button.click();
    expect(run).not.toHaveBeenCalled();
  });
});
