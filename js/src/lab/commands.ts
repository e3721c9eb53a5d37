/** Helpers for all commands of tapedebug, and the commands that belong to no other module. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette, Notification, showErrorMessage } from "@jupyterlab/apputils";
import { IDocumentManager } from "@jupyterlab/docmanager";
import { FileDialog } from "@jupyterlab/filebrowser";
import { INotebookTracker } from "@jupyterlab/notebook";
import { tapeIcon } from "./icon.js";
import { busyMessage } from "./protocol.js";
import type { TapeSession } from "./session.js";
import { counts } from "./sidebarRows.js";
import { ITapes, ITapeViewer } from "./tokens.js";

export const PALETTE = "Gradient Tapes";

type Work = (args: Readonly<Record<string, unknown>>) => unknown;

/** Commands that fail show a dialog, because the user expects a result. */
export function guarded(): ((work: Work) => Work) & { failed(error: unknown): void } {
  const failed = (error: unknown): void => {
    void showErrorMessage("Gradient tapes", error instanceof Error ? error.message : String(error));
  };
  const wrap = (work: Work): Work => {
    return async (args) => {
      try {
        return await work(args);
      } catch (error) {
        failed(error);
        return undefined;
      }
    };
  };
  return Object.assign(wrap, { failed });
}

const TRACE_FILE = /\.(tapetrace|trace\.json)$/;

/** Return the result of a diagnosis in one line. */
function outcome(session: TapeSession, tape: number): string {
  const row = session.tapes.find((one) => one.tape === tape);
  if (row === undefined) return `Tape ${tape} no longer exists.`;
  const badges = counts(row.findings).map((badge) => badge.title);
  return `Tape ${tape}: ${row.verdict === "NOT CHECKED" ? "not checked" : `gradient ${row.verdict}`}. ${badges.join(", ")}`;
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:commands",
  description: "Commands on the newest tape, in the palette and in menus.",
  autoStart: true,
  requires: [ITapes, ITapeViewer, INotebookTracker],
  optional: [ICommandPalette, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    tapes: ITapes,
    viewer: ITapeViewer,
    tracker: INotebookTracker,
    palette: ICommandPalette | null,
    documents: IDocumentManager | null,
  ) => {
    const { commands } = app;
    const run = guarded();
    const current = (): TapeSession => {
      if (tapes.current === null) throw new Error("Open a notebook first: tapes belong to the kernel of a notebook.");
      return tapes.current;
    };
    const chosen = async (args: Readonly<Record<string, unknown>>): Promise<[TapeSession, number]> => {
      const session = current();
      return [session, typeof args.tape === "number" ? args.tape : await session.newest()];
    };
    const isEnabled = (): boolean => tapes.current !== null;
    const add = (command: string, label: string, caption: string, work: Work, enabled = isEnabled): void => {
      commands.addCommand(command, { label, caption, icon: tapeIcon, isEnabled: enabled, execute: run(work) });
      palette?.addItem({ command, category: PALETTE });
    };
    add(
      "tapedebug:open",
      "Open Latest Tape",
      "Open the newest tape of this kernel in the gradient debugger",
      async (args) => viewer.open(...(await chosen(args))),
    );
    add(
      "tapedebug:diagnose",
      "Diagnose Latest Tape",
      "Check the gradient of the newest tape end to end",
      async (args) => {
        const [session, tape] = await chosen(args);
        await session.diagnose(tape);
        if (session.error !== "") throw new Error(session.error);
        const open = { label: "Open", callback: () => void run(() => viewer.open(session, tape))({}) };
        Notification.info(outcome(session, tape), { autoClose: 8_000, actions: [open] });
      },
    );
    const cancel = "tapedebug:cancel-diagnosis";
    const isDiagnosing = (): boolean => tapes.current !== null && tapes.current.diagnosed.length > 0;
    add(
      cancel,
      "Cancel Diagnosis",
      "Stop the diagnosis that is running in this kernel; what it has found so far stays",
      () => {
        const session = current();
        return session.cancel(...session.diagnosed);
      },
      isDiagnosing,
    );
    let wasDiagnosing = false;
    const follow = (): void => {
      if (wasDiagnosing === isDiagnosing()) return;
      wasDiagnosing = !wasDiagnosing;
      commands.notifyCommandChanged(cancel);
    };
    tapes.changed.connect(follow);
    tapes.currentChanged.connect(follow);
    add(
      "tapedebug:export",
      "Export Report of Latest Tape",
      "Write the newest tape as one offline HTML file",
      async (args) => {
        const [session, tape] = await chosen(args);
        const answer = await session.ask({ type: "export", tape });
        if (answer.type === "busy") throw new Error(busyMessage(answer.holder, "Export the report again."));
        Notification.success((answer.type === "done" && answer.message) || "Report written.", { autoClose: 8_000 });
      },
    );
    add(
      "tapedebug:record-next",
      "Record Next Cell",
      "Record the next cell that is executed, or cancel the recording",
      () => {
        const session = current();
        return session.arm(session.next.state === "off");
      },
    );
    add(
      "tapedebug:record-cell",
      "Record This Cell on a Tape",
      "Run this cell as if %%tape stood above it",
      async () => {
        const panel = tracker.currentWidget;
        if (panel === null) return;
        await tapes.of(panel).arm(true);
        await commands.execute("notebook:run-cell");
      },
    );
    add(
      "tapedebug:open-file",
      "Open Trace File…",
      "Open a saved trace (.tapetrace, .trace.json) in the gradient debugger",
      async (args) => {
        if (documents === null) throw new Error("Open the file in the file browser.");
        const path = typeof args.path === "string" ? args.path : await ask(documents);
        if (path !== null) await commands.execute("docmanager:open", { path });
      },
      () => documents !== null,
    );
  },
};

async function ask(manager: IDocumentManager): Promise<string | null> {
  const filter = (model: { type: string; name: string }) =>
    model.type === "directory" || TRACE_FILE.test(model.name) ? {} : null;
  const { button, value } = await FileDialog.getOpenFiles({ title: "Open a trace file", manager, filter });
  return button.accept ? (value?.[0]?.path ?? null) : null;
}
