/** The evidence of a finding in words: data of any shape, which may contain any text. */
import type { Finding } from "../trace/types.js";
import { selectLaunch } from "./actions.js";
import { type Child, h, link } from "./dom.js";
import { fileName, number, short, whole } from "./format.js";
import { launchName } from "./phrases.js";
import type { Panel } from "./state.js";

const MOST_ITEMS = 6;
const MOST_ROWS = 24;
const DEEPEST = 3;

const NAMES: Readonly<Record<string, string>> = {
  changed: "elements changed",
  max_change: "largest change",
  occurrences: "times",
  clobberer: "overwriter",
  pairs: "reader → overwriter",
  relative_error: "gradient off by",
  nan: "NaN",
  inf: "Inf",
  where: "selected by",
};
/** Fractions that people say in per cent. */
const RATIOS = new Set(["relative_error"]);
/** Keys whose numbers are launches. */
const LAUNCHES = /^(launch|launches|reader|clobberer|writer|first|last|pairs|.*_launch|.*_launches)$/;

type Raw = Readonly<Record<string, unknown>>;

/** A definition list of the evidence; null if there is none. */
export function evidenceView(panel: Panel, finding: Finding): HTMLElement | null {
  const entries = Object.entries(finding.evidence).filter(([, value]) => !isEmpty(value));
  if (entries.length === 0) return null;
  const list = h("dl", { class: "td-evidence" });
  for (const [key, value] of entries.slice(0, MOST_ROWS)) {
    list.append(h("dt", {}, nameOf(key)), h("dd", {}, ...shown(panel, key, value, 0)));
  }
  if (entries.length > MOST_ROWS) list.append(h("dt", {}, "…"), h("dd", {}, `${entries.length - MOST_ROWS} more`));
  return list;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function nameOf(key: string): string {
  return Object.hasOwn(NAMES, key) ? (NAMES[key] as string) : short(key.replaceAll("_", " "), 40);
}

function shown(panel: Panel, key: string, value: unknown, depth: number): Child[] {
  if (typeof value === "boolean") return [value ? "yes" : "no"];
  if (typeof value === "number") return [numberOf(panel, key, value)];
  if (typeof value === "string") return [short(value, 300)];
  if (typeof value !== "object" || value === null) return ["–"];
  if (depth >= DEEPEST) return ["…"];
  return Array.isArray(value) ? listOf(panel, key, value, depth) : recordOf(panel, key, value as Raw, depth);
}

function numberOf(panel: Panel, key: string, value: number): Child {
  if (LAUNCHES.test(key) && panel.model.launch(value)) {
    return link(String(value), () => selectLaunch(panel, value), launchName(panel.model, value));
  }
  if (RATIOS.has(key)) return `${number(100 * value)} %`;
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? whole(value) : number(value, 4);
}

function listOf(panel: Panel, key: string, values: readonly unknown[], depth: number): Child[] {
  const arrow = key === "pairs" && depth > 0 ? " → " : ", ";
  const parts = values
    .slice(0, MOST_ITEMS)
    .flatMap((value, i, { length }) => together(shown(panel, key, value, depth + 1), i < length - 1 ? arrow : ""));
  return values.length > MOST_ITEMS ? [...parts, ` and ${whole(values.length - MOST_ITEMS)} more`] : parts;
}

/** Text that may be broken over lines has more letters than this. */
const LEAST_TO_BREAK = 12;

/** A link, a pair of them or a number, and what follows it: no line begins with a comma. */
function together(item: readonly Child[], separator: string): Child[] {
  const small = item.every(
    (part) => part instanceof HTMLElement || part === null || String(part).length <= LEAST_TO_BREAK,
  );
  if (!small) return [...item, separator || null];
  return [h("span", { class: "td-nowrap" }, ...item, separator.trimEnd()), separator.endsWith(" ") ? " " : null];
}

/** A place in code, one side of a conflict (launch, kernel, parameter, places), or names with numbers. */
function recordOf(panel: Panel, key: string, value: Raw, depth: number): Child[] {
  if (typeof value.file === "string" && typeof value.line === "number") {
    const where = typeof value.function === "string" && value.function ? ` in ${short(value.function, 40)}` : "";
    // the number stays whole in a narrow column, which may break a line anywhere
    return [short(fileName(value.file), 60), h("span", { class: "td-nowrap" }, `:${value.line}`), where];
  }
  if (typeof value.launch === "number") {
    const { launch, kernel, param, location } = value;
    const parts: Child[] = ["launch ", numberOf(panel, "launch", launch as number)];
    if (typeof kernel === "string") parts.push(` (${short(kernel, 40)})`);
    if (typeof param === "string") parts.push(`, ${short(param, 40)}`);
    if (location && typeof location === "object") parts.push(" at ", ...shown(panel, "location", location, depth + 1));
    return parts;
  }
  return Object.entries(value)
    .slice(0, MOST_ITEMS)
    .flatMap(([name, item], i) => [
      i > 0 ? ", " : null,
      `${nameOf(name)}: `,
      ...shown(panel, RATIOS.has(key) ? key : name, item, depth + 1),
    ]);
}
