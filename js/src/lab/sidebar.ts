/** The side bar: the live tapes of the active notebook or console, with the worst findings first in each row. */
import { ILabShell, ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { IDisposable } from "@lumino/disposable";
import type { Message } from "@lumino/messaging";
import { Widget } from "@lumino/widgets";
import { guarded, PALETTE } from "./commands.js";
import { button, element } from "./dom.js";
import { tapeIcon } from "./icon.js";
import { type Answer, busyMessage, type TapeRow } from "./protocol.js";
import type { SessionState, TapeSession } from "./session.js";
import { activity, counts, facts, title, verdict } from "./sidebarRows.js";
import { ITapes, ITapeViewer } from "./tokens.js";
import { FACES } from "./toolbar.js";

const ID = "tapedebug-sidebar";

/** The message in place of the list if there is none, with what the user can do. */
const EXPLAIN: Record<Exclude<SessionState, "ready">, string> = {
  "no-kernel": "There is no kernel. Choose one in the notebook's toolbar; a saved tape still shows in its cell.",
  foreign: "tapedebug needs a Python kernel; this one is not.",
  connecting: "Asking the kernel for its tapes …",
  absent: "tapedebug is not loaded in this kernel.",
  gone: "The kernel is restarting …",
  dead: "The kernel does not restart by itself; the Kernel menu can restart it.",
  closed: "This notebook was closed.",
};

class SideBar extends Widget {
  private session: TapeSession | null = null;
  private watching: IDisposable | null = null;
  /** Progress of the checks that tabs of this page run. */
  private readonly progress = new Map<number, number>();
  /** The result of an action. */
  private told = "";
  private drawn = "";

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

  async open(tape: number): Promise<void> {
    if (this.session !== null) await this.viewer.open(this.session, tape);
  }

  async export(tape: number): Promise<void> {
    const answer = await this.session?.ask({ type: "export", tape });
    if (answer?.type === "busy") throw new Error(busyMessage(answer.holder, "Export the report again."));
    if (answer?.type === "done") this.tell(answer.message ?? "");
  }

  async diagnose(tape: number): Promise<void> {
    await this.session?.diagnose(tape);
  }

  /** The kernel is queried only while the side bar is visible. */
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
    this.session?.changed.disconnect(this.changed, this);
    this.session?.news.disconnect(this.onAnswer, this);
    this.session = session;
    this.progress.clear();
    this.told = "";
    session?.changed.connect(this.changed, this);
    session?.news.connect(this.onAnswer, this);
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

  private changed(session: TapeSession): void {
    if (session.state !== "ready") {
      // the next kernel uses the same numbers for its tapes
      this.progress.clear();
      this.told = "";
    }
    this.draw();
  }

  private onAnswer(session: TapeSession, answer: Answer): void {
    if (answer.type !== "state") return;
    const { running, progress } = answer.state;
    if (running === false) this.progress.delete(answer.tape);
    else if (running === true || this.progress.has(answer.tape)) {
      this.progress.set(answer.tape, progress ?? this.progress.get(answer.tape) ?? 0);
    }
    if (running !== undefined) session.refresh();
    this.draw();
  }

  private tell(text: string): void {
    this.told = text;
    this.draw();
  }

  /** An action that fails says so in the side bar. */
  private act(work: () => Promise<unknown>): () => void {
    return () => {
      this.told = "";
      work().catch((error: Error) => {
        if (this.session !== null) this.session.error = error.message;
        this.draw();
      });
    };
  }

  /** Redraws what has changed, and keeps the keyboard focus. */
  private draw(): void {
    const { session } = this;
    const { state, lost, tapes, busy, next, error, name } = session ?? ({} as Partial<TapeSession>);
    const drawn = JSON.stringify([
      session === null,
      [state, lost, tapes, busy, next, error, name, this.told],
      [...(session?.diagnosing ?? []), ...this.progress],
    ]);
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const active = document.activeElement;
    const key = active instanceof HTMLElement && this.node.contains(active) ? active.dataset.key : undefined;
    const scroll = this.node.scrollTop;
    this.node.replaceChildren(...this.content());
    this.node.scrollTop = scroll;
    if (key !== undefined) this.node.querySelector<HTMLElement>(`[data-key=${JSON.stringify(key)}]`)?.focus();
  }

  private content(): Node[] {
    const { session } = this;
    const head = element("div", "td-side-head", element("h2", "td-side-title", "Gradient tapes"));
    if (session === null) {
      return [head, note("Open a notebook or a console to see the tapes of its kernel.")];
    }
    const refresh = key(
      button("td-side-refresh", "↻", "Ask the kernel again", () => session.refresh()),
      "refresh",
    );
    refresh.setAttribute("aria-label", "Ask the kernel again");
    head.append(refresh);
    const name = element("div", "td-side-notebook", session.name);
    name.title = session.path;
    return [head, name, ...this.body(session)];
  }

  private body(session: TapeSession): Node[] {
    const parts: Node[] = [];
    if (session.error !== "") {
      const problem = element("p", "td-side-error", session.error);
      problem.setAttribute("role", "alert");
      parts.push(problem);
    }
    if (session.state !== "ready") return [...parts, ...notReady(session)];
    if (this.told !== "") parts.push(status(this.told));
    parts.push(nextButton(session, (work) => this.act(work)));
    if (session.next.message !== "") parts.push(status(session.next.message));
    if (session.busy) parts.push(status("A cell is running. Tapes can be opened when it is done."));
    if (session.tapes.length > 0) parts.push(this.list(session));
    else if (!session.busy) {
      parts.push(
        note(
          "No live tape in this kernel. Put ",
          element("code", "", "%%tape"),
          " at the top of a cell that launches kernels, or press the button above and run the cell.",
        ),
      );
    }
    return parts;
  }

  private list(session: TapeSession): HTMLElement {
    const list = element("ul", "td-side-list");
    list.setAttribute("aria-label", `Tapes of ${session.name}, newest first`);
    for (const row of session.tapes) {
      const item = element("li", "td-side-row", this.row(session, row), this.actions(session, row));
      item.dataset.row = String(row.tape);
      list.append(item);
    }
    return list;
  }

  private row(session: TapeSession, row: TapeRow): HTMLElement {
    const open = button(
      "td-side-tape",
      "",
      `Open the debugger on ${title(row)}`,
      this.act(() => this.open(row.tape)),
    );
    key(open, `open-${row.tape}`).dataset.tape = String(row.tape);
    const badges = counts(row.findings, row.diagnosing).map((badge) => {
      const shown = element("span", `td-side-badge td-${badge.kind}`, badge.text);
      shown.title = badge.title;
      return shown;
    });
    const judged = verdict(row);
    const doing = activity(row, session.diagnosing.has(row.tape), this.progress.get(row.tape) ?? null);
    open.append(element("span", "td-side-name", title(row)), element("span", "td-side-counts", ...badges));
    if (judged !== null) open.append(element("span", `td-side-verdict td-level-${judged.level}`, judged.text));
    if (doing !== "") open.append(element("span", "td-side-doing", doing));
    open.append(element("span", "td-side-facts", facts(row)), element("span", "td-side-place", row.madeAt));
    return open;
  }

  private actions(session: TapeSession, row: TapeRow): HTMLElement {
    const { tape } = row;
    const busy = session.diagnosed.includes(tape);
    const make = (name: string, text: string, hint: string, work: () => Promise<unknown>, off = false) => {
      const made = key(button(`td-side-action td-side-${name}`, text, hint, this.act(work)), `${name}-${tape}`);
      made.disabled = off;
      return made;
    };
    const box = element("div", "td-side-actions");
    box.append(make("open", "Open", `Open the debugger on ${title(row)}`, () => this.open(tape), session.busy));
    if (busy) {
      const hint = "Stop the diagnosis; what it has found so far stays";
      box.append(make("cancel", "Cancel diagnosis", hint, () => session.cancel(tape)));
    } else if (this.progress.has(tape)) {
      box.append(make("cancel", "Cancel checks", "Stop the checks after the current pair", () => session.cancel(tape)));
    } else {
      const again = row.findings === null ? "Diagnose" : "Diagnose again";
      const hint = "Check the gradient of this tape end to end, and list what is wrong with it";
      const off = row.recording || row.launches === 0;
      box.append(make("diagnose", again, hint, () => this.diagnose(tape), off));
    }
    box.append(
      make(
        "export",
        "Export",
        "Write a report: one HTML file that opens without a network",
        () => this.export(tape),
        session.busy,
      ),
    );
    return box;
  }
}

function notReady(session: TapeSession): Node[] {
  const { state, lost } = session;
  if (state === "ready") return [];
  const parts: Node[] = [];
  const again = lost === "" ? "" : " Run the notebook again to record new tapes.";
  if (lost !== "" && state !== "no-kernel") parts.push(status(`The kernel ${lost}, and its tapes are lost.${again}`));
  parts.push(note(EXPLAIN[state]));
  if (state === "absent") {
    const load = "Run %load_ext tapedebug in this kernel";
    parts.push(
      key(
        button("td-side-load", "Load tapedebug", load, () => void session.load()),
        "load",
      ),
    );
  }
  return parts;
}

function nextButton(session: TapeSession, act: (work: () => Promise<unknown>) => () => void): HTMLElement {
  const { state } = session.next;
  const { sign, title: hint } = FACES[state];
  const text = { off: "Record next cell", armed: "The next cell will be recorded", recording: "Recording …" }[state];
  const made = key(
    button(
      "td-side-next",
      `${sign} ${text}`,
      hint,
      act(() => session.arm(state === "off")),
    ),
    "next",
  );
  made.dataset.state = state;
  made.disabled = state === "recording";
  made.setAttribute("aria-pressed", String(state !== "off"));
  return made;
}

function note(...children: (Node | string)[]): HTMLElement {
  return element("p", "td-side-note", ...children);
}

function status(text: string): HTMLElement {
  const made = note(text);
  made.setAttribute("role", "status");
  return made;
}

function key<E extends HTMLElement>(made: E, name: string): E {
  made.dataset.key = name;
  return made;
}

export const sidebarPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:sidebar",
  description: "Lists the live tapes of the kernel of the notebook or console in front.",
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
      caption: "Show the side bar with the tapes of this kernel",
      icon: tapeIcon,
      execute: () => (labShell ?? app.shell).activateById(ID),
    });
    palette?.addItem({ command, category: PALETTE });
    const run = guarded();
    const rows: readonly (readonly [string, string, (tape: number) => Promise<void>])[] = [
      ["tapedebug:row-open", "Open Tape", (tape) => bar.open(tape)],
      ["tapedebug:row-diagnose", "Diagnose Tape", (tape) => bar.diagnose(tape)],
      ["tapedebug:row-export", "Export Report of Tape", (tape) => bar.export(tape)],
    ];
    for (const [rank, [id, label, work]] of rows.entries()) {
      app.commands.addCommand(id, {
        label,
        execute: run(async () => {
          const row = app.contextMenuHitTest((node) => node.classList.contains("td-side-row"));
          if (row !== undefined) await work(Number(row.dataset.row));
        }),
      });
      app.contextMenu.addItem({ command: id, selector: ".td-side-row", rank });
    }
  },
};
