import type { ISessionContext } from "@jupyterlab/apputils";
import { Signal } from "@lumino/signaling";
import { describe, expect, it } from "vitest";
import type { Numbered, Question } from "../../src/lab/protocol.js";
import { TapeSession } from "../../src/lab/session.js";

const ROW = {
  tape: 3,
  name: "net",
  madeAt: "In [4]:12",
  launches: 11,
  arrays: 7,
  onOverwrite: "preserve",
  backwardRuns: 1,
  preservedBytes: 0,
  recording: false,
  verdict: "NOT CHECKED",
  findings: null,
};

/** A kernel that speaks as `tapedebug/notebook/_comm.py` does, or knows no tapedebug. */
class Kernel {
  id = Math.random().toString(36);
  status = "idle";
  loaded = true;
  language = "python";
  sent: Numbered<Question>[] = [];
  code: string[] = [];
  comm: Comm | null = null;
  silent = false;
  answer: (question: Numbered<Question>) => object = (question) =>
    question.type === "list" ? { type: "tapes", tapes: [ROW] } : { type: "done" };

  get info() {
    return Promise.resolve({ language_info: { name: this.language } });
  }

  createComm() {
    this.comm = new Comm(this);
    return this.comm;
  }

  requestExecute({ code }: { code: string }) {
    this.code.push(code);
    this.loaded = true;
    return { done: Promise.resolve({ content: { status: "ok" } }) };
  }
}

class Comm {
  isDisposed = false;
  onMsg: (message: unknown) => void = () => {};
  onClose: (message: unknown) => void = () => {};
  constructor(private readonly kernel: Kernel) {}

  open() {
    if (this.kernel.loaded) this.say({ type: "hello", version: "0.1.0" });
    else queueMicrotask(() => this.onClose({}));
  }

  send(question: Numbered<Question>) {
    this.kernel.sent.push(question);
    if (!this.kernel.silent) this.say({ ...this.kernel.answer(question), request: question.request });
  }

  say(data: object) {
    queueMicrotask(() => this.onMsg({ content: { data } }));
  }

  dispose() {
    this.isDisposed = true;
  }
}

class Context {
  kernelChanged = new Signal<this, unknown>(this);
  statusChanged = new Signal<this, string>(this);
  iopubMessage = new Signal<this, unknown>(this);
  disposed = new Signal<this, void>(this);
  session: { kernel: Kernel } | null;

  constructor(kernel: Kernel | null) {
    this.session = kernel === null ? null : { kernel };
  }

  executed() {
    const header = { msg_type: "status" };
    this.iopubMessage.emit({
      header,
      parent_header: { msg_type: "execute_request" },
      content: { execution_state: "idle" },
    });
  }
}

const settle = () => new Promise((resolve) => setTimeout(resolve, 1));

function start(kernel: Kernel | null) {
  const context = new Context(kernel);
  const session = new TapeSession(context as unknown as ISessionContext, () => "net.ipynb");
  return { context, session };
}

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

  it("asks again after each execution, while somebody looks", async () => {
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
    expect(kernel.sent.length).toBe(before + 1);
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
    expect(session.state).toBe("gone");
    expect(session.tapes).toEqual([]);
    context.statusChanged.emit("idle");
    expect(session.state).toBe("absent");
    context.executed();
    await settle();
    expect(session.state).toBe("ready");
    expect(session.tapes).toEqual([ROW]);
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

  it("rejects with the kernel's words, and when the kernel goes away", async () => {
    const kernel = new Kernel();
    const { context, session } = start(kernel);
    session.watch();
    await settle();
    kernel.answer = () => ({ type: "error", message: "Tape 9 is not alive any more. Live tapes: 3." });
    await expect(session.ask({ type: "trace", tape: 9 })).rejects.toThrow(
      "Tape 9 is not alive any more. Live tapes: 3.",
    );
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
});
