/** Keys that mean something only where the lanes have the focus; those of the whole panel are in `views/keyboard.ts`. */
import { lastTime, launchAt, selectLaunch, selectVersion } from "../actions.js";
import type { Panel } from "../state.js";

interface KeyActions {
  /** Ids of the arrays that are shown, from the top down. */
  lanes(): readonly number[];
  page(pages: number): void;
  toggleFold(): void;
}

export function bindKeys(canvas: HTMLCanvasElement, panel: Panel, actions: KeyActions): void {
  const count = panel.model.launchCount;
  const keys: Readonly<Record<string, () => void>> = {
    Home: () => selectLaunch(panel, 0),
    End: () => {
      const { launch, backward } = launchAt(lastTime(panel), count);
      selectLaunch(panel, launch, backward);
    },
    ArrowUp: () => stepLane(panel, actions.lanes(), -1),
    ArrowDown: () => stepLane(panel, actions.lanes(), 1),
    PageUp: () => actions.page(-1),
    PageDown: () => actions.page(1),
    Enter: () => actions.toggleFold(),
  };
  panel.lifetime.listen(canvas, "keydown", (event) => {
    const act = keys[event.key];
    if (!act || count === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  });
}

/** To the lane above or below: the version that is alive at the selected launch. */
function stepLane(panel: Panel, lanes: readonly number[], step: number): void {
  const { model, store } = panel;
  const { array, launch } = store.get("selection");
  const now = lanes.indexOf(model.arrayId(array) ?? -1);
  const next = lanes[now < 0 ? 0 : Math.max(0, Math.min(lanes.length - 1, now + step))];
  if (next === undefined) return;
  const version = model.versionAt(next, launch ?? -1) ?? model.latest(next);
  if (version) selectVersion(panel, version);
}
