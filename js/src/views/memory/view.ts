/** The memory view: one row for each region of memory, and above them the bytes that the reverse pass needs of it. */
import type { Version } from "../../trace/types.js";
import { selectLaunch, selectVersion } from "../actions.js";
import { button, type Child, h, replace, scrollWithin } from "../dom.js";
import { bytes, plural, shape, short, whole } from "../format.js";
import { hatch, type Palette, readPalette } from "../lanes/palette.js";
import { bindPointer } from "../lanes/pointer.js";
import { Tooltip } from "../lanes/tooltip.js";
import { launchName } from "../phrases.js";
import type { ViewContent } from "../spec.js";
import type { Panel } from "../state.js";
import {
  type Bytes,
  bytesAfter,
  type MemoryUse,
  RECOVERIES,
  type Recovery,
  type Region,
  readMemoryUse,
  sum,
} from "./data.js";
import { launchAt, paintGrowth, paintRegion, type Scene, type Span } from "./paint.js";

/** Regions that get a row; the others are counted. */
const MOST_ROWS = 100;
const LEAST_LAUNCHES = 4;
const MAX_RATIO = 3;

interface Row {
  readonly region: Region;
  readonly element: HTMLTableRowElement;
  readonly head: HTMLButtonElement;
  readonly canvas: HTMLCanvasElement;
}

export class MemoryView implements ViewContent {
  private readonly use: MemoryUse;
  private readonly rows: readonly Row[];
  private readonly growth = h("canvas", { class: "td-mem-canvas td-mem-growth-canvas", role: "img" });
  private readonly says = h("p", { class: "td-mem-says" });
  private readonly here = h("p", { class: "td-mem-says td-mem-here", role: "status" });
  private readonly box = h("div", { class: "td-mem-box" });
  private readonly tip = new Tooltip();
  private span: Span;
  private colours: {
    readonly palette: Palette;
    readonly stripes: CanvasPattern | string;
    readonly ratio: number;
  } | null = null;
  private frame = 0;
  private current = 0;

  constructor(
    private readonly panel: Panel,
    private readonly element: HTMLElement,
  ) {
    const { model, lifetime, store, view } = panel;
    this.use = readMemoryUse(model);
    this.span = { from: 0, to: Math.max(1, model.launchCount) };
    this.rows = this.use.regions.slice(0, MOST_ROWS).map((region, i) => this.row(region, i));
    replace(this.says, summary(panel, this.use));
    this.growth.setAttribute("aria-label", this.describeGrowth());
    replace(this.box, this.table());
    replace(element, this.says, this.here, this.box, this.tip.element);
    this.bind(this.growth, null);
    const resize = new ResizeObserver(() => this.paint());
    resize.observe(this.box);
    lifetime.add(() => resize.disconnect());
    lifetime.add(() => cancelAnimationFrame(this.frame));
    lifetime.add(store.subscribe((changed) => changed.has("selection") && this.onSelection()));
    lifetime.add(view.subscribe((changed) => changed.has("main") && this.invalidate()));
    this.setTabStop(0);
    this.onSelection();
  }

  fit(): void {
    this.span = { from: 0, to: Math.max(1, this.panel.model.launchCount) };
    this.invalidate();
  }

  zoom(factor: number, launch = (this.span.from + this.span.to) / 2): void {
    const { from, to } = this.span;
    const total = Math.max(1, this.panel.model.launchCount);
    const width = Math.max(Math.min(LEAST_LAUNCHES, total), Math.min(total, (to - from) / factor));
    this.show(launch - ((launch - from) / (to - from)) * width, width);
  }

  /** Shows so many launches from one on, as far as the tape has them; true if that is a change. */
  private show(from: number, width: number): boolean {
    const total = Math.max(1, this.panel.model.launchCount);
    const start = Math.max(0, Math.min(total - width, from));
    const moved = start !== this.span.from || start + width !== this.span.to;
    this.span = { from: start, to: start + width };
    if (moved) this.invalidate();
    return moved;
  }

  key(event: KeyboardEvent): boolean {
    if (!(event.target instanceof Node) || !this.box.contains(event.target) || this.rows.length === 0) return false;
    const last = this.rows.length - 1;
    const to = { ArrowUp: this.current - 1, ArrowDown: this.current + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return false; // Enter presses the button of the row
    this.setTabStop(Math.max(0, Math.min(last, to)));
    const row = this.rows[this.current] as Row;
    row.head.focus({ preventScroll: true });
    scrollWithin(this.box, row.element);
    return true;
  }

  reveal(launches: readonly number[], array: number | null): void {
    for (const launch of launches.slice(0, 1)) this.follow(launch);
    const row = this.rowOf(array);
    if (row) scrollWithin(this.box, row.element);
  }

  follow(launch: number): void {
    const { from, to } = this.span;
    const width = to - from;
    if (launch < from) this.show(launch - width / 8, width);
    else if (launch + 1 > to) this.show(launch + 1 - (7 * width) / 8, width);
  }

  recolour(now: boolean): void {
    this.colours = null;
    if (now) this.paint();
    else this.invalidate();
  }

  // ------------------------------------------------------------------ rows

  private table(): HTMLElement {
    const more = this.use.regions.length - this.rows.length;
    const head = (text: string, ...rest: Child[]): HTMLElement =>
      h("th", { scope: "col", class: `td-mem-${text}` }, text, ...rest);
    return h(
      "table",
      { class: "td-mem-table" },
      h("caption", { class: "td-sr" }, "Regions of memory, those with the most bytes of overwritten values first"),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          head("region"),
          head("memory"),
          head("versions"),
          h("th", { scope: "col", class: "td-mem-needed", title: NEEDED }, "overwritten, needed"),
          h("th", { scope: "col", class: "td-mem-time", "aria-label": "along the launches" }, this.growth),
        ),
      ),
      h("tbody", {}, ...this.rows.map(({ element }) => element)),
      more > 0 ? h("tfoot", {}, h("tr", {}, h("td", { colspan: 5 }, `and ${whole(more)} more regions`))) : null,
    );
  }

  private row(region: Region, index: number): Row {
    const { model } = this.panel;
    const array = model.array(region.array);
    const label = array?.label ?? "array";
    const title = array ? `${short(label, 200)}: ${shape(array)}` : label;
    const head = button(short(label, 28), () => this.next(index), {
      class: "td-link td-mem-name",
      title,
      tabindex: -1,
    });
    const canvas = h("canvas", { class: "td-mem-canvas", role: "img", "aria-label": this.describe(region) });
    const element = h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        head,
        region.views > 0 ? h("span", { class: "td-mem-views" }, ` +${plural(region.views, "view")}`) : null,
      ),
      h("td", { class: "td-mem-number" }, bytes(region.bytes)),
      h("td", { class: "td-mem-number" }, whole(region.versions)),
      h("td", { class: "td-mem-cost" }, ...costs(region.total)),
      h("td", { class: "td-mem-time" }, canvas),
    );
    this.bind(canvas, region);
    return { region, element, head, canvas };
  }

  private rowOf(array: number | null): Row | undefined {
    const { model } = this.panel;
    const buffer = model.array(array)?.buffer;
    return buffer === undefined
      ? undefined
      : this.rows.find(({ region }) => model.array(region.array)?.buffer === buffer);
  }

  /** One row is in the tab order: the one that the keyboard is on. */
  private setTabStop(to: number): void {
    this.rows[this.current]?.head.setAttribute("tabindex", "-1");
    this.current = to;
    this.rows[to]?.head.setAttribute("tabindex", "0");
  }

  /** Selects the next overwritten version of a region that an adjoint needs; its last version if there is none. */
  private next(index: number): void {
    this.setTabStop(index);
    const { model, store } = this.panel;
    const { region } = this.rows[index] as Row;
    const { array, version } = store.get("selection");
    const now = model.versionIndex(model.arrayId(array), version);
    const at = region.overwrites.findIndex((one) => one.version === now);
    const next = region.overwrites[(at + 1) % Math.max(1, region.overwrites.length)];
    const found = next === undefined ? model.latest(region.array) : this.versionOf(next.version);
    if (found) selectVersion(this.panel, found, next?.launch ?? found.writtenBy ?? undefined);
  }

  private versionOf(index: number): Version | null {
    const { array, number } = this.panel.model.columns.versions;
    return this.panel.model.version(array[index] as number, number[index] as number);
  }

  // ------------------------------------------------------------------ pointer

  private bind(canvas: HTMLCanvasElement, region: Region | null): void {
    const { panel } = this;
    const { model } = panel;
    const at = (px: number): number =>
      Math.max(0, Math.min(model.launchCount - 1, launchAt(this.span, canvas.clientWidth, px)));
    bindPointer(canvas, panel.lifetime, {
      hover: (px, py) => this.hover(canvas, region, at(px), px, py),
      leave: () => this.tip.hide(),
      click: (px) => {
        this.tip.hide();
        const version = region && model.versionAt(region.array, at(px));
        if (version) selectVersion(panel, version, at(px));
        else selectLaunch(panel, at(px));
      },
      doubleClick: () => this.fit(),
      pan: (dx) => {
        const { from, to } = this.span;
        return dx !== 0 && this.show(from + (dx / Math.max(1, canvas.clientWidth)) * (to - from), to - from);
      },
      zoom: (factor, px) => this.zoom(factor, at(px)),
    });
  }

  private hover(canvas: HTMLCanvasElement, region: Region | null, launch: number, px: number, py: number): void {
    const { model } = this.panel;
    if (model.launchCount === 0) return;
    const lines = [launchName(model, launch)];
    if (region) {
      const at = model.versionIndexAt(region.array, launch);
      const overwrite = region.overwrites.find(({ version }) => version === at);
      const found = at < 0 ? null : this.versionOf(at);
      if (found) lines.push(`${short(model.array(region.array)?.label ?? "", 40)} v${found.version}`);
      if (overwrite) lines.push(`${bytes(overwrite.bytes)} ${WORDS[overwrite.recovery]}`);
    } else lines.push(...texts(bytesAfter(this.use.growth, launch)));
    const outer = this.element.getBoundingClientRect();
    const inner = canvas.getBoundingClientRect();
    const [left, top] = [inner.left - outer.left + px, inner.top - outer.top + py];
    this.tip.show(lines, left, top, outer.width, outer.height);
  }

  // ------------------------------------------------------------------ painting and words

  private onSelection(): void {
    const { model, store } = this.panel;
    const { launch, array } = store.get("selection");
    const chosen = this.rowOf(model.arrayId(array));
    for (const row of this.rows) row.element.classList.toggle("td-mem-chosen", row === chosen);
    replace(this.here, launch === null || model.launch(launch) === null ? "" : after(this.panel, this.use, launch));
    this.invalidate();
  }

  private invalidate(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.box.clientWidth === 0) return; // hidden, or not laid out yet
    const { model, root, store } = this.panel;
    const ratio = Math.min(MAX_RATIO, window.devicePixelRatio || 1);
    const ctx = this.growth.getContext("2d");
    if (ctx && this.colours?.ratio !== ratio) {
      const palette = readPalette(root);
      this.colours = { palette, stripes: hatch(ctx, palette.red, 3.5, ratio, 1, 0.4), ratio };
    }
    if (this.colours === null) return;
    const { launch, array, version } = store.get("selection");
    const scene: Scene = {
      model,
      ...this.colours,
      span: this.span,
      launch,
      version: model.versionIndex(model.arrayId(array), version),
    };
    paintGrowth(this.growth, scene, this.use.growth);
    for (const { canvas, region } of this.rows) paintRegion(canvas, scene, region);
  }

  private describe({ overwrites }: Region): string {
    if (overwrites.length === 0) return "no version that an adjoint needs is overwritten";
    const launches = overwrites.slice(0, 8).map(({ launch }) => launch);
    const more = overwrites.length > launches.length ? ` and ${overwrites.length - launches.length} more` : "";
    return `needed versions overwritten by launches ${launches.join(", ")}${more}`;
  }

  private describeGrowth(): string {
    const { launches } = this.use.growth;
    if (launches.length === 0) return "Bytes of overwritten versions that an adjoint needs: none";
    return `Bytes of overwritten versions that an adjoint needs, along the launches: from launch ${launches[0]} to launch ${launches.at(-1)}, ${texts(this.use.total).join(", ")} in the end`;
  }
}

const NEEDED = "versions that an adjoint needs and a launch overwrites";
const WORDS: Readonly<Record<Recovery, string>> = { copied: "copied", recomputed: "recomputed", lost: "lost" };

function texts(total: Bytes): string[] {
  return RECOVERIES.flatMap((recovery) =>
    total[recovery] > 0 ? [`${bytes(total[recovery])} ${WORDS[recovery]}`] : [],
  );
}

function costs(total: Bytes): Child[] {
  if (sum(total) === 0) return ["–"];
  return RECOVERIES.flatMap((recovery) =>
    total[recovery] > 0
      ? [h("span", { class: `td-mem-is-${recovery}` }, `${bytes(total[recovery])} ${WORDS[recovery]}`)]
      : [],
  );
}

/** Return what the tape costs, in sentences. */
function summary({ model }: Panel, { regions, bytes: all, total }: MemoryUse): string {
  const arrays = `Arrays: ${bytes(all)} in ${plural(regions.length, "region")}.`;
  if (sum(total) === 0)
    return `${arrays} No launch overwrites values that an adjoint needs, so the tape needs no copies of them.`;
  const sentences = [arrays];
  const copies = regions.flatMap(({ overwrites }) => overwrites.filter(({ recovery }) => recovery === "copied")).length;
  const most = model.array(regions[0]?.array ?? null)?.label ?? "";
  const share = Math.round((100 * sum(regions[0]?.total ?? total)) / sum(total));
  if (total.copied > 0)
    sentences.push(`Copies for the reverse pass: ${bytes(total.copied)} of ${plural(copies, "version")}.`);
  if (total.recomputed > 0)
    sentences.push(`To stay within its memory_budget, the tape recomputes ${bytes(total.recomputed)}.`);
  if (total.lost > 0) {
    const evidence = model.trace.tape.onOverwrite === "warn" ? " (the tape keeps copies as evidence only)" : "";
    sentences.push(
      `Lost: ${bytes(total.lost)} that adjoints need${evidence}; on_overwrite="preserve" would copy them.`,
    );
  }
  if (regions.length > 1) sentences.push(`${short(most, 40)} has ${share} % of these bytes.`);
  return sentences.join(" ");
}

/** Return the bytes after the selected launch, and the budget that would be full there: half of a budget is for copies. */
function after({ model }: Panel, { growth, total }: MemoryUse, launch: number): string {
  const now = bytesAfter(growth, launch);
  const name = `After ${launchName(model, launch)}`;
  if (sum(now) === 0) return `${name}: nothing that an adjoint needs is overwritten yet.`;
  const budget =
    now.copied > 0 && total.recomputed === 0
      ? ` A memory_budget below ${bytes(2 * now.copied)} would be full here: half of it is for copies.`
      : "";
  return `${name}: ${texts(now).join(", ")}.${budget}`;
}
