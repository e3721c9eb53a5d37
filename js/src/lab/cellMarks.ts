/** Shows the marks of each notebook's tapes in the editors of its cells, and removes them when they no longer apply. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import { ICommandPalette } from "@jupyterlab/apputils";
import type { ICellModel } from "@jupyterlab/cells";
import { EditorExtensionRegistry, IEditorExtensionRegistry } from "@jupyterlab/codemirror";
import { INotebookTracker, type NotebookPanel } from "@jupyterlab/notebook";
import { guarded, PALETTE } from "./commands.js";
import { MarkRegistry, markAt, sameText } from "./editorMarks.js";
import type { CellMarks, Mark } from "./protocol.js";
import type { TapeSession } from "./session.js";
import { ITapeSettings, ITapes, ITapeViewer } from "./tokens.js";

class CellMarker {
  readonly book = new MarkRegistry<ICellModel>((marks, mark) => this.open(marks, mark));
  private readonly known = new Map<TapeSession, { print: string; cells: readonly CellMarks[]; cleared: boolean }>();

  constructor(
    private readonly tapes: ITapes,
    private readonly viewer: ITapeViewer,
    private readonly settings: ITapeSettings,
    private readonly failed: (error: Error) => void,
  ) {
    tapes.changed.connect((_, session) => this.changed(session));
    settings.changed.connect(() => this.switched());
    for (const session of tapes.sessions) this.changed(session);
  }

  /** Removes the marks of a notebook until there is a newer tape or diagnosis. */
  clear(session: TapeSession): void {
    const known = this.known.get(session);
    if (known !== undefined) this.known.set(session, { ...known, cells: [], cleared: true });
    this.apply(session);
  }

  /** Cells were added or their models exchanged. */
  apply(session: TapeSession): void {
    const host = this.tapes.hostOf(session);
    if (host === null || !("context" in host)) return;
    const known = this.settings.marks ? (this.known.get(session)?.cells ?? []) : [];
    for (const model of host.content.model?.cells ?? []) {
      const own = model.type === "code" ? known.find((marks) => belongs(marks, model)) : undefined;
      this.book.set(model, own ?? null);
    }
  }

  /** Opens the tape at the mark of a line. */
  openAt(model: ICellModel, line: number): void {
    const marks = this.book.get(model);
    const mark = marks !== null && sameText(model.sharedModel.getSource(), marks.source) ? markAt(marks, line) : null;
    if (marks === null || mark === null) throw new Error("This line has no mark of a tape.");
    this.open(marks, mark);
  }

  private open(marks: CellMarks, mark: Mark): void {
    const session = [...this.known].find(([, { cells }]) => cells.includes(marks))?.[0] ?? this.tapes.current;
    if (session === null) return;
    this.viewer
      .open(session, marks.tape, { launch: mark.launch, finding: mark.finding })
      .catch((error: Error) => this.failed(error));
  }

  private changed(session: TapeSession): void {
    if (session.isDisposed) {
      this.known.delete(session);
      return;
    }
    if (session.state === "connecting") return;
    if (session.state !== "ready") {
      if (this.known.delete(session)) this.apply(session);
      return;
    }
    if (this.settings.marks && !session.busy) void this.ask(session);
  }

  private switched(): void {
    for (const session of this.tapes.sessions) {
      this.changed(session);
      this.apply(session);
    }
  }

  /** Asks for marks where tapes or diagnoses are new. */
  private async ask(session: TapeSession): Promise<void> {
    const host = this.tapes.hostOf(session);
    if (host === null || !("context" in host)) return;
    const rows = session.tapes.map((row) => [row.tape, row.launches, row.backwardRuns, row.verdict, row.findings]);
    const print = JSON.stringify([session.process, rows]);
    const before = this.known.get(session);
    if (before?.print === print) return;
    this.known.set(session, { print, cells: before?.cells ?? [], cleared: false });
    try {
      const answer = await session.ask({ type: "marks" });
      if (this.known.get(session)?.print !== print) return;
      if (answer.type === "marks") this.known.set(session, { print, cells: answer.cells, cleared: false });
      else this.known.delete(session); // a cell began to run: ask again when it is done
    } catch (error) {
      this.known.delete(session);
      console.warn(`tapedebug has no marks for ${session.name}: ${error instanceof Error ? error.message : error}`);
    }
    this.apply(session);
  }
}

/** True if marks belong to this cell: by its id or, if the kernel does not know the id, by the execution count. */
function belongs(marks: CellMarks, model: ICellModel): boolean {
  if (marks.cell !== null) return marks.cell === model.id;
  const count = "executionCount" in model ? model.executionCount : null;
  return count === marks.count && sameText(model.sharedModel.getSource(), marks.source);
}

export const marksPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:marks",
  description: "Marks reads, writes, overwrites and findings in the cells of notebooks.",
  autoStart: true,
  requires: [ITapes, ITapeViewer, ITapeSettings, INotebookTracker, IEditorExtensionRegistry],
  optional: [ICommandPalette],
  activate: (
    app: JupyterFrontEnd,
    tapes: ITapes,
    viewer: ITapeViewer,
    settings: ITapeSettings,
    tracker: INotebookTracker,
    editors: IEditorExtensionRegistry,
    palette: ICommandPalette | null,
  ) => {
    const { commands } = app;
    const run = guarded();
    const marker = new CellMarker(tapes, viewer, settings, run.failed);
    editors.addExtension({
      name: "tapedebug:marks",
      factory: ({ model }) =>
        "type" in model && model.type === "code"
          ? EditorExtensionRegistry.createImmutableExtension(marker.book.extension(model as ICellModel))
          : null,
    });
    const follow = (panel: NotebookPanel): void => {
      const again = (): void => marker.apply(tapes.of(panel));
      void panel.context.ready.then(() => {
        panel.content.model?.cells.changed.connect(again);
        panel.content.modelChanged.connect(again);
        again();
      });
    };
    tracker.forEach(follow);
    tracker.widgetAdded.connect((_, panel) => follow(panel));

    commands.addCommand("tapedebug:toggle-marks", {
      label: "Marks of Tapes in Cells",
      caption: "Show or hide what the lines of cells read, write and overwrite",
      isToggleable: true,
      isToggled: () => settings.marks,
      execute: run(() => settings.setMarks(!settings.marks)),
    });
    settings.changed.connect(() => commands.notifyCommandChanged("tapedebug:toggle-marks"));
    commands.addCommand("tapedebug:clear-marks", {
      label: "Clear Marks of Tapes in This Notebook",
      caption: "Remove the marks until there is a newer tape or diagnosis",
      isEnabled: () => tapes.current !== null,
      execute: run(() => {
        if (tapes.current !== null) marker.clear(tapes.current);
      }),
    });
    commands.addCommand("tapedebug:open-mark", {
      label: "Open the Tape at This Line",
      caption: "Open the gradient debugger at the mark of the line where the cursor is",
      isEnabled: () => tracker.activeCell !== null,
      execute: run(() => {
        const cell = tracker.activeCell;
        const line = cell?.editor?.getCursorPosition().line;
        if (cell !== null && line !== undefined) marker.openAt(cell.model, line + 1);
      }),
    });
    for (const command of ["tapedebug:toggle-marks", "tapedebug:clear-marks", "tapedebug:open-mark"]) {
      palette?.addItem({ command, category: PALETTE });
    }
  },
};
