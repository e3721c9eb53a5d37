/**
 * The values of one version of an array, beside their adjoint: as a picture, in figures, and as numbers. The figures are in the
 * trace; pictures and numbers are requested when they are shown.
 */

import type { ArrayInfo, Summary, Version } from "../../trace/types.js";
import { elementAt, indexText, type Of, type VersionValues } from "../../trace/values.js";
import { codeLine } from "../copyButton.js";
import type { ValuesView } from "../details/shell.js";
import { type Child, h, link, replace, scrollWithin } from "../dom.js";
import { number, plural, short, whole } from "../format.js";
import { keepFocus } from "../keepFocus.js";
import { launchName, origin } from "../phrases.js";
import type { Panel } from "../state.js";
import { figures, histogram } from "../statistics.js";
import { type Found, Lookup, type Wanted } from "./lookup.js";
import { pictureView } from "./picture.js";
import { holds, type Page, pageOf, pager, pageTable, type Side, windowOf } from "./table.js";

const NAMES: Readonly<Record<Of, string>> = { value: "values", adjoint: "adjoint" };

export class Values implements ValuesView {
  private readonly lookup: Lookup;
  private array: ArrayInfo | null = null;
  private version: Version | null = null;
  private page: Page = { first: 0, marked: null };
  private painters: (() => void)[] = [];

  constructor(
    private readonly panel: Panel,
    private readonly element: HTMLElement,
  ) {
    this.lookup = new Lookup(panel.store, () => this.render());
    const paint = (): void => {
      for (const each of this.painters) each();
    };
    const resize = new ResizeObserver(paint);
    resize.observe(this.element);
    const themes = new MutationObserver(paint);
    themes.observe(panel.root, { attributes: true, attributeFilter: ["data-td-theme"] });
    panel.lifetime.add(() => {
      resize.disconnect();
      themes.disconnect();
      this.lookup.end();
    });
    // a kernel that comes, or goes, can answer other questions
    panel.lifetime.add(
      panel.store.subscribe((changed) => {
        if (changed.has("passes")) this.lookup.forgetAdjoints();
        if (changed.has("canRun") || changed.has("passes")) this.want();
      }),
    );
  }

  show(array: number | null, version: number | null): void {
    if (array === (this.version?.array ?? null) && version === (this.version?.version ?? null)) {
      for (const paint of this.painters) paint(); // it may have been off the page
      return;
    }
    const found = this.panel.model.version(array, version);
    if (found?.array !== this.version?.array) this.page = { first: 0, marked: null };
    this.array = found ? this.panel.model.array(found.array) : null;
    this.version = found;
    this.want();
  }

  private want(): void {
    this.lookup.want(this.wanted());
    this.render();
  }

  private sides(): Of[] {
    const adjoint = this.array?.requiresGrad && this.panel.model.trace.backward.ran;
    return adjoint ? ["value", "adjoint"] : ["value"];
  }

  private wanted(): Wanted[] {
    const { version } = this;
    if (!version) return [];
    const list: Wanted[] = this.sides().map((of) => ({ array: version.array, version: version.version, of }));
    for (const main of [...list]) {
      const start = this.startOf(main);
      if (start !== null) list.push({ ...main, start });
    }
    return list;
  }

  /** The start of the window that the page needs; null if the answer to the main question contains it. */
  private startOf(main: Wanted): number | null {
    const found = this.lookup.find(main);
    if (found.state !== "known" || holds(found.values, this.page.first)) return null;
    return windowOf(found.values, this.page.first);
  }

  private go(page: Page): void {
    this.page = page;
    this.want();
    const row = this.element.querySelector<HTMLElement>("tr.td-chosen");
    const box = this.element.closest<HTMLElement>(".td-right");
    if (row && box) scrollWithin(box, row);
  }

  private render(): void {
    keepFocus(this.element, () => {
      this.painters = [];
      replace(this.element, ...this.content());
      for (const paint of this.painters) paint();
    });
  }

  private content(): Child[] {
    const { panel, array, version } = this;
    if (!array || !version) return [];
    const found = new Map(this.sides().map((of) => [of, this.lookup.find(wantedOf(version, of))] as const));
    const known = (of: Of): VersionValues | null => {
      const answer = found.get(of);
      return answer?.state === "known" ? answer.values : null;
    };
    const value = known("value");
    return [
      h(
        "h2",
        {},
        `${short(array.label, 40)} v${version.version}`,
        h("span", { class: "td-hint" }, origin(panel.model, version)),
      ),
      h("div", { class: "td-sides" }, ...this.sides().map((of) => this.side(of, found.get(of), version[of]))),
      this.missingAdjoint(array),
      ...refusals([...found.values()]),
      value
        ? changeLine(panel, version, value, (element) => this.go({ first: pageOf(element), marked: element }))
        : null,
      ...this.numbers(value ?? known("adjoint")),
      codeLine(panel, "Python", pythonFor(array, version, this.sides().length > 1)),
    ];
  }

  private missingAdjoint(array: ArrayInfo): Child {
    if (this.sides().length > 1) return null;
    const since = this.panel.store.get("passes") > 0;
    const pass = since ? "this was drawn before the reverse pass; refresh() shows it" : "no reverse pass has run";
    return h("p", { class: "td-empty" }, `No adjoint: ${array.requiresGrad ? pass : "the array has no gradient"}.`);
  }

  private side(of: Of, found: Found | undefined, summary: Summary | null): HTMLElement {
    const values = found?.state === "known" ? found.values : null;
    const before = of === "adjoint" && this.panel.store.get("passes") > 0; // the figures of the trace are older
    const shown = values?.summary ?? (before ? null : summary);
    const label = `${NAMES[of]} of ${short(this.array?.label ?? "", 40)} v${this.version?.version ?? ""}`;
    const parts: Child[] = [h("h3", {}, of === "value" ? "values" : "adjoint")];
    if (values && values.picture.columns > 0) {
      const picture = pictureView(values.picture, of, label);
      this.painters.push(picture.paint);
      parts.push(picture.element);
    } else if (found?.state === "waiting") parts.push(h("div", { class: "td-awaited", "aria-busy": "true" }, "…"));
    if (shown) parts.push(figures(shown), histogram(shown.histogram));
    else if (found?.state !== "waiting") parts.push(h("p", { class: "td-empty" }, "not recorded"));
    if (values) parts.push(...this.firstBad(values));
    return h("div", { class: `td-summary td-of-${of}` }, ...parts);
  }

  private firstBad(values: VersionValues): Child[] {
    const places = [
      ["NaN", values.firstNan],
      ["Inf", values.firstInf],
    ] as const;
    return places.map(([name, index]) => {
      if (!index) return null;
      const element = elementAt(values.shape, index.slice(0, values.shape.length));
      const go = (): void => this.go({ first: pageOf(element), marked: element });
      return h("p", { class: "td-bad" }, link(`✕ first ${name} at ${indexText(index)}`, go));
    });
  }

  private numbers(main: VersionValues | null): Child[] {
    const { version, page } = this;
    if (!main || !version || main.size === 0) return [];
    const sides: Side[] = [];
    for (const of of this.sides()) {
      const wanted = wantedOf(version, of);
      const start = this.startOf(wanted);
      const found = this.lookup.find(start === null ? wanted : { ...wanted, start });
      if (found.state === "known") sides.push({ name: NAMES[of], values: found.values });
    }
    const label = `${short(this.array?.label ?? "", 40)} v${version.version}, elements from ${page.first}`;
    return [pageTable(sides, page, label), pager(main, page, (to) => this.go(to))];
  }
}

function wantedOf(version: Version, of: Of): Wanted {
  return { array: version.array, version: version.version, of };
}

/** Why there are no numbers, once where the reason is the same for both. */
function refusals(found: readonly Found[]): HTMLElement[] {
  const reasons = new Set(found.flatMap((one) => (one.state === "refused" ? [one.why] : [])));
  return [...reasons].map((why) => h("p", { class: "td-empty td-why" }, why));
}

/** The change by the launch that wrote a version. */
function changeLine(panel: Panel, version: Version, values: VersionValues, go: (element: number) => void): Child {
  const { change, shape } = values;
  if (!change) return null;
  const who = version.writtenBy === null ? "the write outside the tape" : launchName(panel.model, version.writtenBy);
  if (change.changed === 0)
    return h("p", { class: "td-change" }, `${who} changed none of ${whole(change.total)} elements`);
  const parts: Child[] = [`${who} changed ${whole(change.changed)} of ${plural(change.total, "element")}`];
  if (change.at) {
    const { at } = change;
    const steps = `${number(change.before, 4)} → ${number(change.after, 4)}`;
    const size = change.largest === null ? steps : `${steps}, by ${number(change.largest)}`;
    parts.push(
      change.largest === null ? ", first at " : ", most at ",
      link(indexText(at), () => go(elementAt(shape, at.slice(0, shape.length)))),
      `: ${size}`,
    );
  }
  return h("p", { class: "td-change" }, ...parts);
}

const PATH = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/;

/** Return Python code that prints the same values. */
export function pythonFor(array: ArrayInfo, version: Version, adjoint: boolean): string {
  const name = PATH.test(array.label) ? array.label : "x";
  const reader = version.reads[0] ?? 0;
  const moment = version.writtenBy === null ? `${version.version === 0 ? 0 : reader}` : `${version.writtenBy}, "after"`;
  const shown = adjoint ? `${name}.numpy(), ${name}.grad.numpy()` : `${name}.numpy()`;
  return `with tape.at(${moment}${adjoint ? ", backward=True" : ""}): print(${shown})`;
}
