import { h, replace } from "../dom.js";

/** A small box of text beside the pointer, kept within the lanes. */
export class Tooltip {
  readonly element = h("div", { class: "td-tip", role: "tooltip", hidden: true });

  hide(): void {
    this.element.hidden = true;
  }

  show(lines: readonly string[], px: number, py: number, width: number, height: number): void {
    const { element } = this;
    element.hidden = false;
    replace(element, ...lines.map((line, i) => h("div", { class: i === 0 ? "td-tip-title" : null }, line)));
    const left = Math.max(4, Math.min(width - element.offsetWidth - 4, px + 12));
    const below = py + 16 + element.offsetHeight < height;
    element.style.left = `${left}px`;
    element.style.top = `${below ? py + 16 : Math.max(2, py - element.offsetHeight - 10)}px`;
  }
}
