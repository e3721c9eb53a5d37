/** The array tab: one version of an array with its writer and readers, and the other versions. */
import type { ArrayInfo, Version } from "../trace/types.js";
import { goToWriter, selectLaunch, selectVersion } from "./actions.js";
import { type Child, h, link } from "./dom.js";
import { facts } from "./facts.js";
import { byteSize, bytes, number, shape, short, whole } from "./format.js";
import { fate, launchName, origin, STATUS_NAMES } from "./phrases.js";
import type { Panel } from "./state.js";

const MOST_VERSIONS = 40;
const MOST_LINKS = 6;

export function arrayFacts(panel: Panel, array: ArrayInfo, version: Version | null): HTMLElement {
  const { model } = panel;
  const parent = model.array(array.parent);
  const views = model.trace.arrays.filter((other) => other.parent === array.id);
  return facts(
    ["shape", shape(array)],
    ["memory", `${bytes(byteSize(array))}, buffer ${array.buffer}`],
    parent ? ["view of", arrayLink(panel, parent)] : null,
    views.length > 0 ? ["views", ...listed(views.map((view) => arrayLink(panel, view)))] : null,
    ["role", `${array.role}${array.requiresGrad ? ", requires_grad" : ", no gradient"}`],
    version ? ["written by", ...writer(panel, version)] : null,
    version ? ["read by", ...launchLinks(panel, version.reads)] : null,
    version ? ["needed by", ...launchLinks(panel, version.neededBy, "no adjoint")] : null,
    version?.overwrittenBy == null ? null : ["overwritten", launchLink(panel, version.overwrittenBy)],
  );
}

export function fateLine(panel: Panel, version: Version): HTMLElement {
  return h(
    "p",
    { class: `td-fate td-status-${version.status}` },
    h("b", {}, `v${version.version} ${STATUS_NAMES[version.status]}: `),
    fate(panel.model, version),
    ".",
  );
}

function writer(panel: Panel, version: Version): Child[] {
  if (version.writtenBy === null) return [origin(panel.model, version)];
  const who = link("go to writer", () => goToWriter(panel, version), origin(panel.model, version));
  return [launchLink(panel, version.writtenBy), h("div", {}, who)];
}

/** A view, or what an array is a view of, at the version that stands when the selected launch runs. */
function arrayLink(panel: Panel, array: ArrayInfo): HTMLElement {
  const go = (): void => {
    const { launch } = panel.store.get("selection");
    const found = (launch === null ? null : panel.model.versionAt(array.id, launch)) ?? panel.model.latest(array.id);
    if (found) selectVersion(panel, found);
  };
  return link(short(array.label, 40), go, shape(array));
}

function listed(elements: readonly HTMLElement[]): Child[] {
  const shown = elements.slice(0, MOST_LINKS).flatMap((element, i) => [i > 0 ? ", " : null, element]);
  return elements.length > MOST_LINKS ? [...shown, ` and ${elements.length - MOST_LINKS} more`] : shown;
}

function launchLink(panel: Panel, index: number): HTMLElement {
  const launch = panel.model.launch(index);
  return link(`${index} · ${short(launch?.name ?? "", 28)}`, () => selectLaunch(panel, index));
}

function launchLinks(panel: Panel, indices: readonly number[], nothing = "nobody"): Child[] {
  if (indices.length === 0) return [nothing];
  const links = indices
    .slice(0, MOST_LINKS)
    .map((index) => link(String(index), () => selectLaunch(panel, index), launchName(panel.model, index)));
  const shown = listed(links);
  return indices.length > MOST_LINKS ? [...shown, ` and ${whole(indices.length - MOST_LINKS)} more`] : shown;
}

/** Versions around the chosen one; a tape may have thousands. */
export function versionHistory(panel: Panel, chosen: Version): HTMLElement {
  const { model } = panel;
  const count = model.versionCount(chosen.array);
  const at = model.versionIndex(chosen.array, chosen.version) - (model.columns.versions.of[chosen.array] ?? 0);
  const first = Math.max(0, Math.min(at - MOST_VERSIONS / 2, count - MOST_VERSIONS));
  const shown = model.versions(chosen.array, first, MOST_VERSIONS);
  const rows = shown.map((version) => {
    const element = link(`v${version.version}`, () => selectVersion(panel, version));
    return h(
      "tr",
      {
        class: version.version === chosen.version ? "td-chosen" : null,
        "aria-current": version.version === chosen.version ? "true" : null,
      },
      h("th", { scope: "row" }, element),
      h("td", {}, writtenWhen(version)),
      h("td", {}, number(version.value?.norm ?? null)),
      h("td", {}, number(version.adjoint?.norm ?? null)),
      h("td", { class: `td-status-${version.status}` }, STATUS_NAMES[version.status]),
    );
  });
  const head = h(
    "tr",
    {},
    ...["version", "launch", "‖value‖", "‖adj‖", "fate"].map((text) => h("th", { scope: "col" }, text)),
  );
  const more = count - shown.length;
  return h(
    "section",
    { class: "td-history" },
    h("h2", {}, "Versions"),
    h("div", { class: "td-tablebox" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows))),
    more > 0 ? h("p", { class: "td-empty" }, `${whole(more)} more versions not listed`) : null,
  );
}

function writtenWhen(version: Version): string {
  if (version.writtenBy !== null) return String(version.writtenBy);
  return version.version === 0 ? "before" : "outside";
}
