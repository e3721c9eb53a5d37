/** The side bar: the live tapes of the notebook in front, worst news first in each row. */
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { IDisposable } from "@lumino/disposable";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { button, element } from "./dom.js";
import { tapeIcon } from "./icon.js";
import type { TapeRow } from "./protocol.js";
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
    for (const row of session.tapes) list.append(element("li", "", this.row(session, row)));
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
    open.append(
      element("span", "td-side-name", row.name === "" ? `tape ${row.tape}` : `${row.name} · tape ${row.tape}`),
      element("span", "td-side-counts", ...counts(row)),
      element("span", "td-side-facts", facts(row)),
    );
    return open;
  }
}

function facts(row: TapeRow): string {
  const parts = [amount(row.launches, "launch", "launches"), amount(row.arrays, "array", "arrays")];
  if (row.recording) parts.push("recording");
  parts.push(row.backwardRuns === 0 ? "no backward yet" : `backward ×${row.backwardRuns}`);
  if (row.onOverwrite !== "preserve") parts.push(row.onOverwrite);
  else if (row.preservedBytes > 0) parts.push(`kept ${bytes(row.preservedBytes)}`);
  return parts.join(" · ");
}

function counts(row: TapeRow): Node[] {
  if (row.findings === null) return [];
  const kinds = [
    ["error", "✕", "errors"],
    ["warning", "!", "warnings"],
    ["info", "i", "notes"],
  ] as const;
  const shown = kinds
    .filter(([kind]) => (row.findings?.[kind] ?? 0) > 0)
    .map(([kind, sign, words]) => {
      const badge = element("span", `td-side-badge td-${kind}`, `${sign} ${row.findings?.[kind]}`);
      badge.title = `${row.findings?.[kind]} ${words}`;
      return badge;
    });
  return shown.length > 0 ? shown : [element("span", "td-side-badge td-none", "✓ no findings")];
}

function amount(count: number, one: string, many: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = count;
  let unit = "B";
  for (const next of units) {
    if (value < 1000) break;
    value /= 1000;
    unit = next;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
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
