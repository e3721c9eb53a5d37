/** Two tapes side by side: partners of launches, and selections that go over to the other panel. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Unanswered } from "../src/trace/store.js";
import { Partners, readDiff } from "../src/views/diff/data.js";
import { DiffView } from "../src/views/diff/view.js";
import NET from "./fixtures/net.trace.json";
import { packTrace } from "./pack.mjs";

const NAMES = ["a", "b"];
const ROW = { kind: "gone", text: "overwrite · x", launches: [6, 4], findings: [0, null] };

describe("partners of launches", () => {
  const partners = new Partners([
    [0, 0, 3],
    [4, 3, 2],
    [9, 20, 100],
  ]);

  test("are found from both sides", () => {
    expect([0, 2, 3, 4, 5, 6, 9, 108, 109].map((at) => partners.of(0, at))).toEqual([
      0,
      2,
      null,
      3,
      4,
      null,
      20,
      119,
      null,
    ]);
    expect([0, 3, 4, 5, 19, 20, 119].map((at) => partners.of(1, at))).toEqual([0, 4, 5, null, null, 9, 108]);
  });

  test("that make no sense are left out", () => {
    const odd = new Partners([[5, 5, 2], [1, 1, 1], [7, 7, 0], [8, 8, 1e99], "x", [9, 9, 1]]);
    expect([1, 5, 6, 7, 8, 9].map((at) => odd.of(0, at))).toEqual([null, 5, 6, null, null, 9]);
    expect(new Partners("no").of(0, 0)).toBe(null);
  });
});

describe("what a page is told", () => {
  test("is read, with the unknown as notes", () => {
    const diff = readDiff({
      names: NAMES,
      rows: [ROW, { kind: "__proto__", text: 3 }, 7],
      overview: [["verdict", "A → B"], 3],
      matches: [],
    });
    expect(diff?.rows.map(({ kind, text }) => [kind, text])).toEqual([
      ["gone", "overwrite · x"],
      ["note", "3"],
    ]);
    expect(diff?.overview).toEqual([["verdict", "A → B"]]);
  });

  test("is nothing where it is damaged", () => {
    expect(readDiff(null)).toBe(null);
    expect(readDiff({ names: NAMES })).toBe(null);
  });
});

describe("two panels", () => {
  let view: DiffView;

  beforeEach(() => {
    vi.stubGlobal(
      "ResizeObserver",
      class {
        observe() {}
        disconnect() {}
      },
    );
    vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener() {}, removeEventListener() {} }));
    const diff = readDiff({
      names: NAMES,
      overview: [["verdict", "WRONG → AGREE"]],
      rows: [{ kind: "check", text: "∂loss/∂x" }, ROW],
      matches: [
        [0, 0, 5],
        [6, 5, 3],
      ],
    });
    if (diff === null) throw new Error("no diff");
    view = new DiffView({
      diff,
      traces: [packTrace(NET), packTrace(NET)],
      ask: () => Promise.reject(new Unanswered("no kernel")),
      ready() {},
    });
    document.body.append(view.element);
    view.mount();
  });

  afterEach(() => {
    vi.unstubAllGlobals();
    document.body.replaceChildren();
  });

  const shown = (): string[] =>
    [...document.querySelectorAll<HTMLElement>(".td-scrub-text")].map((element) => element.textContent ?? "");

  test("open on the first row that is about a launch", () => {
    expect(document.querySelector(".td-diff-row[aria-pressed=true]")?.textContent).toBe("✓ goneoverwrite · x");
    expect(document.querySelectorAll(".td-card[aria-pressed=true]").length).toBe(1);
    expect(document.querySelectorAll("button.td-diff-row").length).toBe(1);
  });

  test("choose the same launch", () => {
    const [before, after] = view.stores;
    before.select({ launch: 7, finding: null });
    expect(after.get("selection").launch).toBe(6);
    after.select({ launch: 2 });
    expect(before.get("selection").launch).toBe(2);
    expect(shown()).toEqual(["launch 2", "launch 2"]);
    expect(document.querySelector(".td-diff-row[aria-pressed=true]")).toBe(null);
  });

  test("say so where there is no such launch", () => {
    const [before, after] = view.stores;
    before.select({ launch: 5, finding: null });
    expect(after.get("selection").launch).toBe(null);
    expect(after.get("status")).toBe("Launch 5 is only in the tape before.");
    before.select({ launch: 1 });
    expect(after.get("status")).toBe("");
  });

  test("choose the array of the same label", () => {
    const [before, after] = view.stores;
    before.select({ array: "x" });
    expect(after.get("selection").array).toBe(NET.arrays.findIndex((array) => array.label === "x"));
  });
});
