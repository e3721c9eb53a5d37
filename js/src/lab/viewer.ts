/** Opens live tapes in tabs of the main area, and restores those tabs after the page is reloaded. */
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { MainAreaWidget, WidgetTracker } from "@jupyterlab/apputils";
import { MessageLoop } from "@lumino/messaging";
import { SplitPanel, TabPanel, type Widget } from "@lumino/widgets";
import { guarded } from "./commands.js";
import { button, element } from "./dom.js";
import { tapeIcon } from "./icon.js";
import type { TapeSession } from "./session.js";
import { type TapeId, TapePanel } from "./tapePanel.js";
import { ITapes, ITapeViewer, type TapePlace } from "./tokens.js";

const RESTORE = "tapedebug:restore-tape";

/** Height in CSS pixels below which a panel is unreadable. */
const LEAST_HEIGHT = 200;

/**
 * A line above the panel: the kernel is gone, more was recorded. It flows above the panel and is not a header of the tab: Lumino
 * gives headers no height of their own, and the panel would cover its buttons.
 */
function noticeBar(panel: TapePanel, act: (action: "refresh" | "open") => void): HTMLElement {
  const bar = element("div", "td-notice");
  bar.setAttribute("role", "status");
  const draw = (): void => {
    const { text, action } = panel.notice;
    bar.hidden = text === "";
    const parts: Node[] = [element("span", "td-notice-text", text)];
    if (action === "refresh")
      parts.push(button("td-notice-button", "Refresh", "Show the current state", () => act(action)));
    if (action === "open") parts.push(button("td-notice-button", "Open it", panel.tapeId.path, () => act(action)));
    bar.replaceChildren(...parts);
  };
  panel.noticeChanged.connect(draw);
  draw();
  return bar;
}

/** Notebook 7 shows the area below the notebook, but neither brings the tab to its front nor gives it any height. */
function raise(tab: Widget): void {
  const stack = tab.parent?.parent;
  if (!(stack instanceof TabPanel)) return;
  stack.currentWidget = tab;
  MessageLoop.flush(); // or else it has not been laid out
  const split = stack.parent;
  if (split instanceof SplitPanel && stack.node.offsetHeight < LEAST_HEIGHT)
    split.setRelativeSizes(split.widgets.map((one) => (one === stack ? 3 : 2)));
}

class Viewer implements ITapeViewer {
  readonly tracker = new WidgetTracker<MainAreaWidget<TapePanel>>({ namespace: "tapedebug-tapes" });
  private readonly run = guarded();

  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly tapes: ITapes,
    /** The main area of Notebook 7 holds the notebook and nothing else; there is room below it. */
    private readonly area: "main" | "down",
  ) {}

  async open(session: TapeSession, tape: number, place?: TapePlace): Promise<void> {
    const tab = this.tracker.find(
      ({ content }) => content.alive && content.tapeId.process === session.process && content.tapeId.tape === tape,
    );
    if (tab !== undefined) {
      await tab.content.load(place);
      this.toFront(tab);
      return;
    }
    const content = new TapePanel(this.tapes, { path: session.path, process: session.process, tape, name: "" });
    content.attach(session);
    try {
      await content.load(place);
    } catch (error) {
      content.dispose();
      throw error;
    }
    this.show(content);
  }

  /** Opens a tab as it was before; it shows the tape once its kernel is there. */
  restore(id: TapeId): void {
    const content = new TapePanel(this.tapes, id);
    this.show(content, false);
    content.find();
  }

  private show(content: TapePanel, activate = true): void {
    const tab = new MainAreaWidget({ content });
    const { path, tape, process } = content.tapeId;
    tab.id = `tapedebug-${process}-${tape}`;
    tab.toolbar.hide();
    content.node.prepend(noticeBar(content, (action) => this.act(content, action)));
    tab.title.icon = tapeIcon;
    const name = (): void => {
      tab.title.label = content.name;
      const state = content.alive ? "" : " (its kernel is gone)";
      tab.title.caption = `Gradient debugger: tape ${tape} of ${path}${state}`;
      tab.title.className = content.alive ? "" : "td-title-gone";
      void this.tracker.save(tab);
    };
    content.noticeChanged.connect(name);
    content.store.subscribe((changed) => changed.has("trace") && queueMicrotask(name));
    name();
    void this.tracker.add(tab);
    this.app.shell.add(tab, this.area, { type: "Gradient Debugger", activate });
    if (activate) this.toFront(tab);
  }

  private toFront(tab: MainAreaWidget<TapePanel>): void {
    this.app.shell.activateById(tab.id);
    if (this.area === "down") raise(tab);
  }

  private act(content: TapePanel, action: "refresh" | "open"): void {
    if (action === "refresh") void this.run(() => content.load())({});
    else void this.app.commands.execute("docmanager:open", { path: content.tapeId.path });
  }
}

function readId(args: Readonly<Record<string, unknown>>): TapeId | null {
  const { path, process, tape, name } = args;
  if (typeof path !== "string" || typeof process !== "string" || typeof tape !== "number") return null;
  return { path, process, tape, name: typeof name === "string" ? name : "" };
}

export const viewerPlugin: JupyterFrontEndPlugin<ITapeViewer> = {
  id: "tapedebug:viewer",
  description: "Opens the gradient debugger on a live tape, in a tab.",
  autoStart: true,
  requires: [ITapes],
  optional: [ILabShell, ILayoutRestorer],
  provides: ITapeViewer,
  activate: (app: JupyterFrontEnd, tapes: ITapes, labShell: ILabShell | null, restorer: ILayoutRestorer | null) => {
    const viewer = new Viewer(app, tapes, labShell === null ? "down" : "main");
    app.commands.addCommand(RESTORE, {
      label: "Reopen a Tape",
      isVisible: () => false,
      execute: (args) => {
        const id = readId(args);
        if (id !== null) viewer.restore(id);
      },
    });
    void restorer?.restore(viewer.tracker, {
      command: RESTORE,
      args: ({ content }) => ({ ...content.saved }),
      name: ({ content }) => `${content.tapeId.process}:${content.tapeId.tape}`,
    });
    return viewer;
  },
};
