/** The right column: all that is known of the selected launch, or of one version of an array. */

import type { Arg, Launch, Version } from "../trace/types.js";
import { goToWriter, selectLaunch, selectVersion } from "./actions.js";
import { button, type Child, h, link, replace } from "./dom.js";
import { argValue, byteSize, bytes, dim, number, place, seconds, shape, short, whole } from "./format.js";
import { buildMask } from "./mask.js";
import { buildSource } from "./source.js";
import { Lifetime, type Panel } from "./state.js";
import { summaryView } from "./summary.js";
import { fate, launchName, STATUS_NAMES } from "./words.js";

const MOST_VERSIONS = 40;

export function buildInspector(panel: Panel): HTMLElement {
  const { store, view, lifetime } = panel;
  const tabs = h("div", { class: "td-tabs", role: "tablist", "aria-label": "Selected" });
  const body = h("div", { class: "td-tabbody", role: "tabpanel", tabindex: 0 });
  const mask = buildMask(panel);
  let inner = new Lifetime();
  const render = (): void => {
    inner.end();
    inner = new Lifetime();
    const scoped: Panel = { ...panel, lifetime: inner };
    replace(tabs, ...tabButtons(panel));
    replace(body, ...(view.get("tab") === "array" ? arrayTab(scoped) : launchTab(scoped)));
  };
  render();
  lifetime.add(() => inner.end());
  lifetime.add(store.subscribe((changed) => changed.has("selection") && render()));
  lifetime.add(view.subscribe((changed) => (changed.has("tab") || changed.has("backward")) && render()));
  return h("aside", { class: "td-right", "aria-label": "Inspector" }, tabs, body, mask);
}

function tabButtons(panel: Panel): HTMLElement[] {
  const { model, store, view } = panel;
  const { launch, array, version } = store.get("selection");
  const found = model.launch(launch);
  const picked = model.array(model.arrayId(array));
  const names = {
    launch: found ? `Launch ${found.index} · ${short(found.name, 28)}` : "Launch",
    array: picked ? `Array ${short(picked.label, 20)}${version === null ? "" : ` v${version}`}` : "Array",
  } as const;
  return (["launch", "array"] as const).map((tab) => {
    const chosen = view.get("tab") === tab;
    return button(names[tab], () => view.set({ tab }), {
      class: "td-choice",
      role: "tab",
      "aria-selected": String(chosen),
    });
  });
}

/** Rows of a name and what it is. */
function facts(...rows: readonly (readonly [string, ...Child[]] | null)[]): HTMLElement {
  const list = h("dl", { class: "td-facts" });
  for (const row of rows) {
    if (row === null) continue;
    const [name, ...values] = row;
    list.append(h("dt", {}, name), h("dd", {}, ...values));
  }
  return list;
}

function launchTab(panel: Panel): Child[] {
  const { model, store, view } = panel;
  const launch = model.launch(store.get("selection").launch);
  if (!launch)
    return [
      h("p", { class: "td-hint" }, "Choose a launch: click a finding, a mark in the lanes, or walk with ← and →."),
    ];
  const kernel = model.kernel(launch);
  const site = launch.callSite;
  const scopes = model.scopesOf(launch).map((scope) => short(scope.name, 40));
  return [
    facts(
      launch.kind === "kernel" ? ["dim", dim(launch.dim)] : ["kind", launch.kind],
      [
        "called at",
        site
          ? h("span", { title: site.file }, `${place(site)}${site.function ? ` in ${short(site.function, 40)}` : ""}`)
          : "–",
      ],
      scopes.length > 0 ? ["scope", scopes.join(" › ")] : null,
      [
        "time",
        `${seconds(launch.seconds)} forward${launch.backwardSeconds === null ? "" : `, ${seconds(launch.backwardSeconds)} backward`}`,
      ],
    ),
    argTable(panel, launch, view.get("backward")),
    kernel ? buildSource(panel, launch, kernel) : null,
  ];
}

function argTable(panel: Panel, launch: Launch, backward: boolean): HTMLElement {
  const rows = launch.args.map((arg) => argRow(panel, arg, backward));
  const norm = backward ? "‖adj‖" : "‖value‖";
  const head = h("tr", {}, ...["argument", "", "version", norm, ""].map((text) => h("th", { scope: "col" }, text)));
  return h(
    "div",
    { class: "td-tablebox" },
    h("table", { class: "td-args" }, h("thead", {}, head), h("tbody", {}, ...rows)),
  );
}

function argRow(panel: Panel, arg: Arg, backward: boolean): HTMLElement {
  const { model } = panel;
  const array = model.array(arg.array);
  const name = h("th", { scope: "row", title: array ? `${array.label}: ${shape(array)}` : null }, short(arg.name, 24));
  if (!array) return h("tr", {}, name, h("td", { colspan: 4, class: "td-value" }, argValue(arg.value)));
  if (array.label !== arg.name) name.append(h("span", { class: "td-alias" }, ` = ${short(array.label, 24)}`));
  const read = model.version(array.id, arg.readVersion);
  const written = model.version(array.id, arg.writeVersion);
  const shown = backward ? (written ?? read) : (written ?? read);
  const summary = backward ? shown?.adjoint : shown?.value;
  const bad = summary ? summary.nan + summary.inf : 0;
  const who = read
    ? link(
        "who wrote this?",
        () => goToWriter(panel, read),
        read.writtenBy === null ? "there before the tape" : launchName(model, read.writtenBy),
      )
    : null;
  return h(
    "tr",
    {},
    name,
    h("td", { class: "td-roles" }, ...roles(arg)),
    h("td", {}, ...versionLinks(panel, read, written)),
    h("td", { class: bad > 0 ? "td-bad" : null }, bad > 0 ? `${whole(bad)} NaN/Inf` : number(summary?.norm ?? null)),
    h("td", {}, who),
  );
}

function roles(arg: Arg): HTMLElement[] {
  const result: HTMLElement[] = [];
  if (arg.reads && arg.needed) {
    result.push(h("span", { class: "td-role td-role-n", title: "reads; the adjoint needs these values" }, "r ●"));
  } else if (arg.reads) result.push(h("span", { class: "td-role", title: "reads; no adjoint needs the values" }, "r"));
  if (arg.writes) result.push(h("span", { class: "td-role td-role-w", title: "writes" }, "w"));
  return result;
}

function versionLinks(panel: Panel, read: Version | null, written: Version | null): Child[] {
  const parts: Child[] = [];
  const add = (version: Version): void => {
    const sign = version.status === "lost" ? " ✕" : version.status === "preserved" ? " kept" : "";
    const element = link(`v${version.version}${sign}`, () => selectVersion(panel, version), fate(panel.model, version));
    element.classList.add(`td-status-${version.status}`);
    parts.push(element);
  };
  if (read) add(read);
  if (read && written) parts.push(" → ");
  if (written) add(written);
  return parts;
}

function arrayTab(panel: Panel): Child[] {
  const { model, store } = panel;
  const { array: key, version: number_ } = store.get("selection");
  const array = model.array(model.arrayId(key));
  if (!array) return [h("p", { class: "td-hint" }, "Choose a version of an array: click a bar in the lanes.")];
  const versions = model.versions(array.id);
  const version = model.version(array.id, number_) ?? versions.at(-1) ?? null;
  const parent = model.array(array.parent);
  const rows = facts(
    ["shape", shape(array)],
    ["memory", `${bytes(byteSize(array))}, buffer ${array.buffer}`],
    parent ? ["view of", short(parent.label, 40)] : null,
    ["role", `${array.role}${array.requiresGrad ? ", requires_grad" : ", no gradient"}`],
    version
      ? ["written by", version.writtenBy === null ? "there before the tape" : launchLink(panel, version.writtenBy)]
      : null,
    version ? ["read by", ...launchLinks(panel, version.reads)] : null,
    version ? ["needed by", ...launchLinks(panel, version.neededBy, "no adjoint")] : null,
    version?.overwrittenBy == null ? null : ["overwritten", launchLink(panel, version.overwrittenBy)],
  );
  if (!version) return [rows, h("p", { class: "td-empty" }, "No version of it was recorded.")];
  return [
    rows,
    h(
      "p",
      { class: `td-fate td-status-${version.status}` },
      h("b", {}, `v${version.version} ${STATUS_NAMES[version.status]}. `),
      fate(model, version),
      ".",
    ),
    summaryView("value", version.value),
    summaryView("adjoint", version.adjoint),
    versionHistory(panel, versions, version),
  ];
}

function launchLink(panel: Panel, index: number): HTMLElement {
  const launch = panel.model.launch(index);
  return link(`${index} · ${short(launch?.name ?? "", 28)}`, () => selectLaunch(panel, index));
}

function launchLinks(panel: Panel, indices: readonly number[], nothing = "nobody"): Child[] {
  if (indices.length === 0) return [nothing];
  const shown = indices
    .slice(0, 6)
    .flatMap((index, i) => [
      i > 0 ? ", " : null,
      link(String(index), () => selectLaunch(panel, index), launchName(panel.model, index)),
    ]);
  return indices.length > 6 ? [...shown, ` and ${indices.length - 6} more`] : shown;
}

/** Versions around the chosen one; a tape may have thousands. */
function versionHistory(panel: Panel, versions: readonly Version[], chosen: Version): HTMLElement {
  const at = versions.indexOf(chosen);
  const first = Math.max(0, Math.min(at - MOST_VERSIONS / 2, versions.length - MOST_VERSIONS));
  const shown = versions.slice(first, first + MOST_VERSIONS);
  const rows = shown.map((version) => {
    const element = link(`v${version.version}`, () => selectVersion(panel, version));
    return h(
      "tr",
      { class: version === chosen ? "td-chosen" : null, "aria-current": version === chosen ? "true" : null },
      h("th", { scope: "row" }, element),
      h("td", {}, version.writtenBy === null ? "before" : String(version.writtenBy)),
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
  const more = versions.length - shown.length;
  return h(
    "section",
    { class: "td-history" },
    h("h2", {}, "Versions"),
    h("div", { class: "td-tablebox" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows))),
    more > 0 ? h("p", { class: "td-empty" }, `${whole(more)} more versions not listed`) : null,
  );
}
