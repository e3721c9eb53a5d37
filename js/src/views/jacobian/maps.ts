/** AD, FD and error side by side: three canvases over one window, moved by wheel, drag, buttons and keys. */

import { type HeatColours, readHeat } from "../colormap.js";
import { button, h } from "../dom.js";
import { short } from "../format.js";
import { type Palette, readPalette } from "../lanes/palette.js";
import { bindPointer } from "../lanes/pointer.js";
import type { Panel } from "../state.js";
import { MAPS, type MapName } from "./colours.js";
import type { Jacobian } from "./data.js";
import { paintMap, type Scene } from "./paint.js";
import { cursorText } from "./readout.js";
import type { JacobianSource } from "./source.js";

const MAX_RATIO = 2;
/** Pixels of an entry at the most. */
const LARGEST = 26;
const LARGEST_WIDE = 44;
const STEP = 1.6;

/** Keys that the maps take for themselves; see `keyboard.ts`. */
const KEYS = "ArrowLeft ArrowRight ArrowUp ArrowDown PageUp PageDown + = - f Home";

const TITLES: Readonly<Record<MapName, string>> = { ad: "AD", fd: "FD", error: "|error|" };

export function mapTitle(map: MapName, jacobian: Jacobian): string {
  if (map === "error") return jacobian.against === "FD" ? "|AD − FD|" : "|AD − float64|";
  return TITLES[map];
}

export function buildMaps(panel: Panel, source: JacobianSource, wide: boolean): HTMLElement {
  const canvases = new Map(MAPS.map((map) => [map, h("canvas", { class: "td-jac-canvas", "aria-hidden": "true" })]));
  const titles = new Map(MAPS.map((map) => [map, h("figcaption", {}, TITLES[map])]));
  const figures = MAPS.map((map) =>
    h("figure", { class: "td-jac-map", "data-map": map }, titles.get(map), canvases.get(map)),
  );
  const group = h(
    "div",
    {
      class: "td-jac-maps",
      role: "application",
      tabindex: 0,
      "data-td-keys": KEYS,
      "aria-roledescription": "heat maps",
    },
    ...figures,
  );
  const readout = h("p", { class: "td-jac-readout" });
  const painter = new Painter(panel, source, canvases, wide);
  const update = (): void => {
    const { jacobian } = source.value;
    if (!jacobian) return;
    group.setAttribute("aria-label", label(jacobian));
    for (const [map, title] of titles) title.textContent = mapTitle(map, jacobian);
    readout.textContent = cursorText(source) || "Point at an entry, or use the arrow keys.";
    painter.invalidate();
  };
  update();
  panel.lifetime.add(source.subscribe(update));
  for (const canvas of canvases.values()) bind(panel, source, canvas, group);
  panel.lifetime.listen(group, "keydown", (event) => onKey(panel, source, event));
  return h("div", { class: "td-jac-box" }, tools(panel, source, wide), group, readout);
}

function label({ pair, shape }: Jacobian): string {
  const [, input, output] = pair;
  const what = `d ${short(output)} by d ${short(input)}, ${shape[0]} by ${shape[1]}`;
  return `AD, FD and error of ${what}. Arrow keys move from entry to entry, plus and minus zoom, f shows all, Home goes to the worst entry.`;
}

/** The layout of the canvases, painted at most once a frame. */
class Painter {
  private palette: Palette | null = null;
  private colours: HeatColours | null = null;
  private frame = 0;

  constructor(
    private readonly panel: Panel,
    private readonly source: JacobianSource,
    private readonly canvases: ReadonlyMap<MapName, HTMLCanvasElement>,
    private readonly wide: boolean,
  ) {
    const resize = new ResizeObserver(() => this.paint());
    for (const canvas of canvases.values()) if (canvas.parentElement) resize.observe(canvas.parentElement);
    // the theme is an attribute of the panel, and its style sheet may come later
    const theme = new MutationObserver(() => this.recolour());
    theme.observe(panel.root, { attributes: true, attributeFilter: ["data-td-theme"] });
    panel.lifetime.add(() => resize.disconnect());
    panel.lifetime.add(() => theme.disconnect());
    panel.lifetime.add(() => cancelAnimationFrame(this.frame));
  }

  invalidate(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  private recolour(): void {
    this.palette = this.colours = null;
    this.invalidate();
    window.setTimeout(() => {
      this.palette = this.colours = null;
      this.invalidate();
    }, 400);
  }

  private paint(): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { jacobian, detail, window: seen, cursor } = this.source.value;
    if (!jacobian?.cells) return;
    this.palette ??= readPalette(this.panel.root);
    this.colours ??= readHeat(this.panel.root);
    if (!this.colours) return;
    const ratio = Math.min(MAX_RATIO, window.devicePixelRatio || 1);
    const worst = jacobian.worst[0];
    const scene: Scene = {
      layers: detail ? [jacobian.cells, detail] : [jacobian.cells],
      window: seen,
      output: jacobian.output,
      input: jacobian.input,
      scale: jacobian.scale,
      colours: this.colours,
      palette: this.palette,
      worst: worst && jacobian.verdict !== "AGREE" ? worst : null,
      cursor,
      ratio,
    };
    const size = this.size(jacobian);
    if (size === null) return;
    for (const [map, canvas] of this.canvases) {
      const [wide, high] = [Math.round(size.width * ratio), Math.round(size.height * ratio)];
      if (canvas.width !== wide || canvas.height !== high) {
        canvas.width = wide;
        canvas.height = high;
        canvas.style.width = `${size.width}px`;
        canvas.style.height = `${size.height}px`;
      }
      paintMap(canvas, map, scene);
    }
  }

  /** As large as the room is, but a small Jacobian in cells that are no larger than they need be. */
  private size({ shape }: Jacobian): { width: number; height: number } | null {
    const figure = this.canvases.get("ad")?.parentElement;
    const room = figure?.clientWidth ?? 0;
    if (room === 0) return null;
    const across = Math.min(this.wide ? LARGEST_WIDE : LARGEST, room / shape[1]);
    const width = Math.max(Math.min(room, 24), Math.floor(across * shape[1]));
    const height = Math.min(this.wide ? 420 : 220, Math.floor(across * shape[0])); // square cells, where they fit
    return { width, height: Math.max(24, height) };
  }
}

function bind(panel: Panel, source: JacobianSource, canvas: HTMLCanvasElement, group: HTMLElement): void {
  let last = { px: 0, py: 0 };
  const at = (px: number, py: number): [number, number] => {
    const { window: seen } = source.value;
    const { clientWidth, clientHeight } = canvas;
    return [
      seen.top + (py / Math.max(1, clientHeight)) * seen.height,
      seen.left + (px / Math.max(1, clientWidth)) * seen.width,
    ];
  };
  const point = (px: number, py: number): void => {
    const [row, column] = at(px, py);
    const [rows, columns] = source.shape;
    if (row < 0 || column < 0 || row >= rows || column >= columns) source.point(null, null);
    else source.point(Math.floor(row), Math.floor(column));
  };
  bindPointer(canvas, panel.lifetime, {
    hover: (px, py) => {
      last = { px, py };
      point(px, py);
    },
    leave: () => {
      // the entry stays named after the pointer leaves the map, so that its buttons can be used
    },
    click: (px, py) => {
      last = { px, py };
      point(px, py);
      group.focus({ preventScroll: true });
    },
    doubleClick: (px, py) => source.zoom(2, ...at(px, py)),
    pan: (dx, dy) => {
      const { window: seen } = source.value;
      return source.pan(
        (dy / Math.max(1, canvas.clientHeight)) * seen.height,
        (dx / Math.max(1, canvas.clientWidth)) * seen.width,
      );
    },
    zoom: (factor, px) => source.zoom(factor, ...at(px, last.py)),
  });
}

function onKey(panel: Panel, source: JacobianSource, event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { jacobian } = source.value;
  if (!jacobian) return;
  const element = event.shiftKey;
  const down = element ? jacobian.output.suffixes.length : 1;
  const across = element ? jacobian.input.suffixes.length : 1;
  const moves: Readonly<Record<string, () => void>> = {
    ArrowUp: () => source.step(-down, 0),
    ArrowDown: () => source.step(down, 0),
    ArrowLeft: () => source.step(0, -across),
    ArrowRight: () => source.step(0, across),
    PageUp: () => source.step(-Math.max(1, Math.round(source.value.window.height / 2)), 0),
    PageDown: () => source.step(Math.max(1, Math.round(source.value.window.height / 2)), 0),
    Home: () => goToWorst(panel, source),
  };
  const move = moves[event.key];
  const zoom = event.key === "+" || event.key === "=" ? STEP : event.key === "-" ? 1 / STEP : 0;
  if (!move && zoom === 0 && event.key !== "f") return;
  event.preventDefault();
  event.stopPropagation();
  if (move) {
    move();
    panel.announce(cursorText(source));
  } else if (zoom > 0) {
    const { cursor } = source.value;
    if (cursor) source.zoom(zoom, cursor.row + 0.5, cursor.column + 0.5);
    else source.zoom(zoom);
  } else source.fit();
}

function goToWorst(panel: Panel, source: JacobianSource): void {
  const worst = source.value.jacobian?.worst[0];
  if (!worst) return;
  source.goTo(worst.row, worst.column);
  panel.announce(`worst entry: ${cursorText(source)}`);
}

function tools(panel: Panel, source: JacobianSource, wide: boolean): HTMLElement {
  const worst = button("worst entry", () => goToWorst(panel, source), {
    class: "td-button td-jac-worst",
    title: "go to the entry with the largest error (Home)",
  });
  const update = (): void => {
    worst.disabled = (source.value.jacobian?.worst.length ?? 0) === 0;
  };
  update();
  panel.lifetime.add(source.subscribe(update));
  const expand = button(
    wide ? "back to the lanes" : "enlarge",
    () => panel.view.set({ wide: !panel.view.get("wide") }),
    {
      class: "td-button td-jac-expand",
      title: wide ? "show the maps in the inspector again" : "show the maps in the middle column",
    },
  );
  return h(
    "div",
    { class: "td-jac-tools" },
    worst,
    h(
      "span",
      { class: "td-jac-zoom", role: "group", "aria-label": "Zoom of the maps" },
      button("−", () => source.zoom(1 / STEP), { class: "td-button", name: "zoom out", title: "zoom out (−)" }),
      button("+", () => source.zoom(STEP), {
        class: "td-button",
        name: "zoom in",
        title: "zoom in (+, or ctrl and wheel)",
      }),
      button("fit", () => source.fit(), { class: "td-button", title: "show all of it (f)" }),
    ),
    expand,
  );
}
