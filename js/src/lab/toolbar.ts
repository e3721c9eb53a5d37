/** The button in the toolbar of notebooks that records the next cell; it shows whether it will. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { IToolbarWidgetRegistry } from "@jupyterlab/apputils";
import type { NotebookPanel } from "@jupyterlab/notebook";
import { Widget } from "@lumino/widgets";
import { guarded } from "./commands.js";
import { element } from "./dom.js";
import type { NextCell } from "./protocol.js";
import type { TapeSession } from "./session.js";
import { ITapes } from "./tokens.js";

export const FACES: Readonly<Record<NextCell["state"], { sign: string; text: string; title: string }>> = {
  off: {
    sign: "○",
    text: "Tape",
    title: "Record the next cell that you run on a tape, as %%tape would, and show it below the cell",
  },
  armed: {
    sign: "◉",
    text: "Tape: next cell",
    title: "The next cell that you run will be recorded. Click to cancel",
  },
  recording: { sign: "●", text: "Recording …", title: "This cell is being recorded on a tape" },
};

class RecordButton extends Widget {
  private readonly button: HTMLButtonElement;

  constructor(
    private readonly session: TapeSession,
    private readonly failed: (error: unknown) => void,
  ) {
    super();
    this.addClass("td-next");
    this.button = element("button", "td-next-button");
    this.button.type = "button";
    this.button.addEventListener("click", () => {
      this.session.arm(this.session.next.state === "off").catch(this.failed);
    });
    this.node.append(this.button);
    session.changed.connect(this.draw, this);
    this.draw();
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.session.changed.disconnect(this.draw, this);
    super.dispose();
  }

  private draw(): void {
    const { next } = this.session;
    const { sign, text, title } = FACES[next.state];
    const { button } = this;
    button.dataset.state = next.state;
    button.disabled = next.state === "recording";
    button.setAttribute("aria-pressed", String(next.state !== "off"));
    button.setAttribute("aria-label", `Record the next cell on a tape: ${next.state}`);
    button.title = next.message === "" ? title : `${title}\n${next.message}`;
    const icon = element("span", "td-next-sign", sign);
    icon.setAttribute("aria-hidden", "true");
    button.replaceChildren(icon, element("span", "td-next-text", text));
  }
}

export const toolbarPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:toolbar",
  description: "Records the next cell, from the toolbar of notebooks.",
  autoStart: true,
  requires: [ITapes, IToolbarWidgetRegistry],
  activate: (_: JupyterFrontEnd, tapes: ITapes, toolbars: IToolbarWidgetRegistry) => {
    const { failed } = guarded();
    toolbars.addFactory<NotebookPanel>(
      "Notebook",
      "tapedebug-record-next",
      (panel) => new RecordButton(tapes.of(panel), failed),
    );
  },
};
