/** Keys of a grid of cells: arrows move, Home and End go to the ends of a row, Space switches, Enter opens. */

interface GridCell {
  readonly element: HTMLElement;
  readonly act: { toggle(): void; open(): void };
}

/**
 * Binds the keys of a grid. Only one of its cells is in the order of the Tab key: the one that had the focus last; `last` stores
 * it, as the name in `data-cell`, for when the grid is made anew.
 */
export function bindGrid(
  table: HTMLElement,
  lines: readonly (readonly GridCell[])[],
  name: string,
  last: Map<string, string>,
): void {
  const cells = lines.flat();
  const first = lines[1]?.[1] ?? cells[0];
  const entry = cells.find(({ element }) => element.getAttribute("data-cell") === last.get(name)) ?? first;
  if (entry) entry.element.tabIndex = 0;
  table.addEventListener("focusin", (event) => {
    const focused = cells.find(({ element }) => element === event.target);
    if (!focused) return;
    for (const { element } of cells) element.tabIndex = element === focused.element ? 0 : -1;
    last.set(name, focused.element.getAttribute("data-cell") ?? "");
  });
  table.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = place(lines, event.target);
    if (!at) return;
    const [y, x] = at;
    const line = lines[y] ?? [];
    const goals: Readonly<Record<string, GridCell | undefined>> = {
      ArrowLeft: line[x - 1],
      ArrowRight: line[x + 1],
      ArrowUp: lines[y - 1]?.[x],
      ArrowDown: lines[y + 1]?.[x],
      Home: line[0],
      End: line.at(-1),
    };
    if (event.key in goals) goals[event.key]?.element.focus();
    else if (event.key === " ") line[x]?.act.toggle();
    else if (event.key === "Enter") line[x]?.act.open();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  for (const { element, act } of cells) {
    if (element.classList.contains("td-flip")) element.addEventListener("click", () => act.toggle());
  }
}

function place(lines: readonly (readonly GridCell[])[], target: EventTarget | null): [number, number] | null {
  for (const [y, line] of lines.entries()) {
    const x = line.findIndex(({ element }) => target instanceof Node && element.contains(target));
    if (x >= 0) return [y, x];
  }
  return null;
}
