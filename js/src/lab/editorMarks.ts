/** Marks in the editors of cells, shown only while a cell has the text that was executed. Independent of Jupyter. */
import { type EditorState, type Extension, type Range, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, ViewPlugin, WidgetType } from "@codemirror/view";
import type { CellMarks, Mark } from "./protocol.js";

type OpenMark = (marks: CellMarks, mark: Mark) => void;

/** The longest text beside a line; all of it is in the tooltip. */
const MOST_TEXT = 120;

/** The marks of editors, by the model of each: a model may be shown in several editors, or in none yet. */
export class MarkRegistry<Model extends object> {
  private readonly marks = new WeakMap<Model, CellMarks>();
  private readonly views = new Map<Model, Set<EditorView>>();

  constructor(private readonly open: OpenMark) {}

  get(model: Model): CellMarks | null {
    return this.marks.get(model) ?? null;
  }

  /** Marks a cell, or removes its marks; an editor that has them already is not changed. */
  set(model: Model, marks: CellMarks | null): void {
    if (JSON.stringify(this.get(model)) === JSON.stringify(marks)) return;
    if (marks === null) this.marks.delete(model);
    else this.marks.set(model, marks);
    for (const view of this.views.get(model) ?? []) view.dispatch({ effects: change.of(marks) });
  }

  /** Return the editor extension that shows the marks of this model. */
  extension(model: Model): Extension {
    const open = this.open;
    const field = StateField.define<Shown>({
      create: (state) => shown(state, this.get(model), UNKNOWN_WIDTH, open),
      update: (value, transaction) => {
        let { marks, columns } = value;
        for (const effect of transaction.effects) {
          if (effect.is(change)) marks = effect.value;
          else if (effect.is(resize)) columns = effect.value;
        }
        const same = marks === value.marks && columns === value.columns && !transaction.docChanged;
        return same ? value : shown(transaction.state, marks, columns, open);
      },
      provide: (known) => EditorView.decorations.from(known, (value) => value.decorations),
    });
    const known = this.views;
    const follow = ViewPlugin.define((view) => {
      const views = known.get(model) ?? new Set();
      known.set(model, views.add(view));
      const width = new Width(view, (columns) => {
        if (view.state.field(field).columns !== columns) view.dispatch({ effects: resize.of(columns) });
      });
      return {
        update: ({ geometryChanged }) => {
          if (geometryChanged) width.measure();
        },
        destroy: () => {
          width.end();
          views.delete(view);
          if (views.size === 0) known.delete(model);
        },
      };
    });
    return [field, follow];
  }
}

const change = StateEffect.define<CellMarks | null>();
const resize = StateEffect.define<number>();

/** Columns of code that an editor shows, before it has been laid out. */
const UNKNOWN_WIDTH = 100;

/** Reports how many columns of code fit into an editor: after a layout, because an editor must not be changed during one. */
class Width {
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly view: EditorView,
    private readonly told: (columns: number) => void,
  ) {
    this.measure();
  }

  measure(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const columns = Math.floor(this.view.scrollDOM.clientWidth / this.view.defaultCharacterWidth);
      if (columns > 0) this.told(columns);
    }, 50);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}

interface Shown {
  readonly marks: CellMarks | null;
  readonly columns: number;
  readonly decorations: DecorationSet;
}

function shown(state: EditorState, marks: CellMarks | null, columns: number, open: OpenMark): Shown {
  const decorations = isCurrent(state, marks) ? decorate(state, marks, columns, open) : Decoration.none;
  return { marks, columns, decorations };
}

/** True if an editor still contains the text that was executed. */
function isCurrent(state: EditorState, marks: CellMarks | null): marks is CellMarks {
  return marks !== null && sameText(state.doc.toString(), marks.source);
}

export function sameText(now: string, executed: string): boolean {
  return now.replace(/\n+$/, "") === executed.replace(/\n+$/, "");
}

function decorate(state: EditorState, marks: CellMarks, columns: number, open: OpenMark): DecorationSet {
  const ranges: Range<Decoration>[] = [];
  for (const { line: number, marks: own } of marks.lines) {
    if (number < 1 || number > state.doc.lines || own.length === 0) continue;
    const line = state.doc.line(number);
    const worst = worstOf(own);
    if (worst !== "quiet") ranges.push(Decoration.line({ class: `td-mark-line td-mark-${worst}` }).range(line.from));
    // beside the line where there is room, else below it: never over code, and never cut off
    const block = line.length + room(own) > columns;
    const indent = block ? Math.min(line.text.length - line.text.trimStart().length, columns / 3) : 0;
    const widget = new LineMarks(marks, own, open, block ? columns : null, indent);
    ranges.push(Decoration.widget({ widget, side: 1, block }).range(line.to));
  }
  return Decoration.set(ranges, true);
}

/** Columns that marks take beside a line; their letters are smaller than those of code. */
function room(own: readonly Mark[]): number {
  return texts(own).reduce((sum, { text }) => sum + 0.85 * text.length + 2, 4);
}

type Weight = "error" | "warning" | "info" | "quiet";

function weight(mark: Mark): Weight {
  return mark.severity ?? "quiet";
}

function worstOf(marks: readonly Mark[]): Weight {
  const order: readonly Weight[] = ["error", "warning", "info"];
  return order.find((severity) => marks.some((mark) => weight(mark) === severity)) ?? "quiet";
}

interface Shows {
  readonly text: string;
  readonly title: string;
  readonly weight: Weight;
  readonly mark: Mark;
}

/** Return one text for each overwrite or finding, and then one for all plain reads and writes. */
export function texts(marks: readonly Mark[]): Shows[] {
  const loud = marks.filter((mark) => mark.severity !== null);
  const result: Shows[] = loud.map((mark) => ({
    text: cut(mark.text),
    title: `${mark.title}\n(click to open the tape)`,
    weight: weight(mark),
    mark,
  }));
  const quiet = marks.filter((mark) => mark.severity === null);
  const [first] = quiet;
  if (first !== undefined) {
    const names = (verb: string) =>
      quiet.filter((mark) => mark.text.startsWith(`${verb} `)).map((mark) => mark.text.slice(verb.length + 1));
    const parts = ["reads", "writes"].flatMap((verb) => {
      const all = names(verb);
      return all.length > 0 ? [`${verb} ${all.join(", ")}`] : [];
    });
    const title = `${quiet.map((mark) => mark.title).join("\n")}\n(click to open the tape)`;
    result.push({ text: cut(parts.join(" · ")), title, weight: "quiet", mark: first });
  }
  return result;
}

function cut(text: string): string {
  const line = text.replace(/\s+/g, " ");
  return line.length <= MOST_TEXT ? line : `${line.slice(0, MOST_TEXT - 1)}…`;
}

class LineMarks extends WidgetType {
  constructor(
    private readonly marks: CellMarks,
    private readonly own: readonly Mark[],
    private readonly open: OpenMark,
    /** Columns to stay within where they are below their line; null: beside it. */
    private readonly below: number | null,
    private readonly indent: number,
  ) {
    super();
  }

  override eq(other: LineMarks): boolean {
    return (
      this.marks.tape === other.marks.tape &&
      this.open === other.open &&
      this.below === other.below &&
      this.indent === other.indent &&
      JSON.stringify(this.own) === JSON.stringify(other.own)
    );
  }

  override toDOM(): HTMLElement {
    const box = document.createElement(this.below === null ? "span" : "div");
    box.className = this.below !== null ? "td-marks td-marks-below" : "td-marks";
    if (this.below !== null) {
      box.style.paddingLeft = `${this.indent}ch`;
      box.style.maxWidth = `${this.below - 2}ch`; // the editor scrolls as far as its longest line; this may not
    }
    for (const { text, title, weight: kind, mark } of texts(this.own)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = `td-mark td-mark-${kind}`;
      button.textContent = text;
      button.title = title;
      button.tabIndex = -1; // the tab key belongs to the editor; "Open the Tape at This Line" is the command for the keyboard
      button.setAttribute("aria-label", `${text}. ${title}`);
      button.addEventListener("mousedown", (event) => event.preventDefault()); // the cursor stays where it is
      button.addEventListener("click", () => this.open(this.marks, mark));
      box.append(button);
    }
    return box;
  }

  override ignoreEvent(): boolean {
    return true;
  }
}

/** The mark that is opened at this line: the worst one. */
export function markAt(marks: CellMarks, line: number): Mark | null {
  const own = marks.lines.find((entry) => entry.line === line)?.marks ?? [];
  return texts(own)[0]?.mark ?? null;
}
