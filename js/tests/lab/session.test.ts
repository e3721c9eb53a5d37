import { describe, expect, it, vi } from "vitest";
import { DEATHS, Kernel, ROW, settle, start } from "./fake-kernel.js";

describe("a session", () => {
  it("asks nothing until somebody looks, then lists the tapes", async () => {
    const kernel = new Kernel();
    const { session } = start(kernel);
    await settle();
    expect(kernel.comm).toBeNull();
    session.watch();
    await settle();
    expect(session.state).toBe("ready");
    expect(session.tapes).toEqual([ROW]);
  });

  it("asks again after each execution once it is connected", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    const watching = session.watch();
    await settle();
    const before = kernel.sent.length;
    context.executed();
    await settle();
    expect(kernel.sent.length).toBe(before + 1);
    watching.dispose();
    context.executed();
    await settle();
    expect(kernel.sent.length).toBe(before + 2);
  });

  it("says where there is no kernel, and where it is not Python", async () => {
    expect(start(null).session.state).toBe("no-kernel");
    const kernel = new Kernel();
    kernel.language = "R";
    const { session } = start(kernel);
    session.watch();
    await settle();
    expect(session.state).toBe("foreign");
    expect(kernel.comm).toBeNull();
  });

  it("says that tapedebug is not loaded, and loads it", async () => {
    const kernel = new Kernel();
    kernel.loaded = false;
    const { session } = start(kernel);
    session.watch();
    await settle();
    expect(session.state).toBe("absent");
    await session.load();
    await settle();
    expect(kernel.code).toEqual(["%load_ext tapedebug"]);
    expect(session.state).toBe("ready");
  });

  it("forgets the tapes of a kernel that restarts, and finds the new ones", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    session.watch();
    await settle();
    context.statusChanged.emit("restarting");
    await settle();
    expect(session.state).toBe("gone");
    expect(session.tapes).toEqual([]);
    context.statusChanged.emit("idle");
    expect(session.state).toBe("absent");
    context.executed();
    await settle();
    expect(session.state).toBe("ready");
    expect(session.tapes).toEqual([ROW]);
  });

  it("knows whether a kernel that was lost comes back by itself", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel, true);
    await settle();
    kernel.silent = true;
    session.refresh();
    context.autorestarts();
    await settle();
    expect([session.state, session.error]).toEqual(["gone", ""]);
    context.statusChanged.emit("dead"); // the server has given up
    expect([session.state, session.lost]).toEqual(["dead", "died"]);
    context.statusChanged.emit("restarting");
    await settle();
    expect([session.state, session.lost]).toEqual(["gone", "died"]);
    context.statusChanged.emit("idle");
    expect(session.state).toBe("absent");
  });

  it("follows the notebook to another kernel and ignores the old one", async () => {
    const [first, second] = [new Kernel(), new Kernel()];
    const { context, session } = start(first);
    session.watch();
    await settle();
    const old = first.comm;
    second.answer = () => ({ type: "tapes", tapes: [] });
    context.session = { kernel: second };
    context.kernelChanged.emit({});
    await settle();
    expect(old?.isDisposed).toBe(true);
    expect(session.tapes).toEqual([]);
    expect(session.kernelId).toBe(second.id);
    old?.say({ type: "tapes", tapes: [ROW], request: 1 });
    await settle();
    expect(session.tapes).toEqual([]);
  });

  it("keeps the list and says so while a cell runs", async () => {
    const kernel = new Kernel();
    const { session } = start(kernel);
    session.watch();
    await settle();
    kernel.answer = () => ({ type: "busy" });
    session.refresh();
    await settle();
    expect(session.busy).toBe(true);
    expect(session.tapes).toEqual([ROW]);
  });

  it("knows a running cell from a kernel that is busy with a message", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    session.watch();
    await settle();
    const said: boolean[] = [];
    session.changed.connect(() => said.push(session.busy));
    for (const message of ["comm_msg", "comm_open", "complete_request", "kernel_info_request", "execute_request"]) {
      context.handles(message); // the last one: code that runs silently for an extension
      session.refresh();
      await settle();
    }
    expect(said).not.toContain(true);
    kernel.silent = true; // until the cell has ended
    context.begins("simulate()");
    expect(session.busy).toBe(true);
    context.handles("comm_msg");
    session.refresh();
    expect(session.busy).toBe(true);
    kernel.silent = false;
    context.executed("8"); // code of another kind that ends meanwhile
    expect(session.busy).toBe(true);
    context.executed();
    await settle();
    expect(session.busy).toBe(false);
    session.refresh();
    expect(session.busy).toBe(false);
  });

  it("runs no cell any more once the kernel was restarted", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    session.watch();
    await settle();
    kernel.silent = true;
    context.begins("simulate()");
    context.statusChanged.emit("restarting");
    await settle();
    kernel.silent = false;
    session.refresh();
    await settle();
    expect([session.state, session.busy]).toEqual(["ready", false]);
    session.refresh();
    expect(session.busy).toBe(false);
  });

  it("rejects with the kernel's words, and when the kernel goes away", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    session.watch();
    await settle();
    kernel.answer = () => ({ type: "error", message: "Tape 9 no longer exists. Live tapes: 3." });
    await expect(session.ask({ type: "trace", tape: 9 })).rejects.toThrow("Tape 9 no longer exists. Live tapes: 3.");
    kernel.silent = true;
    const waiting = session.ask({ type: "trace", tape: 3 });
    context.statusChanged.emit("dead");
    await expect(waiting).rejects.toThrow("The kernel went away before it answered.");
  });

  it("passes on what nobody asked for, and drops what it does not know", async () => {
    const kernel = new Kernel();
    const { session } = start(kernel);
    session.watch();
    await settle();
    const news: unknown[] = [];
    session.news.connect((_, answer) => news.push(answer));
    const state = { type: "state", tape: 3, state: { progress: 0.5 } };
    kernel.comm?.say(state);
    kernel.comm?.say({ type: "surprise" });
    await settle();
    expect(news).toEqual([state]);
  });

  it("puts what a diagnosis has found so far into the row of its tape", async () => {
    const kernel = new Kernel();
    kernel.answer = () => ({ type: "tapes", tapes: [ROW, { ...ROW, tape: 12 }] });
    const { session } = start(kernel);
    session.watch();
    await settle();
    let changes = 0;
    let lists = 0;
    session.changed.connect(() => (changes += 1));
    session.listed.connect(() => (lists += 1));
    const found = { ...ROW, diagnosing: true, verdict: "WRONG", findings: { error: 1, warning: 0, info: 0 } };
    kernel.comm?.say({ type: "row", row: found });
    await settle();
    expect(session.tapes).toEqual([found, { ...ROW, tape: 12 }]);
    expect([changes, lists]).toEqual([1, 0]);
    kernel.comm?.say({ type: "row", row: { ...found, tape: 99 } });
    await settle();
    expect(session.tapes.map((row) => row.tape)).toEqual([3, 12]);
  });

  it("knows which tapes are being diagnosed, for this page or another, and cancels them", async () => {
    const kernel = new Kernel();
    const rows = [
      { ...ROW, diagnosing: true },
      { ...ROW, tape: 12 },
      { ...ROW, tape: 13 },
    ];
    kernel.answer = (question) => (question.type === "list" ? { type: "tapes", tapes: rows } : { type: "done" });
    const { session } = start(kernel);
    expect(session.diagnosed).toEqual([]);
    session.watch();
    await settle();
    const diagnosis = session.diagnose(12);
    expect(session.diagnosed).toEqual([12, 3]);
    await session.cancel(...session.diagnosed);
    expect(kernel.sent.filter(({ type }) => type === "cancel")).toMatchObject([{ tape: 12 }, { tape: 3 }]);
    await diagnosis;
    kernel.comm?.say({ type: "row", row: ROW });
    await settle();
    expect(session.diagnosed).toEqual([]);
  });

  it("knows the newest tape, or why there is none", async () => {
    const kernel = new Kernel();
    kernel.answer = () => ({ type: "tapes", tapes: [ROW, { ...ROW, tape: 12 }, { ...ROW, tape: 4 }] });
    expect(await start(kernel).session.newest()).toBe(12);
    kernel.answer = () => ({ type: "tapes", tapes: [] });
    await expect(start(kernel).session.newest()).rejects.toThrow(
      "There is no live tape in this kernel. Record one with %%tape.",
    );
    kernel.loaded = false;
    await expect(start(kernel).session.newest()).rejects.toThrow(
      "tapedebug is not loaded in this kernel: run %load_ext tapedebug.",
    );
  });

  it("connects by itself once code has run that speaks of tapedebug, and not before", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    context.ran("1 + 1");
    await settle();
    expect(kernel.comm).toBeNull();
    context.ran("%load_ext tapedebug");
    await settle();
    expect(session.state).toBe("ready");
  });

  it("connects to a kernel that was there before its notebook, where that speaks of tapedebug", async () => {
    const kernel = new Kernel();
    const { session } = start(kernel, true);
    await settle();
    expect(session.state).toBe("ready");
  });

  it("tells what became of the kernel, until another answers", async () => {
    for (const [lost, tell] of DEATHS) {
      const kernel = new Kernel();
      const { context, session } = start(kernel, true);
      await settle();
      expect(session.process).toBe("p1");
      tell(context);
      await settle();
      expect([session.lost, session.process]).toEqual([lost, ""]);
      context.statusChanged.emit("idle");
      expect(session.lost).toBe(lost);
      kernel.process = "p2";
      context.ran("%load_ext tapedebug");
      await settle();
      expect([session.state, session.lost, session.process]).toEqual(["ready", "", "p2"]);
    }
  });

  it("arms the recording of the next cell, and follows what the kernel says of it", async () => {
    const kernel = new Kernel();
    const { session } = start(kernel);
    await session.arm(true);
    expect(kernel.sent.at(-1)).toMatchObject({ type: "arm", on: true });
    kernel.comm?.say({ type: "next", state: "armed", tape: null, message: "" });
    await settle();
    expect(session.next.state).toBe("armed");
    kernel.comm?.say({ type: "next", state: "off", tape: 4, message: "That cell failed." });
    await settle();
    expect(session.next).toMatchObject({ state: "off", tape: 4, message: "That cell failed." });
    kernel.loaded = false;
    await expect(start(Object.assign(new Kernel(), { loaded: false })).session.arm(true)).rejects.toThrow(
      "tapedebug is not loaded in this kernel: run %load_ext tapedebug.",
    );
  });

  it("looks again while something goes on, as long as somebody watches", async () => {
    vi.useFakeTimers();
    try {
      const kernel = new Kernel();
      let recording = true;
      kernel.answer = () => ({ type: "tapes", tapes: [{ ...ROW, recording }], busy: recording });
      const { session } = start(kernel);
      session.watch();
      await vi.advanceTimersByTimeAsync(10);
      expect(session.busy).toBe(true);
      const before = kernel.sent.length;
      await vi.advanceTimersByTimeAsync(1_600);
      expect(kernel.sent.length).toBe(before + 1);
      recording = false;
      await vi.advanceTimersByTimeAsync(1_600);
      expect(session.busy).toBe(false);
      await vi.advanceTimersByTimeAsync(10_000);
      expect(kernel.sent.length).toBe(before + 2);
    } finally {
      vi.useRealTimers();
    }
  });

  it("greets a kernel again that heard nothing, but not one that is busy", async () => {
    vi.useFakeTimers();
    try {
      const kernel = new Kernel();
      kernel.deaf = true;
      const { session } = start(kernel);
      session.watch();
      await vi.advanceTimersByTimeAsync(4_000);
      const first = kernel.comm;
      expect(session.state).toBe("connecting");
      kernel.status = "busy";
      await vi.advanceTimersByTimeAsync(4_000);
      expect(kernel.comm).toBe(first);
      Object.assign(kernel, { status: "idle", deaf: false });
      await vi.advanceTimersByTimeAsync(5_000);
      expect(session.state).toBe("ready");
      expect(first?.isDisposed).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  it("says that it was closed, and asks nothing more", async () => {
    const kernel = new Kernel();
    const { session, context } = start(kernel, true);
    await settle();
    const states: string[] = [];
    session.changed.connect(() => states.push(session.state));
    context.disposed.emit();
    expect(states).toEqual(["closed"]);
    expect(kernel.comm?.isDisposed).toBe(true);
  });
});
