/** The widget by the anywidget specification alone, as Colab, VS Code and marimo run it: no lab, no loader, no globals. */
import { afterEach, describe, expect, it } from "vitest";
import widget from "../src/entry/widget.js";
import { Questions } from "../src/trace/questions.js";
import { fakeModel, traitsOfNet } from "./fake-model.js";

let cleanup: unknown;
afterEach(() => {
  if (typeof cleanup === "function") cleanup();
  document.body.replaceChildren();
});

const TRAITS = traitsOfNet();

describe("a host that gives no more than the specification", () => {
  it("shows the panel in an element that is not on the page yet", async () => {
    const fake = fakeModel({ ...TRAITS });
    const el = document.createElement("div");
    cleanup = await widget.render({ model: fake.model, el } as never);
    expect(el.querySelector(".td-badge")?.textContent).toBe("✕ gradient WRONG");
    document.body.append(el);
    el.querySelector<HTMLElement>(".td-card")?.click();
    expect(fake.traits.selection).toMatchObject({ finding: 0 });
    expect(typeof cleanup).toBe("function");
  });

  it("shows a model twice, both in step", async () => {
    const fake = fakeModel({ ...TRAITS });
    const [one, other] = [document.createElement("div"), document.createElement("div")];
    document.body.append(one, other);
    const ends = [one, other].map((el) => widget.render({ model: fake.model, el } as never)) as (() => void)[];
    one.querySelector<HTMLElement>(".td-card")?.click();
    expect(other.querySelector(".td-card")?.getAttribute("aria-pressed")).toBe("true");
    ends[0]?.();
    fake.python("selection", { launch: 3 });
    expect(other.querySelector(".td-choice[aria-selected=true]")?.textContent).toContain("Launch 3");
    expect(one.childElementCount).toBe(0);
    ends[1]?.();
  });

  it("takes buffers as views that do not begin at the start of their memory", async () => {
    const asked: number[] = [];
    const questions = new Questions((request: number) => asked.push(request));
    const answer = questions.ask({ type: "values" });
    const memory = new ArrayBuffer(24);
    new Float64Array(memory, 8, 2).set([1.5, -2]);
    questions.accept({ type: "answer", request: asked[0], data: {} }, [new DataView(memory, 8, 16)]);
    const { buffers } = await answer;
    expect([buffers[0]?.getFloat64(0, true), buffers[0]?.getFloat64(8, true)]).toEqual([1.5, -2]);
  });

  it("leaves messages alone that are no answer to it", () => {
    const fake = fakeModel({ ...TRAITS });
    const el = document.createElement("div");
    document.body.append(el);
    cleanup = widget.render({ model: fake.model, el } as never);
    for (const message of [null, 7, "x", {}, { type: "answer" }, { type: "answer", request: 99 }]) fake.say(message);
    expect(el.querySelector(".td-badge")).not.toBeNull();
  });
});
