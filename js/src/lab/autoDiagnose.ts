/** Diagnoses tapes as soon as they are recorded, if the settings say so. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from "@jupyterlab/application";
import type { TapeRow } from "./protocol.js";
import type { TapeSession } from "./session.js";
import { ITapeSettings, ITapes } from "./tokens.js";

export class AutoDiagnose {
  /** The states of each process's tapes that were diagnosed, so that each is diagnosed once. */
  private readonly seen = new Set<string>();
  private readonly followed = new WeakSet<TapeSession>();

  constructor(
    tapes: ITapes,
    private readonly settings: Pick<ITapeSettings, "autoDiagnose">,
  ) {
    tapes.changed.connect((_, session) => this.follow(session));
    for (const session of tapes.sessions) this.follow(session);
  }

  private follow(session: TapeSession): void {
    if (this.followed.has(session)) return;
    this.followed.add(session);
    session.listed.connect((one) => void this.look(one));
  }

  private async look(session: TapeSession): Promise<void> {
    for (const row of session.tapes) {
      if (row.recording || row.launches === 0) continue;
      const key = JSON.stringify([session.process, row.tape, row.launches, row.backwardRuns]);
      if (this.seen.has(key)) continue;
      this.seen.add(key);
      if (this.settings.autoDiagnose && isOpen(row, session)) await session.diagnose(row.tape);
    }
  }
}

function isOpen(row: TapeRow, session: TapeSession): boolean {
  return row.findings === null && !row.diagnosing && !session.diagnosing.has(row.tape);
}

export const automaticPlugin: JupyterFrontEndPlugin<void> = {
  id: "tapedebug:automatic",
  description: "Diagnoses tapes after recording, if the settings say so.",
  autoStart: true,
  requires: [ITapes, ITapeSettings],
  activate: (_: JupyterFrontEnd, tapes: ITapes, settings: ITapeSettings) => {
    new AutoDiagnose(tapes, settings);
  },
};
