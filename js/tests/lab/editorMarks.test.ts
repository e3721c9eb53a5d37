import { EditorState } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { afterEach, describe, expect, it } from "vitest";
import { MarkRegistry, markAt, texts } from "../../src/lab/editorMarks.js";
import type { CellMarks, Mark } from "../../src/lab/protocol.js";

const SOURCE = "def f(x, y):\n    y[i] = x[i]\n    return";
const mark = (patch: Partial<Mark>): Mark => ({
  kind: "read",
  severity: null,
  text: "reads x",
  title: "reads x",
  launch: 0,
  finding: null,
  ...patch,
});
const LOST = mark({
  kind: "overwrite",
  severity: "error",
  text: "writes y ✕ overwrites what g (launch 1) needs",
  title: "overwritten\n→ use another array",
  launch: 2,
  finding: 5,
});
const MARKS: CellMarks = {
  cell: "c",
  count: 3,
  source: SOURCE,
  tape: 4,
  name: "net",
  lines: [{ line: 2, marks: [mark({}), LOST] }],
};

const views: EditorView[] = [];
function edit(book: MarkRegistry<object>, model: object, doc = SOURCE): EditorView {
  const parent = document.createElement("div");
  document.body.append(parent);
  const view = new EditorView({ parent, state: EditorState.create({ doc, extensions: book.extension(model) }) });
  views.push(view);
  return view;
}
afterEach(() => {
  for (const view of views.splice(0)) view.destroy();
});
const shown = (view: EditorView) => [...view.dom.querySelectorAll(".td-mark")].map((one) => one.textContent);

describe("marks in an editor", () => {
  it("stand at their line, with a text and the finding as a tooltip", () => {
    const book = new MarkRegistry(() => {});
    const model = {};
    const view = edit(book, model);
    expect(shown(view)).toEqual([]);
    book.set(model, MARKS);
    expect(shown(view)).toEqual([LOST.text, "reads x"]);
    const line = view.dom.querySelectorAll(".cm-line")[1];
    expect(line?.classList.contains("td-mark-error")).toBe(true);
    expect(view.dom.querySelector<HTMLElement>(".td-mark")?.title).toContain("→ use another array");
  });

  it("are there in editors that are made later, and in all of a model", () => {
    const book = new MarkRegistry(() => {});
    const model = {};
    book.set(model, MARKS);
    const [first, second] = [edit(book, model), edit(book, model)];
    expect([shown(first).length, shown(second).length]).toEqual([2, 2]);
    book.set(model, null);
    expect([shown(first), shown(second)]).toEqual([[], []]);
  });

  it("go when the text changes, return with it, and never show for another text", () => {
    const book = new MarkRegistry(() => {});
    const model = {};
    const view = edit(book, model);
    book.set(model, MARKS);
    view.dispatch({ changes: { from: 0, insert: "#" } });
    expect(shown(view)).toEqual([]);
    view.dispatch({ changes: { from: 0, to: 1 } });
    expect(shown(view).length).toBe(2);
    const other = {};
    const different = edit(book, other, "x = 1");
    book.set(other, MARKS);
    expect(shown(different)).toEqual([]);
  });

  it("open the tape where a click on them leads", () => {
    const opened: unknown[] = [];
    const book = new MarkRegistry((marks, at) => opened.push([marks.tape, at.launch, at.finding]));
    const model = {};
    const view = edit(book, model);
    book.set(model, MARKS);
    view.dom.querySelector<HTMLElement>(".td-mark")?.click();
    expect(opened).toEqual([[4, 2, 5]]);
  });

  it("stay text, and are cut", () => {
    const book = new MarkRegistry(() => {});
    const model = {};
    const view = edit(book, model);
    const text = `<img src=x onerror=alert(1)> ${"x".repeat(10_000)}`;
    book.set(model, { ...MARKS, lines: [{ line: 2, marks: [mark({ severity: "error", text })] }] });
    expect(view.dom.querySelector("img")).toBeNull();
    expect(shown(view)[0]?.length).toBeLessThanOrEqual(120);
  });

  it("ignore lines that are not there", () => {
    const book = new MarkRegistry(() => {});
    const model = {};
    const view = edit(book, model);
    book.set(model, {
      ...MARKS,
      lines: [
        { line: 99, marks: [LOST] },
        { line: 0, marks: [LOST] },
      ],
    });
    expect(shown(view)).toEqual([]);
  });
});

describe("the texts beside a line", () => {
  it("join what merely reads and writes, after what is wrong", () => {
    const all = [mark({}), mark({ text: "reads v" }), LOST, mark({ kind: "write", text: "writes out" })];
    expect(texts(all).map(({ text }) => text)).toEqual([LOST.text, "reads x, v · writes out"]);
  });

  it("lead the keyboard to the worst", () => {
    expect(markAt(MARKS, 2)).toBe(LOST);
    expect(markAt(MARKS, 1)).toBeNull();
  });
});
