/** A kernel that speaks as `tapedebug/notebook/_comm.py` does, without a JupyterLab. */
import type { ISessionContext } from "@jupyterlab/apputils";
import { Signal } from "@lumino/signaling";
import type { Numbered, Question, TapeRow } from "../../src/lab/protocol.js";
import { TapeSession } from "../../src/lab/session.js";

export const ROW: TapeRow = {
  tape: 3,
  name: "net",
  madeAt: "In [4]:12",
  launches: 11,
  arrays: 7,
  onOverwrite: "preserve",
  backwardRuns: 1,
  preservedBytes: 0,
  recording: false,
  checking: false,
  verdict: "NOT CHECKED",
  partial: false,
  findings: null,
};

const OFF = { state: "off", tape: null, message: "" };

/** A kernel that speaks as `tapedebug/notebook/_comm.py` does, or knows no tapedebug. */
export class Kernel {
  id = Math.random().toString(36);
  process = "p1";
  status = "idle";
  loaded = true;
  /** It is starting: what it is told is lost. */
  deaf = false;
  language = "python";
  sent: Numbered<Question>[] = [];
  code: string[] = [];
  comm: Comm | null = null;
  silent = false;
  /** The tape that a kernel of some tests lists. */
  row: typeof ROW | null = null;
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
    if (this.kernel.deaf) return;
    if (this.kernel.loaded) this.say({ type: "hello", version: "0.1.0", process: this.kernel.process, next: OFF });
    else queueMicrotask(() => this.onClose({}));
  }

  send(question: Numbered<Question>) {
    this.kernel.sent.push(question);
    if (this.kernel.silent) return;
    const { buffers, ...answer } = this.kernel.answer(question) as { buffers?: ArrayBufferView[] };
    this.say({ ...answer, request: question.request }, buffers);
  }

  say(data: object, buffers?: ArrayBufferView[]) {
    queueMicrotask(() => this.onMsg({ content: { data }, buffers }));
  }

  dispose() {
    this.isDisposed = true;
  }
}

export class Context {
  kernelChanged = new Signal<this, unknown>(this);
  statusChanged = new Signal<this, string>(this);
  iopubMessage = new Signal<this, unknown>(this);
  disposed = new Signal<this, void>(this);
  session: { kernel: Kernel } | null;
  path = "net.ipynb";

  constructor(kernel: Kernel | null) {
    this.session = kernel === null ? null : { kernel };
  }

  ran(code: string) {
    this.begins(code);
    this.executed();
  }

  /** A cell begins to run. */
  begins(code: string, id = "1") {
    const parent_header = { msg_type: "execute_request", msg_id: id };
    this.status("busy", parent_header);
    this.iopubMessage.emit({ header: { msg_type: "execute_input" }, parent_header, content: { code } });
  }

  /** As JupyterLab does it where a kernel died, and the server starts it again. */
  autorestarts() {
    queueMicrotask(() => this.statusChanged.emit("autorestarting"));
    this.statusChanged.emit("restarting");
  }

  executed(id = "1") {
    this.status("idle", { msg_type: "execute_request", msg_id: id });
  }

  /** The kernel handles a message that is no cell. */
  handles(msg_type: string) {
    this.status("busy", { msg_type, msg_id: "9" });
  }

  private status(state: string, parent_header: object) {
    if (this.session !== null) this.session.kernel.status = state;
    this.iopubMessage.emit({ header: { msg_type: "status" }, parent_header, content: { execution_state: state } });
  }
}

/** What is said of a kernel, and how JupyterLab tells of it. */
export const DEATHS: readonly (readonly [string, (context: Context) => void])[] = [
  ["was restarted", (context) => context.statusChanged.emit("restarting")],
  ["died", (context) => context.autorestarts()],
  ["died", (context) => context.statusChanged.emit("dead")],
  ["was shut down", (context) => context.statusChanged.emit("terminating")],
];

export const settle = () => new Promise((resolve) => setTimeout(resolve, 1));

export function start(kernel: Kernel | null, speaks = false) {
  const context = new Context(kernel);
  const session = new TapeSession(
    context as unknown as ISessionContext,
    () => "net.ipynb",
    () => speaks,
  );
  return { context, session };
}
