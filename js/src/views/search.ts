/** Search: arrays, kernels, launches by number, lines and places in the code, findings. */
import type { LaunchGroup } from "../trace/model.js";
import type { Kernel } from "../trace/types.js";
import { selectFinding, selectLaunch, selectVersion } from "./actions.js";
import { type Child, h, replace } from "./dom.js";
import { fileName, plural, shape, short } from "./format.js";
import type { Panel } from "./state.js";

/** Results that are listed; the rest is counted. */
const MOST = 12;
/** The most candidates of one search, so that typing stays fast: there may be many thousands of arrays, findings and lines. */
const MOST_LOOKED_AT = 50_000;

interface Result {
  readonly kind: "array" | "kernel" | "finding" | "line" | "launch" | "code";
  readonly text: string;
  readonly note: string;
  readonly go: () => void;
}

interface Matches {
  readonly results: readonly Result[];
  /** The number of all matches, with those that are not listed. */
  readonly total: number;
  /** The search stopped before it had seen everything. */
  readonly capped: boolean;
}

/** Collects matches without building those that are not shown. */
class Collector {
  private readonly ranks: [Result[], Result[]] = [[], []];
  private looked = 0;
  total = 0;
  capped = false;

  constructor(private readonly wanted: string) {}

  offer(name: string, make: () => Result): void {
    if (this.looked >= MOST_LOOKED_AT) {
      this.capped = true;
      return;
    }
    this.looked++;
    const at = name.toLowerCase().indexOf(this.wanted);
    if (at < 0) return;
    this.total++;
    const rank = this.ranks[at === 0 ? 0 : 1];
    if (rank.length < MOST) rank.push(make());
  }

  /** Those that begin with the text before those that contain it. */
  first(): Result[] {
    return this.ranks.flat().slice(0, MOST);
  }
}

function findMatches(panel: Panel, query: string): Matches {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return { results: [], total: 0, capped: false };
  const found = new Collector(wanted);
  const launch = launchNumber(panel, wanted);
  offerArrays(panel, found);
  for (const group of panel.model.launchNames()) offerGroup(panel, "kernel", group, found);
  offerFindings(panel, found);
  const sites = panel.model.launchSites((file, line) => `${fileName(file)}:${line}`);
  for (const group of sites) offerGroup(panel, "line", group, found);
  for (const kernel of panel.model.trace.kernels) offerSource(panel, kernel, found);
  const results = [...(launch ? [launch] : []), ...found.first()].slice(0, MOST);
  return { results, total: found.total + (launch ? 1 : 0), capped: found.capped };
}

/** "12", "#12" and "launch 12". */
function launchNumber(panel: Panel, wanted: string): Result | null {
  const number = /^(?:launch\s*)?#?(\d{1,9})$/.exec(wanted)?.[1];
  const launch = number === undefined ? null : panel.model.launch(Number(number));
  if (!launch) return null;
  const go = (): void => selectLaunch(panel, launch.index);
  return { kind: "launch", text: `launch ${launch.index}`, note: short(launch.name), go };
}

function offerArrays(panel: Panel, found: Collector): void {
  for (const array of panel.model.trace.arrays) {
    if (panel.model.versionCount(array.id) === 0) continue;
    const go = (): void => {
      const latest = panel.model.latest(array.id);
      if (latest) selectVersion(panel, latest);
    };
    found.offer(array.label, () => ({ kind: "array", text: short(array.label), note: shape(array), go }));
  }
}

function offerFindings(panel: Panel, found: Collector): void {
  for (const finding of panel.model.findings) {
    const text = `${finding.rule} · ${finding.arrays.slice(0, 8).join(", ")}`;
    const go = (): void => selectFinding(panel, finding);
    found.offer(`${text} ${finding.message}`, () => ({
      kind: "finding",
      text: short(text),
      note: finding.severity,
      go,
    }));
  }
}

/** Choosing a result again walks on to the next launch. */
function offerGroup(panel: Panel, kind: "kernel" | "line", group: LaunchGroup, found: Collector): void {
  const go = (): void => selectLaunch(panel, group.after(panel.store.get("selection").launch ?? -1));
  found.offer(group.name, () => ({
    kind,
    text: short(group.name),
    note: plural(group.count, "launch", "launches"),
    go,
  }));
}

/** Lines of a kernel: the launch is the next one of that kernel. */
function offerSource(panel: Panel, kernel: Kernel, found: Collector): void {
  kernel.lines.forEach((text, i) => {
    const line = kernel.line + i;
    const go = (): void => {
      const group = panel.model.launchNames().find(({ name }) => name === kernel.name);
      if (!group) return;
      selectLaunch(panel, group.after((panel.store.get("selection").launch ?? 0) - 1));
      panel.view.set({ line: { file: kernel.file, line } });
    };
    const place = `${fileName(kernel.file)}:${line}`;
    found.offer(text.trim(), () => ({ kind: "code", text: short(text.trim(), 160), note: place, go }));
  });
}

export function searchBox(panel: Panel): { element: HTMLElement; focus(): void } {
  const id = `td-results-${Math.random().toString(36).slice(2)}`;
  const input = h("input", {
    class: "td-search",
    type: "search",
    placeholder: "/  array, kernel, line",
    "aria-label": "Search arrays, kernels, launches, findings and lines",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": id,
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("ul", { class: "td-results", id, role: "listbox", "aria-label": "Matches", hidden: true });
  let matches: Matches = { results: [], total: 0, capped: false };
  let active = 0;

  const show = (): void => {
    list.hidden = input.value.trim() === "" || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    const { results, total, capped } = matches;
    if (results.length === 0) {
      replace(list, h("li", { class: "td-none" }, "no match"));
      input.removeAttribute("aria-activedescendant");
      return;
    }
    const more = total - results.length;
    const rest = `${more > 0 ? `and ${plural(more, "more match", "more matches")}` : ""}${capped ? " (not all was searched)" : ""}`;
    replace(
      list,
      ...results.map((result, i) => row(result, i)),
      rest === "" ? null : h("li", { class: "td-none", role: "presentation" }, rest.trim()),
    );
    input.setAttribute("aria-activedescendant", `${id}-${active}`);
    list.querySelector(".td-active")?.scrollIntoView?.({ block: "nearest" });
  };
  const row = (result: Result, i: number): HTMLElement => {
    const item = h(
      "li",
      {
        id: `${id}-${i}`,
        role: "option",
        "aria-selected": String(i === active),
        class: i === active ? "td-active" : null,
        title: result.text,
      },
      h("span", { class: "td-kind" }, result.kind),
      h("span", { class: "td-what" }, ...highlighted(result.text, input.value.trim())),
      h("span", { class: "td-note" }, result.note),
    );
    // pointerdown, not click: the list closes when the input loses the focus
    item.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      result.go();
    });
    return item;
  };
  input.addEventListener("input", () => {
    matches = findMatches(panel, input.value);
    active = 0;
    show();
    if (!list.hidden) panel.announce(plural(matches.total, "match", "matches"));
  });
  input.addEventListener("focus", show);
  input.addEventListener("blur", () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      active = Math.max(0, Math.min(matches.results.length - 1, active + (event.key === "ArrowDown" ? 1 : -1)));
      show();
    } else if (event.key === "Enter") matches.results[active]?.go();
    else if (event.key === "Escape") {
      input.value = "";
      const canvas = panel.root.querySelector<HTMLElement>(".td-canvas");
      if (canvas)
        canvas.focus({ preventScroll: true }); // so that the panel's keys go on working
      else input.blur();
    } else return;
    event.preventDefault();
  });
  return { element: h("div", { class: "td-searchbox" }, input, list), focus: () => input.focus() };
}

/** The typed text in bold, where it occurs. */
function highlighted(text: string, typed: string): Child[] {
  const at = text.toLowerCase().indexOf(typed.toLowerCase());
  if (at < 0 || typed === "") return [text];
  return [text.slice(0, at), h("mark", {}, text.slice(at, at + typed.length)), text.slice(at + typed.length)];
}
