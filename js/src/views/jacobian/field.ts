/**
 * A row or a column of a Jacobian as the field that it is over: the gradient of one output by an input of 32 × 32 elements is a
 * picture of 32 × 32, not a line of 1,024; and so is the change of such an output by one input.
 */

import { type HeatColours, readHeat } from "../colormap.js";
import { h, replace } from "../dom.js";
import { short } from "../format.js";
import { type Palette, readPalette } from "../lanes/palette.js";
import type { Panel } from "../state.js";
import { MAPS, type MapName } from "./colours.js";
import { type Cells, entryName, type Jacobian, NOTHING_KNOWN, type Side } from "./data.js";
import { mapTitle } from "./maps.js";
import { paintMap } from "./paint.js";
import type { JacobianSource } from "./source.js";

/** Which line of the Jacobian: the derivatives of one output by all inputs, or of all outputs by one input. */
interface Line {
  readonly along: "row" | "column";
  readonly index: number;
}

/** Rows and columns of the picture of a side; null where it is no field. */
export function fieldShape({ shape, suffixes }: Side): readonly [number, number] | null {
  const across = shape.at(-1) ?? 0;
  const down = shape.slice(0, -1).reduce((product, size) => product * size, 1);
  return shape.length >= 2 && across > 1 && down > 1 ? [down, across * suffixes.length] : null;
}

/** The lines that are fields: of the entry that is pointed at, else of the worst one. */
export function linesOf(jacobian: Jacobian, cursor: { row: number; column: number } | null): Line[] {
  const at = cursor ?? jacobian.worst[0] ?? { row: 0, column: 0 };
  const lines: Line[] = [];
  if (fieldShape(jacobian.input)) lines.push({ along: "row", index: at.row });
  if (fieldShape(jacobian.output)) lines.push({ along: "column", index: at.column });
  return lines;
}

/** The cells of a line, laid out as its field; null where the cells at hand stand for several entries, or do not have it. */
export function fieldCells(cells: Cells, line: Line, [height, width]: readonly [number, number]): Cells | null {
  const row = line.along === "row";
  const [from, to] = row ? cells.rows : cells.columns;
  const whole = row ? cells.columns : cells.rows;
  if (cells.pooled || line.index < from || line.index >= to || whole[0] !== 0 || whole[1] !== height * width)
    return null;
  const start = row ? (line.index - from) * cells.width : line.index - from;
  const step = row ? 1 : cells.width;
  const places = Array.from({ length: height * width }, (_, i) => start + i * step);
  const take = (values: Float64Array): Float64Array => Float64Array.from(places, (at) => values[at] as number);
  return {
    rows: [0, height],
    columns: [0, width],
    height,
    width,
    ad: take(cells.ad),
    fd: take(cells.fd),
    error: take(cells.error),
    bar: take(cells.bar),
    reference: cells.reference ? take(cells.reference) : null,
    row: Int32Array.from(places, (at) => cells.row[at] as number),
    column: Int32Array.from(places, (at) => cells.column[at] as number),
    known: Uint8Array.from(places, (at) => cells.known[at] as number),
    pooled: null,
  };
}

function fieldTitle(jacobian: Jacobian, { along, index }: Line): string {
  const whole = jacobian.pair[0] === null;
  const output = along === "column" || whole ? jacobian.output.name : entryName(jacobian.output, index);
  const input = along === "row" ? jacobian.input.name : entryName(jacobian.input, index);
  return `∂ ${short(output, 30)} / ∂ ${short(input, 30)} as a field`;
}

const MAX_RATIO = 2;
const LARGEST = 16;
const HIGHEST = 260;

/** Fields of the shown Jacobian, below its maps; empty if neither side is a field. */
export function buildFields(panel: Panel, source: JacobianSource): HTMLElement {
  const element = h("div", { class: "td-jac-fields" });
  let shown: readonly unknown[] = [];
  let painters: (() => void)[] = [];
  const paint = (): void => {
    for (const one of painters) one();
  };
  const update = (): void => {
    const { jacobian, cursor, lines } = source.value;
    const wanted = jacobian?.cells ? linesOf(jacobian, cursor) : [];
    const state = [jacobian, lines, JSON.stringify(wanted)];
    if (jacobian && state.some((part, i) => part !== shown[i])) {
      shown = state;
      const figures = wanted.flatMap((line) => {
        const shape = fieldShape(line.along === "row" ? jacobian.input : jacobian.output);
        if (!shape) return [];
        for (const cells of [jacobian.cells, ...lines]) {
          const found = cells ? fieldCells(cells, line, shape) : null;
          if (found) return [fieldFigure(panel, source, jacobian, line, found, shape)];
        }
        source.wantLine(line);
        return [];
      });
      painters = figures.map((figure) => figure.paint);
      replace(element, ...figures.map((figure) => figure.element));
    }
    paint();
  };
  update();
  panel.lifetime.add(source.subscribe(update));
  const resize = new ResizeObserver(paint);
  resize.observe(element);
  panel.lifetime.add(() => resize.disconnect());
  const theme = new MutationObserver(() => window.setTimeout(paint, 50));
  theme.observe(panel.root, { attributes: true, attributeFilter: ["data-td-theme"] });
  panel.lifetime.add(() => theme.disconnect());
  return element;
}

function fieldFigure(
  panel: Panel,
  source: JacobianSource,
  jacobian: Jacobian,
  line: Line,
  cells: Cells,
  shape: readonly [number, number],
): { element: HTMLElement; paint(): void } {
  const title = fieldTitle(jacobian, line);
  // the other maps of a gradient that was checked along a few directions would be hatched all over
  const maps = MAPS.filter(
    (map) => map === "ad" || cells.known.some((known, i) => known !== NOTHING_KNOWN && !Number.isNaN(cells[map][i])),
  );
  const canvases = maps.map((map) => ({
    map,
    canvas: h("canvas", {
      class: "td-jac-canvas",
      role: "img",
      "aria-label": `${mapTitle(map, jacobian)} of ${title}, ${shape[0]} by ${shape[1]}`,
    }),
  }));
  for (const { canvas } of canvases) {
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const y = Math.min(shape[0] - 1, Math.floor((shape[0] * (event.clientY - box.top)) / Math.max(1, box.height)));
      const x = Math.min(shape[1] - 1, Math.floor((shape[1] * (event.clientX - box.left)) / Math.max(1, box.width)));
      const flat = Math.max(0, y) * shape[1] + Math.max(0, x);
      if (line.along === "row") source.point(line.index, flat);
      else source.point(flat, line.index);
    });
  }
  const figures = canvases.map(({ map, canvas }) =>
    h("figure", { class: "td-jac-map", "data-map": map }, h("figcaption", {}, mapTitle(map, jacobian)), canvas),
  );
  const element = h(
    "section",
    { class: "td-jac-field" },
    h("h3", {}, title),
    h("div", { class: "td-jac-maps" }, ...figures),
  );
  const flatOf = (at: { row: number; column: number } | null | undefined): { row: number; column: number } | null => {
    if (!at || (line.along === "row" ? at.row : at.column) !== line.index) return null;
    const flat = line.along === "row" ? at.column : at.row;
    return { row: Math.floor(flat / shape[1]), column: flat % shape[1] };
  };
  const side = line.along === "row" ? jacobian.input : jacobian.output;
  const paint = (): void => {
    const palette: Palette = readPalette(panel.root);
    const colours: HeatColours | null = readHeat(panel.root);
    const room = figures[0]?.clientWidth ?? 0;
    if (!colours || room === 0) return;
    const across = Math.min(LARGEST, room / shape[1], HIGHEST / shape[0]);
    const ratio = Math.min(MAX_RATIO, window.devicePixelRatio || 1);
    for (const { map, canvas } of canvases) {
      const [wide, high] = [Math.max(8, across * shape[1]), Math.max(8, across * shape[0])];
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${high}px`;
      paintMap(canvas, map as MapName, {
        layers: [cells],
        window: { top: 0, left: 0, height: shape[0], width: shape[1] },
        output: { name: "", shape: [shape[0]], suffixes: [""] },
        input: { name: "", shape: [shape[1] / side.suffixes.length], suffixes: side.suffixes },
        scale: jacobian.scale,
        colours,
        palette,
        worst: jacobian.verdict === "AGREE" ? null : flatOf(jacobian.worst[0]),
        cursor: flatOf(source.value.cursor),
        ratio,
      });
    }
  };
  requestAnimationFrame(paint);
  return { element, paint };
}
