/** The button that copies a script which shows the pair alone; if the page may not copy, it shows the text. */
import { button, h, replace } from "../dom.js";
import { short } from "../format.js";
import type { Panel } from "../state.js";
import type { Jacobian } from "./data.js";

export function buildScript(panel: Panel, { pair }: Jacobian): HTMLElement {
  const said = h("span", { class: "td-empty", role: "status" });
  const box = h("div", { class: "td-jac-script" });
  const copy = button("copy script", () => void fetchAndCopy(), {
    class: "td-button td-jac-copy",
    title: "a Python script that shows this pair alone, with the values of this launch",
  });
  const fetchAndCopy = async (): Promise<void> => {
    copy.disabled = true;
    replace(said, "asking the kernel …");
    try {
      const [launch, input, output] = pair;
      const { data } = await panel.store.ask({ type: "script", launch, input, output });
      const text = String(data.text ?? "");
      replace(said, (await copied(text)) ? "copied" : "copy it from here:");
      if (said.textContent !== "copied") replace(box, h("pre", { tabindex: 0 }, text));
    } catch (error) {
      replace(said, short(error instanceof Error ? error.message : String(error), 400));
    } finally {
      copy.disabled = false;
    }
  };
  return h("div", { class: "td-jac-copybox" }, copy, said, box);
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // a page may not be allowed to
  }
}
