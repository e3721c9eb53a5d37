/** One slider through the time of the tape: all launches forward, then all of them backward. */
import { lastTime, launchAt, selectLaunch, stepLaunch, timeOf } from "./actions.js";
import { button, h, replace } from "./dom.js";
import { short } from "./format.js";
import type { Panel } from "./state.js";

export function buildScrubber(panel: Panel): HTMLElement {
  const { model, store, view, lifetime } = panel;
  const count = model.launchCount;
  const slider = h("input", {
    type: "range",
    class: "td-slider",
    min: 0,
    max: Math.max(0, lastTime(panel)),
    step: 1,
    "aria-label": "Launch, forward and then backward",
  });
  slider.disabled = count === 0;
  const text = h("span", { class: "td-scrub-text" });
  const update = (): void => {
    const { launch } = store.get("selection");
    const backward = view.get("backward");
    slider.value = String(launch === null ? 0 : timeOf(launch, backward, count));
    slider.classList.toggle("td-unset", launch === null);
    const found = model.launch(launch);
    const words = found ? `launch ${found.index}${backward ? " backward" : ""}` : "no launch chosen";
    slider.setAttribute("aria-valuetext", found ? `${words}, ${short(found.name)}` : words);
    replace(text, words);
  };
  slider.addEventListener("input", () => {
    const { launch, backward } = launchAt(Number(slider.value), count);
    selectLaunch(panel, launch, backward);
  });
  update();
  lifetime.add(store.subscribe((changed) => changed.has("selection") && update()));
  lifetime.add(view.subscribe((changed) => changed.has("backward") && update()));
  return h(
    "div",
    { class: "td-scrubber", role: "group", "aria-label": "Time" },
    h(
      "div",
      { class: "td-scrub-label" },
      button("◀", () => stepLaunch(panel, -1), { name: "previous launch", title: "previous launch (←)" }),
      button("▶", () => stepLaunch(panel, 1), { name: "next launch", title: "next launch (→)" }),
      text,
    ),
    slider,
  );
}
