import { describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import { checkKey, mergeChecks, type TraceModel } from "../src/trace/model.js";
import { Observable } from "../src/trace/observable.js";
import { PanelStore } from "../src/trace/store.js";
import type { Check, Verdict } from "../src/trace/types.js";
import { type Json, makeNet } from "./make.js";

function model(data: Json = makeNet()): TraceModel {
  return openJson(data);
}

describe("TraceModel", () => {
  it("finds the version that a launch found or left behind", () => {
    const net = model();
    const x = net.arrayId("x_next") as number;
    expect(net.versionAt(x, 0)?.version).toBe(0);
    expect(net.versionAt(x, 1)?.version).toBe(0);
    expect(net.versionAt(x, 2)?.version).toBe(1);
    expect(net.versionAt(x, 5)?.version).toBe(1);
    expect(net.versionAt(x, 6)?.version).toBe(2);
  });

  it("sorts findings worst first and keeps the order of equal ones", () => {
    const data = makeNet();
    const base = (data.findings as Json[])[0] as Json;
    data.findings = ["info", "error", "warning", "error"].map((severity, id) => ({ ...base, id, severity }));
    expect(model(data).findings.map((f) => f.id)).toEqual([1, 3, 2, 0]);
  });

  it("finds arrays by label and by id", () => {
    const net = model();
    expect(net.arrayId("force")).toBe(4);
    expect(net.arrayId(4)).toBe(4);
    expect(net.arrayId(99)).toBeNull();
    expect(net.arrayId("nothing")).toBeNull();
  });

  it("names the scopes of a launch from the outside in", () => {
    const data = makeNet();
    (data.scopes as Json[]).push({ id: 3, name: "inner", parent: 1, first: 3, last: 3 });
    Object.assign((data.launches as Json[])[3] as Json, { scope: 3 });
    const net = model(data);
    expect(net.scopesOf(net.launch(3) as never).map((s) => s.name)).toEqual(["step 1", "inner"]);
    expect(net.scopeDepth).toEqual([0, 0, 0, 1]);
  });
});

describe("mergeChecks", () => {
  const check = (input: string, verdict: Verdict | null): Check => ({
    launch: null,
    input,
    output: "loss",
    verdict,
    maxAbsError: null,
    maxRelError: null,
    message: "",
    seconds: null,
  });

  it("lets newer results replace older ones of the same pair only", () => {
    const merged = mergeChecks([check("x", null), check("v", "AGREE")], [check("x", "WRONG")]);
    expect(merged.get(checkKey(null, "x", "loss"))?.verdict).toBe("WRONG");
    expect(merged.get(checkKey(null, "v", "loss"))?.verdict).toBe("AGREE");
    expect(merged.size).toBe(2);
  });

  it("tells pairs apart whose names hold separators", () => {
    expect(checkKey(null, 'a","b', "c")).not.toBe(checkKey(null, "a", 'b","c'));
  });
});

describe("Observable", () => {
  it("tells once of the fields that changed, and of nothing when none did", () => {
    const state = new Observable({ a: 1, b: 2 });
    const heard = vi.fn();
    const end = state.subscribe(heard);
    state.set({ a: 1, b: 3 });
    state.set({ b: 3 });
    end();
    state.set({ a: 9 });
    expect(heard.mock.calls).toEqual([[new Set(["b"])]]);
    expect(state.value).toEqual({ a: 9, b: 3 });
  });

  it("lets a listener change it again", () => {
    const state = new Observable({ a: 0 });
    state.subscribe(() => state.get("a") < 3 && state.set({ a: state.get("a") + 1 }));
    state.set({ a: 1 });
    expect(state.get("a")).toBe(3);
  });
});

describe("PanelStore", () => {
  it("runs only where there is a kernel and nothing runs yet", () => {
    const run = vi.fn();
    const store = new PanelStore({}, { run });
    store.run();
    store.set({ canRun: true, running: true });
    store.run();
    expect(run).not.toHaveBeenCalled();
    store.set({ running: false });
    store.run();
    expect(run).toHaveBeenCalledTimes(1);
  });

  it("cancels only what runs", () => {
    const cancel = vi.fn();
    const store = new PanelStore({ canRun: true }, { cancel });
    store.cancel();
    expect(cancel).not.toHaveBeenCalled();
    store.set({ running: true });
    store.cancel();
    expect(cancel).toHaveBeenCalledTimes(1);
  });

  it("does not tell of a selection that stays the same", () => {
    const store = new PanelStore();
    const heard = vi.fn();
    store.subscribe(heard);
    store.select({ launch: 3 });
    store.select({ launch: 3 });
    expect(heard).toHaveBeenCalledTimes(1);
    expect(store.get("selection")).toEqual({ launch: 3, array: null, version: null, finding: null, pair: null });
  });
});
