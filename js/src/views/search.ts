/** Search by name: arrays, kernels, findings, lines of the calling code. */
import { selectFinding, selectLaunch, selectVersion } from "./actions.js";
import { h, replace } from "./dom.js";
import { fileName, plural, shape, short } from "./format.js";
import type { Panel } from "./state.js";

const MOST = 12;

export interface Result {
  readonly kind: "array" | "kernel" | "finding" | "line" | "launch";
  readonly text: string;
  readonly note: string;
  readonly go: () => void;
}

/** The best matches: names that begin with the text before names that contain it. */
export function findMatches(panel: Panel, query: string): Result[] {
  const wanted = query.trim().toLowerCase();
  if (wanted === "") return [];
  const found: { rank: number; result: Result }[] = [];
  const offer = (name: string, result: Result): void => {
    const at = name.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ rank: at === 0 ? 0 : 1, result });
  };
  offerLaunchNumber(panel, wanted, found);
  offerArrays(panel, offer);
  offerKernels(panel, offer);
  for (const finding of panel.model.findings) {
    const text = `${finding.rule} · ${finding.arrays.join(", ")}`;
    const go = (): void => selectFinding(panel, finding);
    offer(`${text} ${finding.message}`, { kind: "finding", text: short(text), note: finding.severity, go });
  }
  offerLines(panel, offer);
  return found
    .sort((a, b) => a.rank - b.rank)
    .slice(0, MOST)
    .map(({ result }) => result);
}

type Offer = (name: string, result: Result) => void;

function offerLaunchNumber(panel: Panel, wanted: string, found: { rank: number; result: Result }[]): void {
  const launch = /^\d+$/.test(wanted) ? panel.model.launch(Number(wanted)) : null;
  if (!launch) return;
  const go = (): void => selectLaunch(panel, launch.index);
  found.push({ rank: -1, result: { kind: "launch", text: `launch ${launch.index}`, note: short(launch.name), go } });
}

function offerArrays(panel: Panel, offer: Offer): void {
  for (const array of panel.model.trace.arrays) {
    const latest = panel.model.versions(array.id).at(-1);
    if (!latest) continue;
    offer(array.label, {
      kind: "array",
      text: short(array.label),
      note: shape(array),
      go: () => selectVersion(panel, latest),
    });
  }
}

function offerKernels(panel: Panel, offer: Offer): void {
  const seen = new Map<string, number[]>();
  for (const launch of panel.model.trace.launches) {
    const list = seen.get(launch.name);
    if (list) list.push(launch.index);
    else seen.set(launch.name, [launch.index]);
  }
  for (const [name, launches] of seen) {
    const go = (): void => selectLaunch(panel, nextOf(panel, launches));
    offer(name, { kind: "kernel", text: short(name), note: plural(launches.length, "launch", "launches"), go });
  }
}

function offerLines(panel: Panel, offer: Offer): void {
  const seen = new Map<string, number[]>();
  for (const { callSite, index } of panel.model.trace.launches) {
    if (!callSite) continue;
    const name = `${fileName(callSite.file)}:${callSite.line}`;
    const list = seen.get(name);
    if (list) list.push(index);
    else seen.set(name, [index]);
  }
  for (const [name, launches] of seen) {
    const go = (): void => selectLaunch(panel, nextOf(panel, launches));
    offer(name, { kind: "line", text: short(name), note: plural(launches.length, "launch", "launches"), go });
  }
}

/** The launch after the selected one, so that choosing a result again walks on. */
function nextOf(panel: Panel, launches: readonly number[]): number {
  const now = panel.store.get("selection").launch ?? -1;
  return launches.find((launch) => launch > now) ?? launches[0] ?? 0;
}

export function searchBox(panel: Panel): { element: HTMLElement; focus(): void } {
  const id = `td-results-${Math.random().toString(36).slice(2)}`;
  const input = h("input", {
    class: "td-search",
    type: "search",
    placeholder: "/  array, kernel, line",
    "aria-label": "Search arrays, kernels, findings and lines",
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": id,
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const list = h("ul", { class: "td-results", id, role: "listbox", "aria-label": "Matches", hidden: true });
  let results: Result[] = [];
  let active = 0;

  const show = (): void => {
    list.hidden = input.value.trim() === "" || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (results.length === 0) {
      replace(list, h("li", { class: "td-none" }, "nothing of that name"));
      input.removeAttribute("aria-activedescendant");
      return;
    }
    replace(list, ...results.map((result, i) => row(result, i)));
    input.setAttribute("aria-activedescendant", `${id}-${active}`);
  };
  const row = (result: Result, i: number): HTMLElement => {
    const item = h(
      "li",
      {
        id: `${id}-${i}`,
        role: "option",
        "aria-selected": String(i === active),
        class: i === active ? "td-active" : null,
      },
      h("span", { class: "td-kind" }, result.kind),
      h("span", { class: "td-what" }, result.text),
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
    results = findMatches(panel, input.value);
    active = 0;
    show();
  });
  input.addEventListener("focus", show);
  input.addEventListener("blur", () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      active = Math.max(0, Math.min(results.length - 1, active + (event.key === "ArrowDown" ? 1 : -1)));
      show();
    } else if (event.key === "Enter") results[active]?.go();
    else if (event.key === "Escape") {
      input.value = "";
      input.blur();
    } else return;
    event.preventDefault();
  });
  return { element: h("div", { class: "td-searchbox" }, input, list), focus: () => input.focus() };
}
