/** Keeps the keyboard focus in place when content is redrawn. */

/** Runs `render`, which replaces the content of a box, and focuses the element in the same place, or the box. */
export function keepFocus(box: HTMLElement, render: () => void): void {
  const active = document.activeElement;
  const inside = active instanceof HTMLElement && active !== box && box.contains(active);
  const key = inside ? (active.dataset.key ?? null) : null;
  const text = inside ? `${active.tagName} ${active.getAttribute("aria-label") ?? ""} ${active.textContent}` : null;
  render();
  if (!inside || document.activeElement === active) return;
  if (box.contains(active)) {
    active.focus({ preventScroll: true }); // it was taken out and put back
    return;
  }
  const candidates = [...box.querySelectorAll<HTMLElement>("button, input, select, [tabindex]")];
  const found =
    candidates.find((element) => key !== null && element.dataset.key === key) ??
    candidates.find(
      (element) => `${element.tagName} ${element.getAttribute("aria-label") ?? ""} ${element.textContent}` === text,
    );
  const target = found && !(found as HTMLButtonElement).disabled ? found : box;
  if (target === box && !box.hasAttribute("tabindex")) box.tabIndex = -1;
  target.focus({ preventScroll: true });
}
