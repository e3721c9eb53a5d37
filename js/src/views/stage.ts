/** The middle of the panel: one tab for each view of the tape. The scrubber below belongs to all of them. */

import { withChunk } from "./chunks.js";
import { button, h, replace } from "./dom.js";
import type { LoadedView, Sign, View, ViewContent, ViewSpec } from "./spec.js";
import type { Panel, ViewKey } from "./state.js";
import * as list from "./views.js";

/** The views in the order of their tabs. */
export const VIEWS: readonly ViewSpec[] = Object.values<ViewSpec>(list).sort((a, b) => a.rank - b.rank);

/** Milliseconds after which a view that does not arrive gets an explanation. */
const LATE = 4_000;
let panels = 0;

/** The views of one panel, of which one is shown. */
export class Stage {
  private readonly views: ReadonlyMap<string, View>;
  /** The tabs, and below them the views. */
  readonly elements: readonly HTMLElement[];

  constructor(private readonly panel: Panel) {
    this.views = new Map(
      VIEWS.map((spec) => [spec.key, "make" in spec ? spec.make(panel) : new ViewShell(panel, spec)]),
    );
    this.elements = [this.tabs(), ...[...this.views.values()].map(({ element }) => element)];
  }

  get shown(): View {
    return this.views.get(this.panel.view.get("main")) as View;
  }

  /** How many arrays the filters of the panel hide. */
  get hidden(): number {
    return Math.max(0, ...[...this.views.values()].map(({ hidden }) => hidden ?? 0));
  }

  /** Opens a view; the first one if it is open already. */
  toggle(key: string): void {
    const { view } = this.panel;
    view.set({ main: (view.get("main") === key ? VIEWS[0]?.key : key) as ViewKey });
  }

  reveal(launches: readonly number[], array: number | null): void {
    for (const view of this.views.values()) view.reveal?.(launches, array);
  }

  follow(launch: number): void {
    for (const view of this.views.values()) view.follow?.(launch);
  }

  recolour(now: boolean): void {
    for (const view of this.views.values()) view.recolour?.(now);
  }

  private tabs(): HTMLElement {
    const { view, lifetime } = this.panel;
    const id = `td-stage-${++panels}`;
    const tabs = VIEWS.map(({ key, title, shortcut }) => {
      const body = (this.views.get(key) as View).element;
      body.id = `${id}-${key}`;
      body.setAttribute("role", "tabpanel");
      const tab = button(title, () => view.set({ main: key as ViewKey }), {
        class: "td-stagetab",
        role: "tab",
        id: `${id}-${key}-tab`,
        "aria-controls": body.id,
        title: shortcut === null ? title : `${title} (${shortcut})`,
      });
      body.setAttribute("aria-labelledby", tab.id);
      return tab;
    });
    const update = (): void => {
      // the focus follows from a tab, or from a view that is hidden now, to the tab of the view that is shown
      const focused = document.activeElement;
      const moves = tabs.some((tab, i) => {
        const body = (this.views.get(VIEWS[i]?.key as string) as View).element;
        return tab === focused || (!body.hidden && body.contains(focused) && VIEWS[i]?.key !== view.get("main"));
      });
      for (const [i, { key }] of VIEWS.entries()) {
        const chosen = view.get("main") === key;
        tabs[i]?.setAttribute("aria-selected", String(chosen));
        tabs[i]?.setAttribute("tabindex", chosen ? "0" : "-1");
        (this.views.get(key) as View).element.hidden = !chosen;
        if (chosen && moves) tabs[i]?.focus({ preventScroll: true });
      }
    };
    update();
    lifetime.add(view.subscribe((changed) => changed.has("main") && update()));
    const list = h(
      "div",
      { class: "td-tabs td-stage-tabs", role: "tablist", "aria-label": "View of the tape" },
      ...tabs,
    );
    lifetime.listen(list, "keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -VIEWS.length, End: VIEWS.length }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      const now = VIEWS.findIndex(({ key }) => key === view.get("main"));
      const next = Math.max(0, Math.min(VIEWS.length - 1, now + step));
      view.set({ main: VIEWS[next]?.key as ViewKey });
      tabs[next]?.focus();
    });
    return list;
  }
}

/** Passes the legend of a view on, as soon as its code is loaded. */
export function withLegend(panel: Panel, spec: ViewSpec, show: (signs: readonly Sign[]) => void): void {
  if ("make" in spec) show(spec.legend(panel.model));
  // a view that cannot be loaded shows the reason itself
  else
    withChunk(
      panel,
      spec.chunk,
      ({ legend }) => show(legend(panel.model)),
      () => undefined,
    );
}

/** A view whose code is loaded when it is first opened. */
class ViewShell implements View {
  readonly element: HTMLElement;
  private content: ViewContent | null = null;
  private requested = false;

  constructor(
    private readonly panel: Panel,
    private readonly spec: LoadedView,
  ) {
    this.element = h("section", { class: `td-${spec.key}`, "aria-label": spec.title });
    const open = (): void => {
      if (panel.view.get("main") === spec.key && !this.requested) this.open();
    };
    open();
    panel.lifetime.add(panel.view.subscribe((changed) => changed.has("main") && open()));
  }

  fit(): void {
    this.content?.fit();
  }

  zoom(factor: number): void {
    this.content?.zoom(factor);
  }

  key(event: KeyboardEvent): boolean {
    return this.content?.key(event) ?? false;
  }

  reveal(launches: readonly number[], array: number | null): void {
    this.content?.reveal?.(launches, array);
  }

  follow(launch: number): void {
    this.content?.follow?.(launch);
  }

  recolour(now: boolean): void {
    this.content?.recolour?.(now);
  }

  private open(): void {
    const { panel, element } = this;
    const { name, chunk } = this.spec;
    const say = (text: string): void => replace(element, h("p", { class: "td-hint", role: "status" }, text));
    this.requested = true;
    say(`Loading ${name} …`);
    const busy = `The kernel is busy or gone. ${capital(name)} will appear when it answers.`;
    const late = setTimeout(() => say(busy), LATE);
    panel.lifetime.add(() => clearTimeout(late));
    withChunk(
      panel,
      chunk,
      (code) => {
        clearTimeout(late);
        replace(element);
        this.content = code.view(panel, element);
      },
      (why) => {
        clearTimeout(late);
        this.requested = false; // requested again when it is opened again
        say(`${capital(name)} could not be loaded. ${why}`);
      },
    );
  }
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
