/** Text tables for screen readers, in place of the canvas: the launches, versions and events around the selection. */
import type { TraceModel } from "../../trace/model.js";
import type { Arg, Launch, TapeEvent } from "../../trace/types.js";
import { selectLaunch, selectVersion } from "../actions.js";
import { button, h, replace } from "../dom.js";
import { short } from "../format.js";
import { fate, origin, SEVERITY_SIGNS } from "../phrases.js";
import type { Panel } from "../state.js";
import { eventPlace, eventText } from "./events.js";

/** Rows before and after the selection. */
const NEIGHBOURS = 4;
const MOST_EVENTS = 12;

/** Follows the selection. It is invisible and its buttons are no tab stops, but screen readers find and press them. */
export function buildScreenReaderTables(panel: Panel): HTMLElement {
  const element = h("div", { class: "td-sr td-around", role: "group", "aria-label": "Around the selection, as text" });
  let frame = 0;
  const update = (): void => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => replace(element, ...content(panel)));
  };
  replace(element, ...content(panel));
  panel.lifetime.add(() => cancelAnimationFrame(frame));
  panel.lifetime.add(panel.store.subscribe((changed) => changed.has("selection") && update()));
  return element;
}

function content(panel: Panel): HTMLElement[] {
  const { model, store } = panel;
  const { launch, array, version } = store.get("selection");
  const parts: HTMLElement[] = [];
  if (model.launchCount > 0) parts.push(launches(panel, launch ?? 0));
  const id = model.arrayId(array);
  if (id !== null) parts.push(versions(panel, id, version));
  const events = eventsNear(model, launch, id);
  if (events.length > 0) parts.push(eventList(model, events));
  return parts;
}

function launches(panel: Panel, chosen: number): HTMLElement {
  const { model } = panel;
  const rows: HTMLElement[] = [];
  const last = Math.min(model.launchCount - 1, chosen + NEIGHBOURS);
  for (let i = Math.max(0, chosen - NEIGHBOURS); i <= last; i++) {
    const launch = model.launch(i);
    if (!launch) continue;
    const go = button(`launch ${i}`, () => selectLaunch(panel, i), { tabindex: -1 });
    const found = model.findingsOf(i).slice(0, 3);
    rows.push(
      row(
        i === chosen,
        go,
        short(launch.name),
        named(model, launch, "readVersion"),
        named(model, launch, "writeVersion"),
        found.map((finding) => `${SEVERITY_SIGNS[finding.severity]} ${finding.rule}`).join(", "),
      ),
    );
  }
  return table(`Launches around ${chosen}`, ["launch", "kernel", "reads", "writes", "findings"], rows);
}

function named(model: TraceModel, launch: Launch, which: "readVersion" | "writeVersion"): string {
  const of = (arg: Arg): string => {
    const version = arg[which];
    return arg.array === null || version === null
      ? ""
      : `${short(model.array(arg.array)?.label ?? "", 24)} v${version}`;
  };
  return launch.args.slice(0, 16).map(of).filter(Boolean).join(", ");
}

function versions(panel: Panel, array: number, chosen: number | null): HTMLElement {
  const { model } = panel;
  const position = model.versionIndex(array, chosen) - (model.columns.versions.of[array] ?? 0);
  const first = Math.max(0, position < 0 ? 0 : position - NEIGHBOURS);
  const rows = model.versions(array, first, 2 * NEIGHBOURS + 1).map((version) => {
    const go = button(`version ${version.version}`, () => selectVersion(panel, version), { tabindex: -1 });
    return row(version.version === chosen, go, origin(model, version), fate(model, version));
  });
  const label = short(model.array(array)?.label ?? "array", 60);
  return table(`Versions of ${label}`, ["version", "written", "what became of it"], rows);
}

/** Those of the selected array, or of those next to the selected launch. */
function eventsNear(model: TraceModel, launch: number | null, array: number | null): TapeEvent[] {
  const near = (event: TapeEvent): boolean =>
    array !== null ? event.array === array : Math.abs(event.at - (launch ?? 0)) <= NEIGHBOURS;
  return model.trace.events.filter(near).slice(0, MOST_EVENTS);
}

function eventList(model: TraceModel, events: readonly TapeEvent[]): HTMLElement {
  const items = events.map((event) => h("li", {}, `${eventText(model, event)}; ${eventPlace(model, event)}`));
  return h("ul", { "aria-label": "Events around the tape" }, ...items);
}

function row(chosen: boolean, head: HTMLElement, ...cells: readonly string[]): HTMLElement {
  return h(
    "tr",
    { "aria-current": chosen ? "true" : null },
    h("th", { scope: "row" }, head),
    ...cells.map((text) => h("td", {}, text)),
  );
}

function table(caption: string, columns: readonly string[], rows: readonly HTMLElement[]): HTMLElement {
  const head = h("tr", {}, ...columns.map((text) => h("th", { scope: "col" }, text)));
  return h("table", {}, h("caption", {}, caption), h("thead", {}, head), h("tbody", {}, ...rows));
}
