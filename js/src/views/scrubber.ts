/** One slider through the time of the tape: all launches forward, then all of them backward; by hand, or by itself. */
import { lastTime, launchAt, selectLaunch, stepLaunch, timeOf } from "./actions.js";
import { button, h, replace } from "./dom.js";
import { short } from "./format.js";
import type { Panel } from "./state.js";

/** Launches a second. */
const SPEEDS = [1, 4, 15, 60] as const;
/** With reduced motion, one step a second, whatever the speed. */
const CALM = 1;

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
      button("◀", () => stepLaunch(panel, -1), {
        name: "previous launch",
        title: "previous launch (←; also what is folded, one by one)",
      }),
      button("▶", () => stepLaunch(panel, 1), {
        name: "next launch",
        title: "next launch (→; also what is folded, one by one)",
      }),
      ...playControls(panel),
      text,
    ),
    slider,
  );
}

function playControls(panel: Panel): HTMLElement[] {
  const { store, view, lifetime } = panel;
  const speed = h("select", { class: "td-speed", "aria-label": "Speed", title: "launches a second" });
  for (const each of SPEEDS) speed.append(h("option", { value: each }, `${each}/s`));
  speed.value = String(SPEEDS[1]);
  let timer = 0;
  let due: number | null = null;
  const now = (): number | null => {
    const { launch } = store.get("selection");
    return launch === null ? null : timeOf(launch, view.get("backward"), panel.model.launchCount);
  };
  const stop = (): void => {
    window.clearTimeout(timer);
    if (due !== null) panel.announce("stopped");
    due = null;
    replace(play, "Play");
    play.setAttribute("aria-pressed", "false");
  };
  const tick = (): void => {
    // the selection was changed, or it is at the end
    if (now() !== due || due === lastTime(panel)) {
      stop();
      return;
    }
    stepLaunch(panel, 1);
    due = now();
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = window.setTimeout(tick, 1000 / (calm ? CALM : Number(speed.value)));
  };
  const play: HTMLButtonElement = button(
    "Play",
    () => {
      if (due !== null) {
        stop();
        return;
      }
      if (now() === null || now() === lastTime(panel)) selectLaunch(panel, 0);
      due = now();
      replace(play, "Pause");
      play.setAttribute("aria-pressed", "true");
      timer = window.setTimeout(tick, 1000 / Number(speed.value));
    },
    { class: "td-play", "aria-pressed": "false", title: "walk along the tape (p)" },
  );
  play.disabled = speed.disabled = panel.model.launchCount === 0;
  lifetime.add(() => window.clearTimeout(timer));
  return [play, speed];
}
