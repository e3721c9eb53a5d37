import type { AnyModel } from "@anywidget/types";
import { afterEach, describe, expect, it, vi } from "vitest";
import widget from "../src/entry/widget.js";
import { makeNet } from "./make.js";

type Handler = () => void;

/** An anywidget model that keeps what is set and tells of it, as the real one does. */
function fakeModel(traits: Record<string, unknown>) {
  const handlers = new Map<string, Set<Handler>>();
  const sent: unknown[] = [];
  const saved: Record<string, unknown>[] = [];
  const dirty: Record<string, unknown> = {};
  const model = {
    get: (key: string) => traits[key],
    set: (key: string, value: unknown) => {
      traits[key] = value;
      dirty[key] = value;
      for (const handler of handlers.get(`change:${key}`) ?? []) handler();
    },
    save_changes: () => saved.push({ ...dirty }),
    on: (event: string, handler: Handler) => {
      const set = handlers.get(event) ?? new Set();
      handlers.set(event, set.add(handler));
    },
    off: (event: string, handler: Handler) => handlers.get(event)?.delete(handler),
    send: (content: unknown) => sent.push(content),
  };
  const python = (key: string, value: unknown): void => {
    traits[key] = value;
    for (const handler of handlers.get(`change:${key}`) ?? []) handler();
  };
  return { model: model as unknown as AnyModel, sent, saved, traits, python, handlers };
}

let cleanup: unknown;

function render(traits: Record<string, unknown> = {}) {
  const fake = fakeModel({
    trace: makeNet(),
    mask: [[null, "throw", "loss"]],
    checks: [],
    selection: {},
    running: false,
    progress: 0,
    status: "",
    can_run: true,
    ...traits,
  });
  const el = document.createElement("div");
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
    expect(traits.selection).toEqual({ launch: 1, array: "x", version: 0, finding: 0 });
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
    press("Run 1 of");
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

  it("leaves nothing behind", () => {
    const { el, handlers } = render();
    (cleanup as () => void)();
    cleanup = null;
    expect(el.childElementCount).toBe(0);
    expect([...handlers.values()].every((set) => set.size === 0)).toBe(true);
  });
});
