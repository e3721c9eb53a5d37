/** The numbers themselves, a page at a time: value beside adjoint, what a launch changed, what is not finite. */
import { elementAt, indexOf, indexText, type Numbers, type VersionValues } from "../../trace/values.js";
import { button, type Child, h } from "../dom.js";
import { number, plural } from "../format.js";

const ROWS = 16;
/** Where many numbers share a row each has fewer digits; all of them are in its title. */
const DIGITS = 6;
const DIGITS_MANY = 4;
const MANY = 4;
const EXACT = 17;

export interface Page {
  /** The first element that is shown. */
  readonly first: number;
  /** The element that was asked for by a link. */
  readonly marked: number | null;
}

/** Which elements have to be asked for so that a page can be shown: windows begin at multiples of what fits in one. */
export function windowOf(values: VersionValues, first: number): number {
  return values.count > 0 ? Math.floor(first / values.count) * values.count : 0;
}

export function holds(values: VersionValues | null, first: number): boolean {
  if (values === null) return false;
  const last = Math.min(values.size, first + ROWS);
  return first >= values.start && last <= values.start + values.count;
}

/** Pages begin at multiples of a page. */
export function pageOf(element: number): number {
  return Math.floor(element / ROWS) * ROWS;
}

export interface Side {
  readonly name: string;
  readonly values: VersionValues;
}

/** The table of a page; sides that do not hold it (yet) are left out. */
export function pageTable(sides: readonly Side[], page: Page, label: string): HTMLElement {
  const shown = sides.filter(({ values }) => holds(values, page.first));
  const [main] = shown;
  if (!main) return h("p", { class: "td-empty" }, "Waiting for the numbers …");
  const { size, shape } = main.values;
  const last = Math.min(size, page.first + ROWS);
  const rows: HTMLElement[] = [];
  const digits = shown.length * main.values.components >= MANY ? DIGITS_MANY : DIGITS;
  for (let element = page.first; element < last; element++) {
    const index = indexText(indexOf(shape, element));
    const cells = shown.flatMap(({ values }) => cellsOf(values, element, digits));
    rows.push(
      h(
        "tr",
        { class: element === page.marked ? "td-chosen" : null, "data-element": element },
        h("th", { scope: "row" }, index),
        ...cells,
      ),
    );
  }
  const head = h(
    "tr",
    {},
    h("th", { scope: "col" }, "index"),
    ...shown.map(({ name, values }) => h("th", { scope: "colgroup", colspan: values.components }, name)),
  );
  const { components } = main.values;
  const table = h(
    "table",
    { class: `td-numbers${shown.length * components > MANY ? " td-many" : ""}` },
    h("caption", { class: "td-sr" }, label),
    h("thead", {}, head),
    h("tbody", {}, ...rows),
  );
  table.style.setProperty("--td-components", String(components));
  return h("div", { class: "td-tablebox" }, table);
}

function cellsOf(values: VersionValues, element: number, digits: number): HTMLElement[] {
  const from = (element - values.start) * values.components;
  return Array.from({ length: values.components }, (_, c) =>
    cell(values.values, values.before, from + c, c === 0, digits),
  );
}

function cell(values: Numbers, before: Numbers | null, i: number, first: boolean, digits: number): HTMLElement {
  const value = values.at(i);
  const bad = !Number.isFinite(value);
  const old = before?.at(i);
  const changed = before !== null && !Object.is(old, value) && old !== value;
  const was = changed ? `was ${text(before, i, digits)}` : "";
  const classes = [first ? "td-first" : "", bad ? "td-bad" : "", changed ? "td-changed" : ""].filter(Boolean).join(" ");
  const title = `${text(values, i, EXACT)}${changed ? `, was ${text(before, i, EXACT)}` : ""}`;
  const parts: Child[] = [text(values, i, digits)];
  if (bad) parts.push(h("span", { class: "td-sign", "aria-hidden": true }, "✕"));
  if (changed) parts.push(h("span", { class: "td-sr" }, ` ${was}`));
  return h("td", { class: classes || null, title }, ...parts);
}

function text(values: Numbers, i: number, digits: number): string {
  return values.exact(i) ?? (values.whole ? String(values.at(i)) : number(values.at(i), digits));
}

/** Which rows are shown, and the way to others. */
export function pager(values: VersionValues, page: Page, go: (page: Page) => void): HTMLElement | null {
  const { size, shape } = values;
  if (size <= ROWS) return null;
  const last = Math.min(size, page.first + ROWS) - 1;
  const step = (to: number): void => go({ first: pageOf(Math.max(0, Math.min(size - 1, to))), marked: null });
  const previous = button("‹", () => step(page.first - ROWS), { name: "previous rows", "data-key": "rows-previous" });
  const next = button("›", () => step(page.first + ROWS), { name: "next rows", "data-key": "rows-next" });
  previous.disabled = page.first === 0;
  next.disabled = last >= size - 1;
  const input = h("input", {
    class: "td-goto",
    type: "text",
    inputmode: "numeric",
    placeholder: "index",
    "aria-label": "Go to an index",
    "data-key": "rows-index",
    size: 7,
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    const element = readIndex(input.value, shape);
    input.setAttribute("aria-invalid", String(element === null));
    input.title =
      element === null ? `an index within ${indexText(shape)}, such as ${indexText(indexOf(shape, size - 1))}` : "";
    if (element !== null) go({ first: pageOf(element), marked: element });
  });
  const range = `${indexText(indexOf(shape, page.first))} to ${indexText(indexOf(shape, last))}`;
  return h(
    "div",
    { class: "td-pager" },
    previous,
    next,
    h("span", {}, `${range} of ${plural(size, "element")}`),
    input,
  );
}

/** "3", "[3]", "1, 2" → the element; null if there is none. */
export function readIndex(typed: string, shape: readonly number[]): number | null {
  const parts = typed
    .replace(/[[\]()]/g, " ")
    .split(/[\s,]+/)
    .filter((part) => part !== "");
  if (parts.length === 0 || parts.some((part) => !/^\d+$/.test(part))) return null;
  const index = parts.map(Number);
  const size = shape.reduce((a, b) => a * b, 1);
  if (index.length === 1 && shape.length !== 1) return (index[0] ?? size) < size ? (index[0] ?? null) : null;
  if (index.length !== shape.length || index.some((value, axis) => value >= (shape[axis] ?? 0))) return null;
  return elementAt(shape, index);
}
