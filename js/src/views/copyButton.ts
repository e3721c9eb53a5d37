/** A line of text to take along, with a button that copies it; where a page may not, the text is selected instead. */
import { button, h, replace } from "./dom.js";
import type { Panel } from "./state.js";

const SHOWN = 1_500;

export function copyButton(panel: Panel, text: string, name: string, from?: HTMLElement): HTMLButtonElement {
  const say = (words: string): void => {
    replace(element, words);
    panel.announce(words);
    window.setTimeout(() => replace(element, "copy"), SHOWN);
  };
  const element = button(
    "copy",
    () => {
      const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
      done.then(
        () => say("copied"),
        () => say(from && selectText(from) ? "selected: press Ctrl+C" : "copying is not allowed here"),
      );
    },
    { class: "td-copy", name, title: name },
  );
  return element;
}

/** Selects the text of an element, for the browser's own copy. */
function selectText(element: HTMLElement): boolean {
  const selection = window.getSelection();
  if (!selection) return false;
  const range = document.createRange();
  range.selectNodeContents(element);
  selection.removeAllRanges();
  selection.addRange(range);
  return true;
}

/** "Python: …" with a copy button. */
export function codeLine(panel: Panel, label: string, code: string): HTMLElement {
  const text = h("code", { class: "td-snippet", tabindex: 0 }, code);
  return h(
    "div",
    { class: "td-codeline" },
    h("span", { class: "td-label" }, label),
    text,
    copyButton(panel, code, `copy: ${code}`, text),
  );
}
