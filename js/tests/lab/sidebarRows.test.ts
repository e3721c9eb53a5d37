import { Signal } from "@lumino/signaling";
import { describe, expect, it } from "vitest";
import { AutoDiagnose } from "../../src/lab/autoDiagnose.js";
import type { TapeRow } from "../../src/lab/protocol.js";
import type { TapeSession } from "../../src/lab/session.js";
import { activity, counts, facts, verdict } from "../../src/lab/sidebarRows.js";
import type { ITapes } from "../../src/lab/tokens.js";
import { ROW } from "./fake-kernel.js";

const NONE = { error: 0, warning: 0, info: 0 };

describe("a row", () => {
  it("says what goes on", () => {
    expect(activity(ROW, false, null)).toBe("");
    expect(activity({ ...ROW, recording: true }, true, 0.5)).toBe("● recording");
    expect(activity(ROW, true, null)).toBe("… diagnosing");
    expect(activity({ ...ROW, diagnosing: true, rulesLeft: null }, false, null)).toBe("… diagnosing");
    expect(activity({ ...ROW, diagnosing: true, rulesLeft: 17 }, true, null)).toBe("… diagnosing, 17 rules left");
    expect(activity({ ...ROW, diagnosing: true, rulesLeft: 1 }, true, null)).toBe("… diagnosing, 1 rule left");
    expect(activity(ROW, false, 0.42)).toBe("… running checks, 42 %");
    expect(activity({ ...ROW, checking: true }, false, null)).toBe("… running checks");
  });

  it("gives a verdict only where somebody asked for one, with a sign", () => {
    expect(verdict(ROW)).toBeNull();
    expect(verdict({ ...ROW, findings: NONE, verdict: "WRONG" })).toEqual({ text: "✕ gradient WRONG", level: "error" });
    const agrees = { ...ROW, verdict: "AGREE" };
    expect(verdict({ ...agrees, findings: NONE })).toEqual({ text: "✓ gradient AGREE", level: "good" });
    expect(verdict({ ...agrees, findings: { ...NONE, warning: 1 } })).toEqual({
      text: "! gradient AGREE, 1 warning",
      level: "warning",
    });
    expect(verdict({ ...ROW, findings: NONE })?.text).toBe("– gradient not checked");
    expect(verdict({ ...ROW, findings: NONE, verdict: "toString" })?.text).toBe("– gradient not checked");
  });

  it("shows what an unfinished diagnosis has found, and no absence of findings", () => {
    const unfinished = { ...ROW, diagnosing: true, partial: true, findings: NONE };
    expect([verdict(unfinished), counts(NONE, true)]).toEqual([null, []]);
    expect(verdict({ ...unfinished, verdict: "WRONG" })).toEqual({ text: "✕ gradient WRONG", level: "error" });
    expect(verdict({ ...unfinished, verdict: "AGREE" })?.level).toBe("warning");
    expect(counts({ ...NONE, error: 2 }, true)).toEqual([{ kind: "error", text: "✕ 2", title: "2 errors so far" }]);
  });

  it("names the mode where it is not the usual one", () => {
    expect(facts({ ...ROW, onOverwrite: "ignore" })).toContain("on_overwrite=ignore");
  });

  it("names another engine, which has no such mode", () => {
    const text = facts({ ...ROW, onOverwrite: "ignore", engine: "NVIDIA Warp 1.19.0, cpu" });
    expect(text).toContain("NVIDIA\u00a0Warp\u00a01.19.0,\u00a0cpu");
    expect(text).not.toContain("on_overwrite");
  });
});

describe("the diagnosis after recording", () => {
  function start(autoDiagnose: boolean) {
    const settings = { autoDiagnose };
    const asked: number[] = [];
    const session = {
      process: "p",
      tapes: [ROW] as TapeRow[],
      diagnosing: new Set<number>(),
      diagnose: async (tape: number) => void asked.push(tape),
    } as unknown as { tapes: TapeRow[] } & TapeSession;
    const listed = new Signal<TapeSession, void>(session);
    Object.assign(session, { listed });
    const tapes = { sessions: [session], changed: new Signal<object, TapeSession>({}) } as unknown as ITapes;
    new AutoDiagnose(tapes, settings);
    const list = async (...rows: TapeRow[]) => {
      session.tapes = rows;
      listed.emit();
      await Promise.resolve();
    };
    return { settings, asked, list };
  }

  it("asks once for each state of a tape, when it is done", async () => {
    const { asked, list } = start(true);
    await list({ ...ROW, recording: true });
    await list({ ...ROW, launches: 0 });
    expect(asked).toEqual([]);
    await list(ROW);
    await list(ROW);
    expect(asked).toEqual([3]);
    await list({ ...ROW, backwardRuns: 2 });
    expect(asked).toEqual([3, 3]);
  });

  it("asks nothing while it is off, nor for what was recorded then", async () => {
    const { asked, list, settings } = start(false);
    await list(ROW);
    settings.autoDiagnose = true;
    await list(ROW);
    expect(asked).toEqual([]);
    await list({ ...ROW, tape: 9 }, ROW);
    expect(asked).toEqual([9]);
  });
});
