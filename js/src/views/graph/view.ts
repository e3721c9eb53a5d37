/** The graph: the shown part of the tape as SVG, with pointer, keyboard and selection. */

import { evidenceLaunch } from "../../trace/model.js";
import { selectLaunch, selectVersion } from "../actions.js";
import { button, h, replace, svg } from "../dom.js";
import { plural } from "../format.js";
import { colourScale } from "../lanes/colourScale.js";
import { toggledScope, toggledSequence } from "../lanes/folds.js";
import { Tooltip } from "../lanes/tooltip.js";
import type { ViewContent } from "../spec.js";
import type { Panel } from "../state.js";
import { step } from "./arrowKeys.js";
import { buildPicture } from "./build.js";
import { type Box, Camera } from "./camera.js";
import { applyTint, tintOf } from "./colour.js";
import { bindControls, type Controls } from "./controls.js";
import { toDot } from "./dot.js";
import { BAND_PAD, type Drawing, draw } from "./draw.js";
import { Folding } from "./folding.js";
import { mark } from "./highlight.js";
import { type Layout, layoutGraph } from "./layout.js";
import { aroundVersion, neighbourhood } from "./neighbourhood.js";
import { canvasMeasure, layoutEdges, layoutNodes, type Shape, shapeOf } from "./nodeSize.js";
import { edgeLabel, nameOfVersion, portLabel, sentence, tooltip } from "./phrases.js";
import type { GraphEdge, GraphNode, LaunchNode, Picture } from "./picture.js";
import { bindPointer, type Target } from "./pointer.js";
import { SharedMemory } from "./sharedMemory.js";
import { versionFacts } from "./versionLookup.js";

/** The folded tape is shown as a whole up to so many nodes; on demand up to so many. */
const MOST_NODES = 60;
const MOST_ON_DEMAND = 240;
/** Boxes of a neighbourhood. */
const MOST_NEAR = 50;
const ZOOM_STEP = 1.25;

interface Shown {
  readonly picture: Picture;
  readonly layout: Layout;
  readonly shapes: ReadonlyMap<string, Shape>;
  readonly drawing: Drawing;
  readonly whole: boolean;
  readonly cut: boolean;
}

export class GraphView implements ViewContent {
  private readonly svg = svg("svg", { class: "td-g-svg", role: "group", tabindex: -1 });
  private readonly says = h("p", { class: "td-g-says" });
  private readonly tip = new Tooltip();
  private readonly stage: HTMLElement;
  private readonly camera = new Camera();
  private readonly controls: Controls;
  private memory: SharedMemory | null = null;
  private shown: Shown | null = null;
  private stale = true;
  private opened = false;
  private wanted: "auto" | "whole" | "near" = "auto";
  private hops = 2;
  private centre: { readonly launches: readonly number[]; readonly words: string } = { launches: [], words: "" };
  /** The node or band that has the keyboard focus. */
  private focused: string | null = null;

  constructor(
    private readonly panel: Panel,
    element: HTMLElement,
  ) {
    const { view, store, lifetime } = panel;
    this.controls = bindControls({
      whole: () => this.want("whole"),
      near: () => this.want("near"),
      hops: (hops) => this.setHops(hops),
      centre: () => this.recentre(),
      dot: () => this.dot(),
    });
    this.stage = h(
      "div",
      { class: "td-g-stage" },
      this.svg as unknown as HTMLElement,
      this.zoomButtons(),
      this.tip.element,
    );
    replace(element, this.controls.element, this.says, this.stage);
    bindPointer(this.svg, lifetime, {
      hover: (target, px, py) => this.onHover(target, px, py),
      leave: () => this.tip.hide(),
      click: (target) => this.onClick(target),
      doubleClick: (target) => this.onDoubleClick(target),
      pan: (dx, dy) => this.move(() => this.camera.pan(dx, dy)),
      zoom: (factor, px, py) => this.move(() => this.camera.zoom(factor, px, py)),
    });
    const resize = new ResizeObserver(() => this.measure());
    resize.observe(this.stage);
    lifetime.add(() => resize.disconnect());
    lifetime.add(
      view.subscribe((changed) => {
        const what = ["fold", "unfolded", "collapsed", "gradientOnly", "readOnly", "suspectOnly", "colour"] as const;
        if (what.some((key) => changed.has(key))) this.stale = true;
        this.refresh(changed.has("main"));
      }),
    );
    lifetime.add(store.subscribe((changed) => changed.has("selection") && this.onSelection()));
    this.refresh();
  }

  private get visible(): boolean {
    return this.panel.view.get("main") === "graph";
  }

  fit(): void {
    this.move(() => this.camera.fit());
  }

  zoom(factor: number): void {
    this.move(() => this.camera.zoom(factor));
  }

  key(event: KeyboardEvent): boolean {
    if (!(event.target instanceof Node) || !this.svg.contains(event.target) || !this.shown) return false;
    if (event.key === "Enter" || event.key === " ") {
      this.activate();
      return true;
    }
    if (!event.key.startsWith("Arrow") && event.key !== "Home") return false;
    const { picture, layout } = this.shown;
    const next = step(picture, layout, this.focused, event.key);
    if (next) {
      this.focus(next.key);
      if (next.edge) this.panel.announce(edgeLabel(this.panel.model, picture, next.edge));
    }
    return true;
  }

  // ------------------------------------------------------------------ what is shown

  private want(what: "whole" | "near"): void {
    this.wanted = what;
    if (what === "near") this.centre = this.centreOfSelection();
    this.stale = true;
    this.refresh(true);
    this.panel.announce(this.says.textContent ?? "");
  }

  private setHops(hops: number): void {
    this.hops = hops;
    this.want("near");
  }

  private recentre(): void {
    this.centre = this.centreOfSelection();
    this.stale = true;
    this.refresh(true);
  }

  /** The centre of the neighbourhood: the finding's launches, the launch, the version, else the worst finding. */
  private centreOfSelection(): { launches: readonly number[]; words: string } {
    const { model, store } = this.panel;
    const { launch, array, version, finding } = store.get("selection");
    const chosen = model.finding(finding);
    const pair = chosen ? [evidenceLaunch(chosen, "reader"), evidenceLaunch(chosen, "clobberer")] : [];
    const valid = [launch, ...pair].filter((at): at is number => at !== null && at < model.launchCount);
    if (valid.length > 0) {
      const launches = [...new Set(valid)];
      return { launches, words: `${launches.length > 1 ? "launches" : "launch"} ${launches.join(", ")}` };
    }
    const id = model.arrayId(array);
    const found = versionFacts(model, id, version) ?? versionFacts(model, id, 0);
    const around = found ? aroundVersion(found) : [];
    if (found && around.length > 0) {
      return { launches: around, words: nameOfVersion(model, found.array, found.version) };
    }
    const first = model.findings.find((f) => f.launches.length > 0)?.launches[0] ?? 0;
    return { launches: [first], words: `launch ${first} (nothing is chosen)` };
  }

  /** Redraws if the content has changed, and only while it is visible. */
  private refresh(open = false): void {
    if (!this.visible) return;
    if (this.stale) this.rebuild();
    this.mark();
    if (open || !this.opened) this.openCamera();
  }

  private rebuild(): void {
    const { model, view } = this.panel;
    this.stale = false;
    this.memory ??= new SharedMemory(model);
    const folding = new Folding(model, view.value);
    const whole = this.wholeTape(folding);
    if (!whole && this.centre.launches.length === 0) this.centre = this.centreOfSelection();
    const filter = view.value;
    const near = whole ? null : neighbourhood(folding, this.memory, this.centre.launches, this.hops, MOST_NEAR, filter);
    const picture = whole ?? buildPicture(folding, this.memory, near?.units ?? [], filter);
    const measure = canvasMeasure(getComputedStyle(this.panel.root).fontFamily || "sans-serif");
    const scale = colourScale(model, view.get("colour"));
    const tints = new Map([...picture.nodes].map(([key, node]) => [key, tintOf(model, scale, node)]));
    const shape = (node: GraphNode): Shape => shapeOf(node, measure, tints.get(node.key)?.text);
    const shapes = new Map([...picture.nodes].map(([key, node]) => [key, shape(node)]));
    const layout = layoutGraph(layoutNodes(picture, shapes), layoutEdges(picture, shapes));
    const drawing = draw(model, picture, layout, shapes);
    for (const [key, tint] of tints) if (tint) applyTint(drawing.nodes.get(key), tint);
    this.shown = { picture, layout, shapes, drawing, whole: whole !== null, cut: near?.cut ?? false };
    this.svg.replaceChildren(drawing.content);
    const deepest = Math.max(-1, ...layout.bands.map((band) => band.depth)) + 1;
    this.margin = deepest * BAND_PAD;
    this.camera.contain(layout.width + 2 * this.margin, layout.height + (deepest > 0 ? 12 : 0));
    this.opened = false;
    this.focused = picture.nodes.has(this.focused ?? "") ? this.focused : null;
    this.svg.setAttribute("aria-label", this.describe(picture));
  }

  private margin = 0;

  /** The picture of the whole tape, where it is small enough to be read. */
  private wholeTape(folding: Folding): Picture | null {
    const most = this.wanted === "whole" ? MOST_ON_DEMAND : MOST_NODES;
    const units = folding.all(MOST_ON_DEMAND);
    this.controls.wholePossible(units !== null);
    if (this.wanted === "near" || !units || units.length > most) return null;
    const picture = buildPicture(folding, this.memory as SharedMemory, units, this.panel.view.value);
    return picture.nodes.size <= most ? picture : null;
  }

  private describe(picture: Picture): string {
    const boxes = [...picture.nodes.values()].filter((node) => node.kind === "launch").length;
    const arrays = picture.nodes.size - boxes;
    return `Graph: ${plural(boxes, "launch", "launches")}, ${plural(arrays, "version")} of arrays, ${plural(picture.edges.length, "edge")}. Arrow keys walk along the edges, Enter chooses.`;
  }

  // ------------------------------------------------------------------ selection

  private onSelection(): void {
    if (!this.visible) {
      this.stale ||= this.shown !== null && !this.shown.whole && !this.holdsSelection();
      if (this.stale) this.centre = { launches: [], words: "" };
      return;
    }
    const away = this.shown !== null && !this.shown.whole && !this.holdsSelection();
    if (away) {
      this.centre = this.centreOfSelection();
      this.stale = true;
    }
    this.refresh(away);
    if (!away) this.revealChosen();
  }

  /** True if the selection is drawn. */
  private holdsSelection(): boolean {
    const { store, model } = this.panel;
    const { launch, array, version, finding } = store.get("selection");
    const picture = this.shown?.picture;
    if (!picture) return false;
    const chosen = model.finding(finding);
    const pair = chosen ? [evidenceLaunch(chosen, "reader"), evidenceLaunch(chosen, "clobberer")] : [];
    const launches = [launch, ...pair].filter((at): at is number => at !== null && at < model.launchCount);
    if (launches.length > 0) return launches.every((at) => picture.nodeOfLaunch(at) !== null);
    const id = model.arrayId(array);
    return id === null || picture.nodeOfVersion(id, version) !== null;
  }

  private chosenNode(): GraphNode | null {
    const { model, store, view } = this.panel;
    const { launch, array, version } = store.get("selection");
    const picture = this.shown?.picture;
    if (!picture) return null;
    const ofArray = picture.nodeOfVersion(model.arrayId(array), version);
    return view.get("tab") === "array" && ofArray ? ofArray : (picture.nodeOfLaunch(launch) ?? ofArray);
  }

  private mark(): void {
    const { shown, panel } = this;
    if (!shown) return;
    const { model, store, view } = panel;
    const backward = view.get("backward");
    mark(shown.picture, shown.drawing, model, store.get("selection"), backward);
    this.svg.classList.toggle("td-g-backward", backward);
    const words = { whole: shown.whole, hops: this.hops, cut: shown.cut, centre: this.centre.words, backward };
    replace(this.says, sentence(model, shown.picture, words));
    const centre = this.centreOfSelection();
    const elsewhere =
      centre.launches.some((at) => !this.centre.launches.includes(at)) && store.get("selection").launch !== null;
    this.controls.update({
      whole: shown.whole,
      hops: this.hops,
      centre: !shown.whole && elsewhere ? `Centre on ${centre.words}` : null,
    });
    const at = this.focused ?? this.chosenNode()?.key ?? [...shown.picture.nodes.keys()][0] ?? null;
    this.setTabStop(at);
  }

  // ------------------------------------------------------------------ camera

  private box(node: GraphNode): Box | null {
    const at = this.shown?.layout.nodes.get(node.key);
    const shape = this.shown?.shapes.get(node.key);
    return at && shape ? { x: at.x + this.margin, y: at.y, width: shape.width, height: shape.height } : null;
  }

  private revealChosen(): void {
    const chosen = this.chosenNode();
    const box = chosen && this.box(chosen);
    if (box) this.move(() => this.camera.reveal(box));
  }

  private openCamera(): void {
    if (!this.camera.ready || !this.shown) return;
    const chosen = this.chosenNode();
    this.opened = true;
    this.move(() => this.camera.open(chosen && this.box(chosen)));
  }

  private move<T>(act: () => T): T {
    const result = act();
    const { x, y, scale } = this.camera;
    const at = `translate(${x + this.margin * scale} ${y}) scale(${scale})`;
    this.shown?.drawing.content.setAttribute("transform", at);
    // Heads of bands stay in view.
    const left = -(x + this.margin * scale) / scale;
    for (const band of this.shown?.drawing.heads.values() ?? []) {
      const head = band.querySelector(".td-g-bandhead");
      const start = Number(head?.firstElementChild?.getAttribute("x"));
      head?.setAttribute("transform", `translate(${Math.max(0, left - start)} 0)`);
    }
    return result;
  }

  private measure(): void {
    const { clientWidth, clientHeight } = this.stage;
    if (clientWidth === 0 || clientHeight === 0) return; // hidden, or not laid out yet
    this.camera.resize(clientWidth, clientHeight);
    if (!this.opened) this.openCamera();
    else this.move(() => this.camera.pan(0, 0));
  }

  private zoomButtons(): HTMLElement {
    return h(
      "div",
      { class: "td-zoom", role: "group", "aria-label": "Zoom" },
      button("−", () => this.zoom(1 / ZOOM_STEP), { name: "zoom out", title: "zoom out (−)" }),
      button("+", () => this.zoom(ZOOM_STEP), { name: "zoom in", title: "zoom in (+)" }),
      button("fit", () => this.fit(), { title: "show everything that is drawn (f)" }),
    );
  }

  // ------------------------------------------------------------------ pointer and keyboard

  private elementOf(key: string): SVGElement | null {
    const drawing = this.shown?.drawing;
    return drawing?.nodes.get(key) ?? drawing?.heads.get(key)?.querySelector<SVGElement>(".td-g-bandhead") ?? null;
  }

  /** One element of the drawing is in the tab order: the one the keyboard is on. */
  private setTabStop(key: string | null): void {
    for (const element of this.svg.querySelectorAll("[tabindex='0']")) element.setAttribute("tabindex", "-1");
    this.focused = key;
    if (key !== null) this.elementOf(key)?.setAttribute("tabindex", "0");
  }

  private focus(key: string): void {
    this.setTabStop(key);
    const node = this.shown?.picture.nodes.get(key);
    const box = node && this.box(node);
    if (box) this.move(() => this.camera.reveal(box));
    this.elementOf(key)?.focus({ preventScroll: true });
  }

  private activate(): void {
    const { focused, shown } = this;
    if (focused === null || !shown) return;
    const node = shown.picture.nodes.get(focused);
    if (node) this.chooseNode(node);
    else this.toggleBand(focused);
    this.elementOf(focused)?.focus({ preventScroll: true });
  }

  private toggleBand(key: string): void {
    const { model, view } = this.panel;
    const launches = [...(this.shown?.picture.nodes.values() ?? [])].filter(
      (n): n is LaunchNode => n.kind === "launch",
    );
    const band = launches.flatMap((node) => node.bands).find((found) => found.key === key);
    if (band?.scope) view.set(toggledScope(band.scope, view.value));
    else if (band?.sequence) view.set(toggledSequence(model, band.sequence, view.value));
  }

  private chooseNode(node: GraphNode): void {
    const { model, view, store } = this.panel;
    this.focused = node.key;
    if (node.kind === "launch") {
      if (node.unit.scope) view.set(toggledScope(node.unit.scope, view.value));
      else selectLaunch(this.panel, this.launchOf(node), view.get("backward"));
      return;
    }
    // Of many versions the one that is chosen already stays.
    const { array, version: number_ } = store.get("selection");
    const already = node.members.find((m) => m.array === model.arrayId(array) && m.version === number_);
    const member = already ?? node.members[0];
    const version = member && model.version(member.array, member.version);
    if (version) selectVersion(this.panel, version);
  }

  /** Of the rounds that a box stands for the one that is chosen already, else the first. */
  private launchOf(node: LaunchNode): number {
    const { launch } = this.panel.store.get("selection");
    return launch !== null && this.shown?.picture.nodeOfLaunch(launch) === node ? launch : node.launch.index;
  }

  private chooseEnd(launch: number, array: number, version: number | null): void {
    selectLaunch(this.panel, launch, this.panel.view.get("backward"));
    this.panel.store.select({ array, version });
  }

  private onClick(target: Target | null): void {
    this.tip.hide();
    const { shown } = this;
    if (!target || !shown) return;
    const node = target.node === null ? undefined : shown.picture.nodes.get(target.node);
    const port = node?.kind === "launch" && target.port !== null ? node.ports[target.port] : undefined;
    if (node?.kind === "launch" && port) {
      this.focused = node.key;
      this.chooseEnd(
        node.unit.scope ? node.unit.first : this.launchOf(node),
        port.array,
        port.writeVersion ?? port.readVersion,
      );
    } else if (node) this.chooseNode(node);
    else if (target.edge !== null) {
      const edge = shown.picture.edges.find((found) => found.key === target.edge);
      if (edge) this.chooseEnd(edge.launch, edge.array, edge.version);
    } else if (target.band !== null && target.head) this.toggleBand(target.band);
    if (node) this.elementOf(node.key)?.focus({ preventScroll: true });
  }

  private onDoubleClick(target: Target | null): void {
    const node = target?.node ? this.shown?.picture.nodes.get(target.node) : undefined;
    if (node && !this.shown?.whole && !(node.kind === "launch" && node.unit.scope)) this.recentre();
  }

  private onHover(target: Target | null, px: number, py: number): void {
    const lines = target ? this.linesAt(target) : [];
    const { clientWidth, clientHeight } = this.stage;
    if (lines.length > 0) this.tip.show(lines, px, py, clientWidth, clientHeight);
    else this.tip.hide();
  }

  private linesAt(target: Target): string[] {
    const { model, view } = this.panel;
    const picture = this.shown?.picture;
    if (!picture) return [];
    const node = target.node === null ? undefined : picture.nodes.get(target.node);
    if (node?.kind === "launch" && target.port !== null) {
      const port = node.ports[target.port];
      return port ? [portLabel(model, node, port)] : [];
    }
    if (node) return tooltip(model, node, view.get("backward"));
    const edge: GraphEdge | undefined = picture.edges.find((found) => found.key === target.edge);
    return edge ? [edgeLabel(model, picture, edge)] : [];
  }

  /** The DOT text of what is shown, with a sentence that describes it. */
  private dot(): string {
    const { picture } = this.shown ?? {};
    if (!picture) return "";
    return toDot(picture, this.panel.model.trace.name || "tape", this.says.textContent ?? "");
  }
}
