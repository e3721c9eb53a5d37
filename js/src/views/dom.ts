/** Elements without markup: every string becomes a text node or an attribute value, never HTML. */

type Attributes = Readonly<Record<string, string | number | boolean | null | undefined>>;
export type Child = Node | string | number | null | undefined | false;

/** Creates an element; attributes that are false, null or undefined are left out, true gives an empty one. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "number" ? String(child) : child);
  }
}

export function replace(element: Element, ...children: readonly Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** A push button. `name` is what a screen reader says where the text is a mere sign. */
export function button(
  text: string,
  onClick: () => void,
  attributes: Attributes & { readonly name?: string } = {},
): HTMLButtonElement {
  const { name, ...rest } = attributes;
  const element = h("button", { type: "button", "aria-label": name, ...rest }, text);
  element.addEventListener("click", onClick);
  return element;
}

/** A button that looks like a link, for going somewhere within the panel. */
export function link(text: string, onClick: () => void, title?: string): HTMLButtonElement {
  return button(text, onClick, { class: "td-link", title });
}

export function checkbox(label: string, checked: boolean, onChange: (checked: boolean) => void): HTMLLabelElement {
  const input = h("input", { type: "checkbox" });
  input.checked = checked;
  input.addEventListener("change", () => onChange(input.checked));
  return h("label", { class: "td-check" }, input, h("span", {}, label));
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag: string, attributes: Attributes = {}, ...children: readonly Node[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * Scrolls a box so that an element of it can be seen, with what follows it up to `last`, and nothing around the box: a
 * notebook must not jump.
 */
export function scrollWithin(box: HTMLElement, element: HTMLElement, last: HTMLElement = element): void {
  const outer = box.getBoundingClientRect();
  const { top } = element.getBoundingClientRect();
  const { bottom } = last.getBoundingClientRect();
  if (top < outer.top || bottom > outer.bottom) {
    box.scrollTop += top - outer.top - Math.max(0, (outer.height - (bottom - top)) / 3);
  }
}
