import { type Child, h } from "./dom.js";

/** Rows of a name and what it is; null rows are left out. */
export function facts(...rows: readonly (readonly [string, ...Child[]] | null)[]): HTMLElement {
  const list = h("dl", { class: "td-facts" });
  for (const row of rows) {
    if (row === null) continue;
    const [name, ...values] = row;
    list.append(h("dt", {}, name), h("dd", {}, ...values));
  }
  return list;
}
