/** The side bar: the live tapes of the notebook in front, worst news first in each row. */
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { IDisposable } from "@lumino/disposable";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { button, element } from "./dom.js";
import { tapeIcon } from "./icon.js";
import type { TapeRow } from "./protocol.js";
import { counts, facts, title } from "./rows.js";
import type { SessionState, TapeSession } from "./session.js";
import { ITapes, ITapeViewer } from "./tokens.js";

const ID = "tapedebug-sidebar";

/** What stands in place of the list where there is no list. */
const EXPLAIN: Record<Exclude<SessionState, "ready">, string> = {
  "no-kernel": "This notebook has no kernel. A saved tape still shows in its cell.",
  foreign: "This notebook's kernel is not Python.",
  connecting: "Asking the kernel for its tapes …",
  absent: "tapedebug is not loaded in this kernel.",
  gone: "The kernel has restarted or died, and its tapes with it. Run the notebook again to record new ones.",
};

export class SideBar extends Widget {
  private session: TapeSession | null = null;
  private watching: IDisposable | null = null;

  constructor(
    tapes: ITapes,
    private readonly viewer: ITapeViewer,
  ) {
    super();
    this.id = ID;
    this.title.icon = tapeIcon;
    this.title.caption = "Gradient tapes";
    this.addClass("td-side");
    this.node.setAttribute("role", "region");
    this.node.setAttribute("aria-label", "Gradient tapes");
    tapes.currentChanged.connect((_, session) => this.follow(session));
    this.follow(tapes.current);
  }

  /** The kernel is asked only while somebody looks. */
  protected override onAfterShow(message: Message): void {
    super.onAfterShow(message);
    this.watch();
  }

  protected override onAfterHide(message: Message): void {
    super.onAfterHide(message);
    this.unwatch();
  }

  private follow(session: TapeSession | null): void {
    this.unwatch();
    this.session?.changed.disconnect(this.draw, this);
    this.session = session;
    session?.changed.connect(this.draw, this);
    if (this.isVisible) this.watch();
    this.draw();
  }

  private watch(): void {
    this.watching ??= this.session?.watch() ?? null;
  }

  private unwatch(): void {
    this.watching?.dispose();
    this.watching = null;
  }

  private draw(): void {
    const session = this.session;
    const head = element("div", "td-side-head", element("h2", "td-side-title", "Gradient tapes"));
    if (session === null) {
      this.node.replaceChildren(head, element("p", "td-side-note", "Open a notebook to see the tapes of its kernel."));
      return;
    }
    head.append(button("td-side-refresh", "↻", "Ask the kernel again", () => session.refresh()));
    const name = element("div", "td-side-notebook", session.name);
    name.title = session.name;
    this.node.replaceChildren(head, name, ...this.body(session));
  }

  private body(session: TapeSession): Node[] {
    const parts: Node[] = [];
    if (session.error !== "") {
      const problem = element("p", "td-side-error", session.error);
      problem.setAttribute("role", "alert");
      parts.push(problem);
    }
    if (session.state !== "ready") {
      parts.push(element("p", "td-side-note", EXPLAIN[session.state]));
      if (session.state === "absent") {
        parts.push(
          button("td-side-load", "Load tapedebug", "Run %load_ext tapedebug in this kernel", () => void session.load()),
        );
      }
      return parts;
    }
    if (session.busy) parts.push(element("p", "td-side-note", "A cell is running; the list follows when it is done."));
    if (session.tapes.length > 0) parts.push(this.list(session));
    else if (!session.busy) {
      parts.push(
        element("p", "td-side-note", "No live tape in this kernel. Record one with ", element("code", "", "%%tape")),
      );
    }
    return parts;
  }

  private list(session: TapeSession): HTMLElement {
    const list = element("ul", "td-side-list");
    for (const row of session.tapes)
      list.append(element("li", "td-side-row", this.row(session, row), diagnosis(session, row)));
    return list;
  }

  private row(session: TapeSession, row: TapeRow): HTMLElement {
    const open = button("td-side-tape", "", `Open the debugger on tape ${row.tape}`, () => {
      this.viewer.open(session, row.tape).catch((error: Error) => {
        session.error = error.message;
        this.draw();
      });
    });
    open.dataset.tape = String(row.tape);
    const badges = counts(row.findings).map((badge) => {
      const shown = element("span", `td-side-badge td-${badge.kind}`, badge.text);
      shown.title = badge.title;
      return shown;
    });
    open.append(
      element("span", "td-side-name", title(row)),
      element("span", "td-side-counts", ...badges),
      element("span", "td-side-facts", facts(row)),
      element("span", "td-side-place", row.madeAt),
    );
    return open;
  }
}

/** Findings cost a replay of the tape, so they are asked for. */
function diagnosis(session: TapeSession, row: TapeRow): Node {
  if (row.findings !== null || row.recording || row.launches === 0) return document.createDocumentFragment();
  const busy = session.diagnosing.has(row.tape);
  const ask = button(
    "td-side-diagnose",
    busy ? "Diagnosing …" : "Diagnose",
    "Check the gradient of this tape end to end, and say what is wrong with it",
    () => void session.diagnose(row.tape),
  );
  ask.disabled = busy;
  return ask;
}

export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:sidebar",
  description: "Lists the live tapes of the current notebook's kernel.",
  autoStart: true,
  requires: [ITapes, ITapeViewer],
  optional: [ILabShell, ILayoutRestorer, ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    tapes: ITapes,
    viewer: ITapeViewer,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    palette: ICommandPalette | null,
  ) => {
    const bar = new SideBar(tapes, viewer);
    app.shell.add(bar, "right", { rank: 600, type: "Gradient tapes" });
    restorer?.add(bar, ID);
    const command = "tapedebug:show-tapes";
    app.commands.addCommand(command, {
      label: "Show Live Tapes",
      caption: "Show the side bar with the tapes of this notebook's kernel",
      icon: tapeIcon,
      execute: () => (labShell ?? app.shell).activateById(ID),
    });
    palette?.addItem({ command, category: "Gradient Tapes" });
  },
};
