/** The Jacobians in a report, for print: three small maps each, and the worst entry in words. */
import type { EmbeddedAnswers } from "../../trace/embeddedAnswers.js";
import type { TraceModel } from "../../trace/model.js";
import type { MaskEntry, Question } from "../../trace/store.js";
import { readHeat } from "../colormap.js";
import { type Child, h, link } from "../dom.js";
import { number, plural, short } from "../format.js";
import { MAPS, type MapName } from "../jacobian/colours.js";
import { entryNumbers, type Jacobian, readJacobian } from "../jacobian/data.js";
import { mapTitle } from "../jacobian/maps.js";
import { paintMap, type Scene } from "../jacobian/paint.js";
import { evaluation, legend } from "../jacobian/view.js";
import { whole } from "../jacobian/window.js";
import { readPalette } from "../lanes/palette.js";
import { launchName } from "../phrases.js";
import { section, verdictSign } from "./account.js";

/** Python embeds fewer; a file that was edited may have more. */
const MOST = 40;
/** Pixels of an entry, and of a map. */
const LARGEST = 18;
const WIDEST = 260;
const HIGHEST = 170;
const LEAST = 24;
/** Canvas pixels for one of the page: paper is finer than most screens. */
const RATIO = 2;

export interface Pictures {
  readonly element: Child;
  /** Paints all maps in the colours that `root` has now. */
  paint(root: HTMLElement): void;
}

/** `open` shows a pair in the panel; null if there is none to show it. */
export function jacobianPictures(
  model: TraceModel,
  answers: EmbeddedAnswers,
  open: ((pair: MaskEntry) => void) | null,
): Pictures {
  const asked = answers.questions.map(pairOf).filter((pair) => pair !== null);
  const painters: ((scene: PaintScheme) => void)[] = [];
  const figures = asked.slice(0, MOST).map((pair) => {
    try {
      const answer = answers.find({ type: "jacobian", launch: pair[0], input: pair[1], output: pair[2] });
      return answer && picture(model, readJacobian(pair, answer), open, painters);
    } catch {
      return h("p", { class: "td-empty" }, `The data of ${pairName(pair)} in this file is damaged.`);
    }
  });
  const more = asked.length - MOST;
  return {
    element:
      asked.length === 0
        ? null
        : section(
            "Jacobians",
            h("p", {}, "AD is the result of the kernel's adjoint, FD that of finite differences."),
            ...figures,
            more > 0 ? h("p", { class: "td-empty" }, `and ${plural(more, "more Jacobian")}, not shown`) : null,
          ),
    paint: (root) => {
      const colours = readHeat(root);
      const palette = readPalette(root);
      if (colours) for (const paint of painters) paint({ colours, palette });
    },
  };
}

type PaintScheme = Pick<Scene, "colours" | "palette">;

/** The pair of a question about all of a Jacobian. */
function pairOf({ type, launch, input, output, ...rest }: Question): MaskEntry | null {
  if (type !== "jacobian" || Object.keys(rest).length > 0) return null;
  if (typeof input !== "string" || typeof output !== "string") return null;
  return launch === null || typeof launch === "number" ? [launch, input, output] : null;
}

function pairName([, input, output]: MaskEntry): string {
  return `∂ ${short(output, 40)} / ∂ ${short(input, 40)}`;
}

function picture(
  model: TraceModel,
  jacobian: Jacobian,
  open: ((pair: MaskEntry) => void) | null,
  painters: ((look: PaintScheme) => void)[],
): HTMLElement {
  const { pair, cells } = jacobian;
  const name = pairName(pair);
  const of = pair[0] === null ? "the whole tape" : launchName(model, pair[0]);
  const worst = worstText(jacobian);
  return h(
    "div",
    { class: "td-account-jac" },
    h(
      "h3",
      {},
      open ? link(name, () => open(pair), "show it in the panel") : name,
      " ",
      verdictSign(jacobian.verdict),
      h("span", { class: "td-account-of" }, ` of ${of}`),
    ),
    worst === "" ? null : h("p", { class: "td-account-worst" }, worst),
    cells ? maps(jacobian, `${name} of ${of}. ${worst}`, painters) : null,
    cells ? legend(jacobian) : null,
    h("p", { class: "td-empty" }, evaluation(jacobian)),
  );
}

/** "Worst entry: y[4].y by x[4].y: AD 2, FD 3 ± 1e-9, error 1. Written at net.py:12." */
function worstText({ worst: [worst], verdict, against, line }: Jacobian): string {
  if (!worst) return "";
  const which = verdict === "AGREE" ? "Largest error" : "Worst entry";
  const numbers = verdict === "AGREE" ? number(worst.error, 3) : entryNumbers(worst, against);
  const at = line ? ` Written at ${short(line.file.split(/[/\\]/).pop() ?? "", 60)}:${line.line}.` : "";
  return `${which}: ${short(worst.output, 80)} by ${short(worst.input, 80)}: ${numbers}.${at}`;
}

function maps(jacobian: Jacobian, label: string, painters: ((look: PaintScheme) => void)[]): HTMLElement {
  const [rows, columns] = jacobian.shape;
  const across = Math.min(LARGEST, WIDEST / Math.max(1, columns));
  const width = Math.max(LEAST, Math.floor(across * columns));
  const height = Math.max(LEAST, Math.min(HIGHEST, Math.floor(across * rows)));
  const map = (which: MapName): HTMLElement => {
    const canvas = h("canvas", { class: "td-jac-canvas", width: width * RATIO, height: height * RATIO });
    canvas.style.width = `${width}px`;
    painters.push((look) => paintMap(canvas, which, sceneOf(jacobian, look)));
    return h("figure", { class: "td-jac-map" }, h("figcaption", {}, mapTitle(which, jacobian)), canvas);
  };
  return h("div", { class: "td-jac-maps", role: "img", "aria-label": `Heat maps of ${label}` }, ...MAPS.map(map));
}

function sceneOf(jacobian: Jacobian, look: PaintScheme): Scene {
  const { cells, shape, output, input, scale, verdict } = jacobian;
  return {
    ...look,
    layers: cells ? [cells] : [],
    window: whole(shape),
    output,
    input,
    scale,
    worst: verdict === "AGREE" ? null : (jacobian.worst[0] ?? null),
    cursor: null,
    ratio: RATIO,
  };
}
