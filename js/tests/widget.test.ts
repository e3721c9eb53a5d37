import { afterEach, describe, expect, it, vi } from "vitest";
import widget, { leaveOutOfSavedState } from "../src/entry/widget.js";
import { fakeModel, traitsOfNet } from "./fake-model.js";

let cleanup: unknown;

function render(traits: Record<string, unknown> = {}, marked = "") {
  const fake = fakeModel({
    ...traitsOfNet(),
    ...traits,
  });
  const el = document.createElement("div");
  el.className = marked;
  document.body.append(el);
  cleanup = widget.render({ model: fake.model, el } as never);
  return { ...fake, el };
}

afterEach(() => {
  if (typeof cleanup === "function") cleanup();
  document.body.replaceChildren();
});

describe("widget", () => {
  it("sends the mask that is clicked together to Python", () => {
    const { el, traits, saved } = render();
    const boxes = el.querySelectorAll<HTMLInputElement>(".td-mask input");
    boxes[0]?.click();
    expect(traits.mask).toEqual([]);
    expect(saved).toHaveLength(1);
  });

  it("shows the mask that Python sets, without an echo", () => {
    const { el, python, saved } = render();
    python("mask", [[null, "x", "loss"]]);
    expect([...el.querySelectorAll<HTMLInputElement>(".td-mask input")].map((b) => b.checked)).toEqual([false, true]);
    expect(saved).toEqual([]);
  });

  it("tells Python the selection by label, and takes it by label, id or finding", () => {
    const { el, traits, python } = render();
    el.querySelector<HTMLElement>(".td-card")?.click();
    expect(traits.selection).toEqual({ launch: 1, array: "x", version: 0, finding: 0, pair: null });
    python("selection", { launch: 3, array: "force" });
    expect(el.querySelector(".td-choice[aria-selected=true]")?.textContent).toBe("Launch 3 · spring");
    expect(el.querySelectorAll(".td-choice")[1]?.textContent).toBe("Array force");
    python("selection", { array: 4, version: 2 });
    expect(el.querySelectorAll(".td-choice")[1]?.textContent).toBe("Array force v2");
  });

  it("sends run, cancel and export", () => {
    const { el, python, sent } = render();
    const press = (name: string): void =>
      [...el.querySelectorAll("button")].find((b) => b.textContent?.startsWith(name))?.click();
    press("Run checks");
    python("running", true);
    press("Cancel");
    press("Export");
    expect(sent).toEqual([{ type: "run" }, { type: "cancel" }, { type: "export" }]);
  });

  it("bears with nonsense in every trait", () => {
    const errors = vi.spyOn(console, "error");
    const { el, python } = render({
      mask: "all",
      checks: 5,
      selection: [1],
      progress: "half",
      status: null,
      running: "yes",
    });
    for (const key of ["mask", "checks", "selection", "progress", "status", "running", "can_run"]) {
      for (const value of [null, undefined, 7, "x", [], [[]], {}, [{}]]) python(key, value);
    }
    expect(el.querySelector(".td-badge")?.textContent).toBe("✕ gradient WRONG");
    expect(errors).not.toHaveBeenCalled();
  });

  it("is as high as it was asked to be", () => {
    const { el, python } = render({ height: 640 });
    const root = el.querySelector<HTMLElement>(".tapedebug");
    expect(root?.style.getPropertyValue("--td-height")).toBe("640px");
    python("height", 320);
    expect(root?.style.getPropertyValue("--td-height")).toBe("320px");
    expect(root?.classList.contains("td-fixed")).toBe(true);
    for (const nonsense of [null, "tall", -3]) {
      python("height", nonsense);
      expect(root?.style.getPropertyValue("--td-height")).toBe("");
      expect(root?.classList.contains("td-fixed")).toBe(false);
    }
  });

  it("says that the kernel has gone when its host marks it, and goes on without", async () => {
    const { el, sent } = render({ running: true, progress: 0.4 });
    el.classList.add("jupyter-widgets-disconnected");
    await vi.waitFor(() => expect(el.textContent).toContain("The kernel of this tape is gone"));
    const run = el.querySelector<HTMLButtonElement>(".td-run");
    expect(run?.disabled).toBe(true);
    run?.click();
    expect(sent).toEqual([]);
    el.querySelector<HTMLElement>(".td-card")?.click();
    expect(el.querySelector(".td-choice[aria-selected=true]")?.textContent).toContain("Launch");
  });

  it("is without a kernel from the start where its host has none", () => {
    const { el } = render({}, "jupyter-widgets-disconnected");
    expect(el.querySelector<HTMLButtonElement>(".td-run")?.disabled).toBe(true);
  });

  it("leaves nothing behind", () => {
    const { el, handlers } = render();
    (cleanup as () => void)();
    cleanup = null;
    expect(el.childElementCount).toBe(0);
    expect([...handlers.values()].every((set) => set.size === 0)).toBe(true);
  });

  it("is left out of the state of widgets that a notebook saves: its output has the tape already", () => {
    const state = {
      a: { state: { _anywidget_id: "tapedebug.notebook._widget.TapeDebugger", _esm: "…", layout: "IPY_MODEL_b" } },
      b: { state: { height: null } },
      c: { state: { _anywidget_id: "other.Widget" } },
      d: { state: {} },
    };
    const manager = { get_state_sync: () => ({ version_major: 2, state: { ...state } }) };
    leaveOutOfSavedState(manager);
    const once = manager.get_state_sync;
    leaveOutOfSavedState(manager);
    expect(manager.get_state_sync).toBe(once);
    expect(Object.keys(manager.get_state_sync().state)).toEqual(["c", "d"]);
    for (const other of [undefined, null, {}, { get_state_sync: 1 }]) leaveOutOfSavedState(other);
  });
});
