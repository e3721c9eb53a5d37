import { button, h } from "./dom.js";
import type { Panel } from "./state.js";

const KEYS: readonly (readonly [string, string])[] = [
  ["/", "search"],
  ["j  k", "next, previous finding"],
  ["←  →", "one launch back, on (through the backward pass too)"],
  ["w", "who wrote this?"],
  ["f", "show the whole tape"],
  ["+  −", "zoom in, out"],
  ["Esc", "clear the selection, close this"],
  ["?", "this help"],
];

const POINTER: readonly (readonly [string, string])[] = [
  ["click", "choose a launch, a read or write, a version; fold or unfold a band"],
  ["drag", "pan"],
  ["Ctrl + wheel", "zoom about the pointer"],
];

export function buildHelp(panel: Panel): HTMLElement {
  const rows = (list: typeof KEYS): HTMLElement[] =>
    list.map(([key, text]) => h("tr", {}, h("th", { scope: "row" }, h("kbd", {}, key)), h("td", {}, text)));
  const close = button("Close", () => panel.view.set({ help: false }), { class: "td-button" });
  const element = h(
    "div",
    { class: "td-help", role: "dialog", "aria-label": "Keyboard and pointer", tabindex: -1, hidden: true },
    h("h2", {}, "Keyboard and pointer"),
    h("table", {}, h("tbody", {}, ...rows(KEYS), ...rows(POINTER))),
    close,
  );
  let before: Element | null = null;
  panel.lifetime.add(
    panel.view.subscribe((changed) => {
      if (!changed.has("help")) return;
      element.hidden = !panel.view.get("help");
      if (!element.hidden) {
        before = document.activeElement;
        close.focus();
      } else if (before instanceof HTMLElement) before.focus();
    }),
  );
  return element;
}
