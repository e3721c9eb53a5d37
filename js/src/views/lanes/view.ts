/** The lanes: a canvas that is painted at most once a frame, and what the pointer and the wheel do to it. */
import type { TapeEvent } from "../../trace/types.js";
import { selectFinding, selectLaunch, selectVersion } from "../actions.js";
import { button, h } from "../dom.js";
import { plural } from "../format.js";
import type { View } from "../spec.js";
import type { Panel } from "../state.js";
import { type Bands, bandAround, buildBands, shownRows } from "./bands.js";
import { type ColourScale, colourScale } from "./colourScale.js";
import { buildEvents, type EventMarks, eventPlace, eventText } from "./events.js";
import { buildFindingMarks, type FindingMark, findingLines, hitFindings, paintFindings, TONES } from "./findings.js";
import { buildLaunchAxis, toggledScope, toggledSequence, unfolding } from "./folds.js";
import {
  clampViewport,
  fitScale,
  type Geometry,
  laneHeight,
  plotWidth,
  u,
  type Viewport,
  visibleFolds,
  zoomAbout,
} from "./geometry.js";
import { gutterWidth } from "./gutter.js";
import { type Hit, hitTest, tooltipLines } from "./hitTest.js";
import { bindKeys } from "./keys.js";
import { HEADROOM, headHeight, paintBands, paintHead } from "./laneHeader.js";
import { paintStrip, STRIP_HEIGHT, type StripSeries, stripSeries } from "./normStrip.js";
import { clipToPlot, paintLabels, paintScrollMarks, paintTracks, type Scene } from "./paint.js";
import { hatch, type Palette, readPalette } from "./palette.js";
import { bindPointer } from "./pointer.js";
import { buildScreenReaderTables } from "./screenReaderTables.js";
import { Tooltip } from "./tooltip.js";
import { buildTracks, type Track, visibleTracks } from "./tracks.js";

const MAX_RATIO = 3;
const ZOOM_STEP = 1.5;
/** A finding may name every launch of a tape; so many are underlined. */
const MOST_FOCUSED = 500;

export class LanesView implements View {
  readonly element: HTMLElement;
  private readonly canvas = h("canvas", { class: "td-canvas", tabindex: 0, role: "application" });
  private readonly strip = h("canvas", { class: "td-strip", role: "img" });
  private readonly tip = new Tooltip();
  private readonly viewport: Viewport = { left: 0, scale: 1, top: 0 };
  private readonly allTracks: readonly Track[];
  private readonly bands: Bands;
  private readonly events: EventMarks;
  private readonly findings: readonly FindingMark[];
  private readonly fates: { readonly lost: number; readonly kept: number };
  /** Width of the names; 0: not measured yet. */
  private gutter = 0;
  /** True if adjoints were recorded. */
  private readonly summarised: boolean;
  /** The array and version that were last brought into view. */
  private revealed = "";
  private series: StripSeries;
  private tracks: readonly Track[] = [];
  private columns;
  private scale: ColourScale | null = null;
  private palette: Palette | null = null;
  private hatches: { lost: CanvasPattern | string; kept: CanvasPattern | string } = { lost: "", kept: "" };
  private size = { width: 0, height: 0, ratio: 1 };
  private fitted = true;
  private frame = 0;
  /** An action that was requested before the canvas had a size. */
  private onFirstLayout: (() => void) | null = null;

  constructor(private readonly panel: Panel) {
    const { model, view, lifetime } = panel;
    this.allTracks = buildTracks(model);
    this.bands = buildBands(model);
    this.fates = { lost: model.countStatus("lost"), kept: model.countStatus("preserved") };
    this.events = buildEvents(model);
    this.findings = buildFindingMarks(model);
    this.summarised = model.columns.versions.adjoint.some((summary) => summary >= 0);
    this.series = stripSeries(model, null);
    this.columns = buildLaunchAxis(model, view.value);
    this.element = h(
      "section",
      { class: "td-lanes", "aria-label": "Lanes" },
      this.canvas,
      this.zoomButtons(),
      this.strip,
      this.tip.element,
      buildScreenReaderTables(panel),
    );
    this.refilter();
    this.scale = colourScale(model, view.get("colour"));
    this.describe();
    this.bindPointer();
    bindKeys(this.canvas, panel, {
      lanes: () => this.tracks.map((track) => track.array.id),
      page: (pages) => this.pan(0, 0.8 * pages * (this.size.height - this.geometry().head)),
      toggleFold: () => this.toggleFold(),
    });
    const resize = new ResizeObserver(() => this.measure());
    resize.observe(this.canvas);
    lifetime.add(() => resize.disconnect());
    lifetime.add(() => cancelAnimationFrame(this.frame));
    lifetime.add(view.subscribe((changed) => this.onView(changed)));
    lifetime.add(panel.store.subscribe((changed) => changed.has("selection") && this.onSelection()));
  }

  /** Arrays that the filters hide. */
  get hidden(): number {
    return this.allTracks.length - this.tracks.length;
  }

  /** Forgets the colours; call when the theme has changed. */
  recolour(now = false): void {
    this.palette = null;
    if (now) this.paint();
    else this.invalidate();
  }

  /** The canvas handles its own keys. */
  key(): boolean {
    return false;
  }

  fit(): void {
    this.fitted = true;
    this.viewport.left = 0;
    this.viewport.top = 0;
    this.viewport.scale = 0;
    this.clamp();
    this.invalidate();
  }

  zoom(factor: number, column = this.viewport.left + plotWidth(this.geometry()) / this.viewport.scale / 2): void {
    const geometry = this.geometry();
    zoomAbout(this.viewport, column, factor, fitScale(plotWidth(geometry), this.columns));
    this.fitted = false;
    this.clamp();
    this.invalidate();
  }

  pan(dx: number, dy: number): void {
    this.viewport.left += dx / this.viewport.scale;
    this.viewport.top += dy;
    this.fitted = this.fitted && dx === 0;
    this.clamp();
    this.invalidate();
  }

  /** Unfolds, pans and zooms so far that launches (and a lane) can be seen; changes nothing where they can already. */
  reveal(launches: readonly number[], array: number | null = null): void {
    if (this.size.width === 0) {
      this.onFirstLayout = () => this.reveal(launches, array);
      return;
    }
    for (const launch of launches) {
      const patch = unfolding(this.columns, launch, this.panel.view.value);
      if (patch) this.panel.view.set(patch);
    }
    const columns = launches.map((launch) => this.columns.of(Math.min(launch, this.columns.launches - 1)));
    const first = Math.min(...columns);
    const last = Math.max(...columns);
    const width = plotWidth(this.geometry());
    const { viewport } = this;
    const seen = first >= viewport.left && last + 1 <= viewport.left + width / viewport.scale;
    if (launches.length > 0 && (!seen || viewport.scale < 5)) {
      viewport.scale = Math.max(viewport.scale, Math.min(28, (width * 0.6) / (last - first + 1)));
      viewport.left = (first + last + 1) / 2 - width / viewport.scale / 2;
      this.fitted = false;
    }
    this.scrollTo(array);
    this.clamp();
    this.invalidate();
  }

  /** Pans as little as brings a launch into view; keeps the zoom and the folds. */
  follow(launch: number): void {
    if (this.size.width === 0) return;
    const { viewport } = this;
    const shown = plotWidth(this.geometry()) / viewport.scale;
    const column = this.panel.view.get("backward") ? this.columns.backward(launch) : this.columns.forward(launch);
    if (column < viewport.left + 1) viewport.left = column - Math.min(4, shown / 2);
    else if (column > viewport.left + shown - 1) viewport.left = column - shown + Math.min(4, shown / 2);
    this.clamp();
    this.invalidate();
  }

  invalidate(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  private onView(changed: ReadonlySet<string>): void {
    const { model, view } = this.panel;
    if (changed.has("gradientOnly") || changed.has("readOnly") || changed.has("suspectOnly") || changed.has("fold"))
      this.refilter();
    if (changed.has("fold") || changed.has("unfolded") || changed.has("collapsed")) this.refold();
    if (changed.has("colour")) this.scale = colourScale(model, view.get("colour"));
    this.chooseSeries();
    this.describe();
    this.clamp();
    this.invalidate();
  }

  private onSelection(): void {
    this.chooseSeries();
    this.refilter();
    this.revealLane();
    this.invalidate();
  }

  /** Scrolls to the lane of the selected array, and along it to the selected version if no part of it is visible. */
  private revealLane(): void {
    const { array, version, launch } = this.panel.store.get("selection");
    const key = `${array} ${version}`;
    if (key === this.revealed || this.size.width === 0) return;
    this.revealed = key;
    const id = this.panel.model.arrayId(array);
    this.scrollTo(id);
    const track = this.tracks.find((candidate) => candidate.array.id === id);
    const position = track ? this.panel.model.versionIndex(id, version) - track.base : -1;
    if (!track || position < 0 || launch !== null) return;
    const { viewport, columns } = this;
    const right = viewport.left + plotWidth(this.geometry()) / viewport.scale;
    const start = track.start[position] as number;
    const out = columns.of(start) > right - 1 || columns.of(track.life.end[position] as number) < viewport.left;
    if (out) this.follow(Math.max(0, start));
  }

  private scrollTo(array: number | null): void {
    const at = this.tracks.findIndex((track) => track.array.id === array);
    if (at < 0) return;
    const { lane, head, height } = this.geometry();
    const room = height - head;
    const { viewport } = this;
    if (at * lane < viewport.top || (at + 1) * lane > viewport.top + room) viewport.top = (at + 0.5) * lane - room / 2;
    this.clamp();
  }

  /** Chooses what the strip shows: the norms of the selected array, or of everything that each launch wrote. */
  private chooseSeries(): void {
    const { model, store, view } = this.panel;
    const array = view.get("tab") === "array" ? model.arrayId(store.get("selection").array) : null;
    if (array !== this.series.array) this.series = stripSeries(model, array);
  }

  private refilter(): void {
    const { model, store, view } = this.panel;
    const before = this.tracks.length;
    this.tracks = visibleTracks(this.allTracks, model, view.value, model.arrayId(store.get("selection").array));
    if (this.tracks.length !== before) this.gutter = 0;
  }

  /** Keeps the launch at the left edge where it is, unless everything was in view. */
  private refold(): void {
    const anchor = this.columns.firstLaunch(Math.floor(this.viewport.left));
    this.columns = buildLaunchAxis(this.panel.model, this.panel.view.value);
    if (this.fitted) this.viewport.scale = 0;
    else this.viewport.left = this.columns.of(anchor);
  }

  private geometry(): Geometry {
    const { width, height } = this.size;
    const head = headHeight(this.bands);
    const ctx = this.gutter === 0 && width > 0 ? this.canvas.getContext("2d") : null;
    if (ctx) this.gutter = gutterWidth(ctx, getComputedStyle(this.panel.root).fontFamily, this.tracks, width);
    const { gutter } = this;
    const lane = laneHeight(height - head, this.tracks.length);
    return { width, height, gutter, head, lane, columns: this.columns, viewport: this.viewport };
  }

  private clamp(): void {
    const { head, height, lane } = this.geometry();
    if (this.fitted) this.viewport.scale = 0;
    clampViewport(this.viewport, plotWidth(this.geometry()), height - head, this.tracks.length, lane, this.columns);
    // one finger scrolls the lanes where they do not all fit, else the page; two always zoom
    this.canvas.style.touchAction = this.tracks.length * lane > height - head ? "none" : "pan-y";
  }

  private measure(): void {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const ratio = Math.min(MAX_RATIO, window.devicePixelRatio || 1);
    if (width === 0 || height === 0) return; // not laid out yet: outputs attach at size 0 × 0 first
    if (ratio !== this.size.ratio) this.palette = null;
    this.gutter = 0;
    this.size = { width, height, ratio };
    const first = this.onFirstLayout;
    this.onFirstLayout = null;
    for (const [canvas, high] of [
      [this.canvas, height],
      [this.strip, STRIP_HEIGHT],
    ] as const) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(high * ratio);
    }
    this.clamp();
    first?.();
    this.paint(); // at once: a canvas is cleared when it is resized, and would flicker until the next frame
  }

  private scene(palette: Palette): Scene {
    const { store, view, model } = this.panel;
    const { launch, array, version, finding } = store.get("selection");
    const focused = model.finding(finding);
    const geometry = this.geometry();
    return {
      geometry,
      palette,
      events: this.events,
      folds: visibleFolds(geometry),
      summarised: this.summarised,
      tracks: this.tracks,
      scale: this.scale,
      lostHatch: this.hatches.lost,
      keptHatch: this.hatches.kept,
      focus: focused && focused.arrays.length > 0 ? new Set(focused.arrays) : null,
      focusLaunches: focused?.launches.slice(0, MOST_FOCUSED) ?? [],
      focusTone: TONES[focused?.severity ?? "info"],
      finding: focused,
      findingMarks: this.findings,
      launch,
      backward: view.get("backward"),
      array: model.arrayId(array),
      version,
    };
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const ctx = this.canvas.getContext("2d");
    const { width, height, ratio } = this.size;
    if (!ctx || width === 0) return;
    if (!this.palette) {
      this.palette = readPalette(this.panel.root);
      const { red, keep } = this.palette;
      this.hatches = { lost: hatch(ctx, red, 4, ratio, 1, 0.32), kept: hatch(ctx, keep, 3.5, ratio, -1, 0.17) };
    }
    const scene = this.scene(this.palette);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.fillStyle = this.palette.bg;
    ctx.fillRect(0, 0, width, height);
    ctx.save();
    clipToPlot(ctx, scene.geometry, 0);
    const rows = shownRows(scene.geometry, this.bands);
    paintBands(ctx, scene, rows);
    paintHead(ctx, scene, this.panel.model, rows, this.panel.view.value);
    ctx.beginPath();
    ctx.rect(0, scene.geometry.head - HEADROOM, width, height);
    ctx.clip();
    paintTracks(ctx, scene);
    paintFindings(ctx, scene);
    ctx.restore();
    paintLabels(ctx, scene);
    paintScrollMarks(ctx, scene);
    paintStrip(this.strip, scene, this.series, ratio);
  }

  private describe(): void {
    const { model } = this.panel;
    const { launchCount } = model;
    const { lost, kept } = this.fates;
    const size = `${plural(launchCount, "launch", "launches")}, ${plural(this.tracks.length, "array")} shown`;
    const fates = `${plural(lost, "needed value")} overwritten and lost, ${kept} overwritten but kept`;
    const label = `Lanes: ${size}; ${fates}. Arrow keys walk along the launches.`;
    this.canvas.setAttribute("aria-label", label);
    this.strip.setAttribute(
      "aria-label",
      "Norms of the values that each launch wrote, and of their adjoints, logarithmic",
    );
  }

  private zoomButtons(): HTMLElement {
    return h(
      "div",
      { class: "td-zoom", role: "group", "aria-label": "Zoom" },
      button("−", () => this.zoom(1 / ZOOM_STEP), { name: "zoom out", title: "zoom out (−)" }),
      button("+", () => this.zoom(ZOOM_STEP), { name: "zoom in", title: "zoom in (+)" }),
      button("fit", () => this.fit(), { title: "show the whole tape (f)" }),
    );
  }

  private bindPointer(): void {
    bindPointer(this.canvas, this.panel.lifetime, {
      hover: (px, py) => this.onHover(px, py),
      leave: () => this.tip.hide(),
      click: (px, py) => this.onClick(px, py),
      doubleClick: (px, py, out) => {
        if (py > this.geometry().head) this.zoom(out ? 0.5 : 2, u(this.geometry(), px));
      },
      pan: (dx, dy) => {
        const { left, top } = this.viewport;
        this.pan(dx, dy);
        return left !== this.viewport.left || top !== this.viewport.top;
      },
      zoom: (factor, px) => this.zoom(factor, u(this.geometry(), px)),
    });
  }

  private hit(px: number, py: number): Hit | null {
    return hitTest(this.geometry(), this.panel.model, this.tracks, this.bands, this.events, px, py);
  }

  private onHover(px: number, py: number): void {
    const found = hitFindings(this.geometry(), this.tracks, this.findings, px, py);
    const hit = this.hit(px, py);
    const lines = found.length > 0 ? findingLines(found) : hit ? tooltipLines(this.panel.model, hit) : [];
    this.canvas.style.cursor = lines.length > 0 ? "pointer" : "default";
    if (lines.length > 0) this.tip.show(lines, px, py, this.size.width, this.size.height);
    else this.tip.hide();
  }

  private onClick(px: number, py: number): void {
    const { model, view, store } = this.panel;
    const hit = this.hit(px, py);
    this.canvas.focus({ preventScroll: true });
    const [finding] = hitFindings(this.geometry(), this.tracks, this.findings, px, py);
    if (finding) {
      selectFinding(this.panel, finding);
      return;
    }
    if (!hit) return;
    const [event] = hit.events;
    if (event) this.selectEvent(event);
    else if (hit.head?.kind === "scope") view.set(toggledScope(hit.head.scope, view.value));
    else if (hit.head?.kind === "sequence") view.set(toggledSequence(model, hit.head.sequence, view.value));
    else if (hit.version && !hit.event) selectVersion(this.panel, hit.version);
    else if (hit.launch !== null) {
      selectLaunch(this.panel, hit.launch, hit.backward);
      if (hit.version) store.select({ array: hit.version.array, version: hit.version.version });
    }
  }

  /** Goes to the values that an event met, and says what it was and which line did it. */
  private selectEvent(event: TapeEvent): void {
    const { model } = this.panel;
    const version = event.array === null ? null : model.versionAt(event.array, event.at - 1);
    if (version) selectVersion(this.panel, version);
    this.panel.announce(`${eventText(model, event)}, ${eventPlace(model, event)}`);
  }

  /** Unfolds what the selected launch is folded in, or folds the sequence or scope around it. */
  private toggleFold(): void {
    const { model, view, store } = this.panel;
    const launch = model.launch(store.get("selection").launch);
    if (!launch) return;
    const opened = unfolding(this.columns, launch.index, view.value);
    const around = bandAround(this.bands, launch.index);
    const scope = model.scopesOf(launch).at(-1);
    if (opened) view.set(opened);
    else if (around) view.set(toggledSequence(model, around, view.value));
    else if (scope) view.set(toggledScope(scope, view.value));
    else return;
    this.panel.announce(opened ? "unfolded" : "folded");
    this.follow(launch.index);
  }
}
