import { button, h } from "./dom.js";
import type { KeyRows } from "./spec.js";
import { VIEWS } from "./stage.js";
import type { Panel } from "./state.js";

/** The keys that open views. */
const SHORTCUTS: KeyRows = VIEWS.flatMap(({ shortcut, title }) =>
  shortcut === null ? [] : [[shortcut, `${VIEWS[0]?.title} or ${title}`.toLowerCase()]],
);

/** Keys by the place that has the focus; they take precedence over those of the whole panel. */
const KEYS: readonly (readonly [string, KeyRows])[] = [
  [
    "In the whole panel",
    [
      ["/", "search"],
      ["j  k", "next, previous finding in the list"],
      ["←  →", "previous, next launch, also in the backward pass; a fold in the lanes is one step"],
      ["p", "play, pause"],
      ["w  Shift+W", "go to the launch that wrote this value; go back to the one that read it"],
      ["[  ]", "back, forward through the selections"],
      ...SHORTCUTS,
      ["f", "show everything"],
      ["+  −", "zoom in, out"],
      ["Esc", "clear the selection, or close this help"],
      ["?", "this help"],
    ],
  ],
  ...VIEWS.map(({ name, keys }) => [`In ${name}`, keys] as const),
  [
    "In the source",
    [
      ["↑  ↓", "from line to line"],
      ["Enter", "show or hide the adjoint generated for the line"],
    ],
  ],
  [
    "In the mask",
    [
      ["↑  ↓  ←  →", "from pair to pair"],
      ["Space", "switch on, off"],
      ["Enter", "open the Jacobian"],
    ],
  ],
  [
    "In the maps of a Jacobian",
    [
      ["↑  ↓  ←  →", "from entry to entry"],
      ["Home", "the worst entry"],
    ],
  ],
  [
    "With the pointer",
    [
      ["click", "select a launch, a read or write, a version; fold or unfold a band"],
      ["drag", "pan"],
      ["Ctrl + wheel", "zoom at the pointer"],
    ],
  ],
];

/** Return the help dialog. The focus stays in it until it is closed, and then returns to where it was. */
export function buildHelp(panel: Panel): HTMLElement {
  const row = ([key, text]: KeyRows[number]): HTMLElement =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, ...key.split("  ").flatMap((one) => [h("kbd", {}, one), " "])),
      h("td", {}, text),
    );
  const groups = KEYS.map(([where, rows]) =>
    h("tbody", {}, h("tr", {}, h("th", { scope: "rowgroup", colspan: 2 }, where)), ...rows.map(row)),
  );
  const close = button("Close", () => panel.view.set({ help: false }), { class: "td-button" });
  const element = h(
    "div",
    {
      class: "td-help",
      role: "dialog",
      "aria-modal": "true",
      "aria-label": "Keyboard and pointer",
      tabindex: -1,
      hidden: true,
    },
    h("div", { class: "td-help-head" }, h("h2", {}, "Keyboard and pointer"), close),
    h("table", {}, ...groups),
    h("p", { class: "td-empty" }, "Keys work while the focus is in the panel, but not in a text field."),
  );
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    event.preventDefault(); // the close button is the only thing to focus
    close.focus();
  });
  panel.lifetime.listen(panel.root, "focusin", (event) => {
    if (!element.hidden && event.target instanceof Node && !element.contains(event.target)) close.focus();
  });
  let before: Element | null = null;
  panel.lifetime.add(
    panel.view.subscribe((changed) => {
      if (!changed.has("help")) return;
      const open = panel.view.get("help");
      element.hidden = !open;
      if (open) {
        before = document.activeElement;
        close.focus();
      } else if (before instanceof HTMLElement) before.focus();
    }),
  );
  return element;
}
