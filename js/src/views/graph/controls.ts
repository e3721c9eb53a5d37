/** The row above the drawing: how much of the tape is shown, around what, and the text of it for Graphviz. */
import { button, h } from "../dom.js";

interface ControlActions {
  whole(): void;
  near(): void;
  hops(hops: number): void;
  centre(): void;
  dot(): string;
}

export interface ControlState {
  readonly whole: boolean;
  readonly hops: number;
  /** The target that the button offers; null if it is shown already. */
  readonly centre: string | null;
}

export interface Controls {
  readonly element: HTMLElement;
  update(state: ControlState): void;
  wholePossible(possible: boolean): void;
}

const HOPS = [1, 2, 3, 4] as const;
const MESSAGE_MS = 2500;

export function bindControls(actions: ControlActions): Controls {
  const whole = button("Whole tape", actions.whole, { class: "td-g-choice" });
  const near = button("Neighbourhood", actions.near, {
    class: "td-g-choice",
    title: "the selected launch with its sources and its readers",
  });
  const hops = HOPS.map((count) =>
    button(String(count), () => actions.hops(count), {
      class: "td-g-choice",
      name: `${count} ${count === 1 ? "launch" : "launches"} away`,
      title: `shows the selected launch with its sources and its readers, through at most ${count} ${count === 1 ? "launch" : "launches"}`,
    }),
  );
  const centre = button("", actions.centre, { class: "td-link", hidden: true });
  const copy = copyButton(actions.dot);
  const element = h(
    "div",
    { class: "td-g-controls" },
    h("div", { class: "td-g-group", role: "group", "aria-label": "How much is shown" }, whole, near),
    h(
      "div",
      { class: "td-g-group", role: "group", "aria-label": "Launches away" },
      h("span", {}, "launches away"),
      ...hops,
    ),
    centre,
    copy,
  );
  return {
    element,
    update: (state) => {
      whole.setAttribute("aria-pressed", String(state.whole));
      near.setAttribute("aria-pressed", String(!state.whole));
      for (const [i, count] of HOPS.entries()) {
        hops[i]?.setAttribute("aria-pressed", String(!state.whole && state.hops === count));
      }
      centre.hidden = state.centre === null;
      centre.textContent = state.centre ?? "";
    },
    wholePossible: (possible) => {
      whole.disabled = !possible;
      whole.title = possible
        ? "all launches, repeated ones once"
        : "too many launches to read; fold repetitions or collapse scopes";
    },
  };
}

/** Copies; where a page may not write to the clipboard, shows the text to be copied by hand. */
function copyButton(dot: () => string): HTMLElement {
  const field = h("textarea", {
    class: "td-g-dot",
    readonly: true,
    rows: 8,
    hidden: true,
    "aria-label": "DOT text",
    spellcheck: "false",
  });
  const said = h("span", { class: "td-g-said", role: "status" });
  const show = (text: string): void => {
    field.hidden = false;
    field.value = text;
    field.focus();
    field.select();
    field.scrollTop = 0;
    said.textContent = "copy it from here";
  };
  const copy = button(
    "Copy DOT",
    () => {
      if (!field.hidden) {
        field.hidden = true;
        said.textContent = "";
        return;
      }
      const text = dot();
      const done = (): void => {
        said.textContent = "copied";
        window.setTimeout(() => {
          said.textContent = "";
        }, MESSAGE_MS);
      };
      const written = navigator.clipboard?.writeText(text);
      if (written) written.then(done, () => show(text));
      else show(text);
    },
    { class: "td-g-choice td-g-copy", title: "the drawing as DOT text for Graphviz" },
  );
  return h("div", { class: "td-g-copybox" }, said, copy, field);
}
