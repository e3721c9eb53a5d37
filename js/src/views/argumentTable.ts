/** The arguments of the selected launch: the arrays that it read and wrote, with versions and values. */
import type { Arg, ArrayInfo, Launch, Version } from "../trace/types.js";
import { goToWriter, selectVersion } from "./actions.js";
import { button, type Child, h, link } from "./dom.js";
import { argValue, number, shape, short, whole } from "./format.js";
import { fate, origin } from "./phrases.js";
import type { Panel } from "./state.js";

export function argTable(panel: Panel, launch: Launch, backward: boolean, shown: number | null): HTMLElement {
  const rows = launch.args.map((arg) => argRow(panel, arg, backward, shown));
  const norm = backward ? "‖adj‖" : "‖value‖";
  const access = h("span", { class: "td-sr" }, "access");
  const head = h("tr", {}, ...["argument", access, "version", norm].map((text) => h("th", { scope: "col" }, text)));
  return h(
    "div",
    { class: "td-tablebox" },
    h("table", { class: "td-args" }, h("thead", {}, head), h("tbody", {}, ...rows)),
  );
}

function argRow(panel: Panel, arg: Arg, backward: boolean, shown: number | null): HTMLElement {
  const { model } = panel;
  const array = model.array(arg.array);
  const name = short(arg.name, 24);
  if (!array) {
    return h(
      "tr",
      {},
      h("th", { scope: "row", title: arg.name === name ? null : short(arg.name, 300) }, name),
      h("td", { colspan: 3, class: "td-value" }, short(argValue(arg.value), 200)),
    );
  }
  const read = model.version(array.id, arg.readVersion);
  const written = model.version(array.id, arg.writeVersion);
  const summary = (backward ? (written ?? read)?.adjoint : (written ?? read)?.value) ?? null;
  const bad = summary ? summary.nan + summary.inf : 0;
  const who = read ? link("go to writer", () => goToWriter(panel, read), origin(model, read)) : null;
  if (who) who.dataset.key = `writer ${arg.name}`;
  return h(
    "tr",
    { class: array.id === shown ? "td-chosen" : null },
    h(
      "th",
      { scope: "row", title: `${short(array.label, 300)}: ${shape(array)}` },
      ...nameCell(panel, arg, array, shown),
    ),
    h("td", { class: "td-roles" }, ...roles(arg)),
    h("td", {}, ...versionLinks(panel, read, written), who && h("span", { class: "td-shape" }, who)),
    h("td", { class: bad > 0 ? "td-bad" : null }, bad > 0 ? `✕ ${whole(bad)} NaN/Inf` : number(summary?.norm ?? null)),
  );
}

/** The name of an argument chooses the array whose values are shown. */
function nameCell(panel: Panel, arg: Arg, array: ArrayInfo, shown: number | null): Child[] {
  const version = arg.writeVersion ?? arg.readVersion;
  const choose = button(short(arg.name, 24), () => panel.store.select({ array: array.id, version }), {
    class: "td-link td-arg",
    "aria-pressed": String(array.id === shown),
    "data-key": `arg ${arg.name}`,
    title: `show the values of ${short(array.label, 60)}`,
  });
  const alias = array.label === arg.name ? null : h("span", { class: "td-alias" }, ` = ${short(array.label, 24)}`);
  return [choose, alias, h("span", { class: "td-shape" }, shape(array))];
}

function roles(arg: Arg): HTMLElement[] {
  const result: HTMLElement[] = [];
  if (arg.reads && arg.needed) {
    result.push(h("span", { class: "td-role td-role-n", title: "reads; the adjoint needs these values" }, "r ●"));
  } else if (arg.reads) result.push(h("span", { class: "td-role", title: "reads; no adjoint needs the values" }, "r"));
  else if (arg.needed) {
    const title = "the adjoint needs these values";
    result.push(h("span", { class: "td-role td-role-n", title }, "●"));
  }
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
