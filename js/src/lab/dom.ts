/** Elements made from text alone: names of kernels and arrays are never markup. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className: string,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

export function button(className: string, label: string, title: string, act: () => void): HTMLButtonElement {
  const made = element("button", className, label);
  made.type = "button";
  made.title = title;
  made.addEventListener("click", act);
  return made;
}
