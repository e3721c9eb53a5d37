/** The live tapes of the kernel of a notebook or console: one comm, opened when it is first needed, and again after a restart. */
import type { ISessionContext } from "@jupyterlab/apputils";
import type { Kernel, KernelMessage } from "@jupyterlab/services";
import { DisposableDelegate, type IDisposable } from "@lumino/disposable";
import { type ISignal, Signal } from "@lumino/signaling";
import { Questions } from "../trace/questions.js";
import type { Question as Asked, Answer as Given } from "../trace/store.js";
import { type Answer, asJson, type NextCell, type Question, readAnswer, TARGET, type TapeRow } from "./protocol.js";

/**
 * - `no-kernel`: the notebook has none; `foreign`: it is not a Python kernel
 * - `connecting`: asked, no answer yet; `ready`: connected
 * - `absent`: the kernel runs, tapedebug is not loaded in it
 * - `gone`: it was lost or is being restarted; `dead`: it does not restart by itself
 * - `closed`: the notebook or console was closed
 */
export type SessionState = "no-kernel" | "foreign" | "connecting" | "ready" | "absent" | "gone" | "dead" | "closed";

type Loss = readonly [how: string, state: "gone" | "dead"];

/** The events of a kernel, as messages, and whether it comes back by itself. */
const LOST: Readonly<Partial<Record<Kernel.Status, Loss>>> = {
  restarting: ["was restarted", "gone"],
  autorestarting: ["died", "gone"],
  dead: ["died", "dead"],
  terminating: ["was shut down", "dead"],
};

/** Milliseconds between updates while the kernel is busy. */
const POLL_MS = 1_500;
/** Milliseconds after which an idle kernel that has not answered is greeted again: it may have missed the first greetTimer while it started. */
const GREET_MS = 5_000;
const OFF: NextCell = { state: "off", tape: null, message: "" };
const NOT_LOADED = "tapedebug is not loaded in this kernel: run %load_ext tapedebug.";
/** Code that may load tapedebug into a kernel. */
const MENTION = /tapedebug/;

export class TapeSession implements IDisposable {
  readonly changed: ISignal<this, void>;
  /** Messages that the kernel sends without a request: the progress of runs. */
  readonly news: ISignal<this, Answer>;
  /** The list of tapes has been brought up to date. */
  readonly listed: ISignal<this, void>;
  state: SessionState = "no-kernel";
  /** The event that ended the kernel: "was restarted", "died". */
  lost = "";
  /** Which process answers; empty if none does. */
  process = "";
  tapes: readonly TapeRow[] = [];
  /** A cell is running. */
  busy = false;
  next: NextCell = OFF;
  /** Tapes whose diagnosis this page has asked for. */
  readonly diagnosing = new Set<number>();
  /** The last error, as the kernel worded it. */
  error = "";

  private readonly changedSignal = new Signal<this, void>(this);
  private readonly newsSignal = new Signal<this, Answer>(this);
  private readonly listedSignal = new Signal<this, void>(this);
  private pollTimer: ReturnType<typeof setTimeout> | undefined;
  private greetTimer: ReturnType<typeof setTimeout> | undefined;
  /** The request whose code the kernel is executing. Its status alone does not tell: it is "busy" with any message, ours too. */
  private executing: string | null = null;
  /** True if code that mentions tapedebug was executed, so that it may be loaded. */
  private mentioned = false;
  private kernel: Kernel.IKernelConnection | null = null;
  private comm: Kernel.IComm | null = null;
  private watchers = 0;
  private requests = 0;
  private readonly open = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>();
  private disposed = false;
  private readonly questions = new Questions<{ readonly tape: number; readonly question: Asked }>((request, about) => {
    if (this.comm === null) throw new Error("not connected");
    this.comm.send(asJson({ type: "ask", request, ...about }));
  });

  constructor(
    readonly context: ISessionContext,
    private readonly label: () => string,
    /** True if the document contains code that mentions tapedebug: a kernel that was running before may have loaded it. */
    private readonly mentionsTapedebug: () => boolean = () => false,
  ) {
    this.changed = this.changedSignal;
    this.news = this.newsSignal;
    this.listed = this.listedSignal;
    context.kernelChanged.connect(this.useCurrentKernel, this);
    context.statusChanged.connect(this.statusChanged, this);
    context.iopubMessage.connect(this.onIopubMessage, this);
    context.disposed.connect(this.dispose, this);
    this.useCurrentKernel();
  }

  get isDisposed(): boolean {
    return this.disposed;
  }

  /** The notebook's name, for titles. */
  get name(): string {
    return this.label();
  }

  /** The notebook has another name now. */
  renamed(): void {
    this.emit();
  }

  /** The path of the notebook on the server. */
  get path(): string {
    return this.context.path;
  }

  get kernelId(): string | null {
    return this.kernel?.id ?? null;
  }

  /** Keeps the session connected and its list fresh until the result is disposed. */
  watch(): IDisposable {
    this.watchers += 1;
    this.refresh();
    return new DisposableDelegate(() => {
      this.watchers -= 1;
    });
  }

  /** Asks for the list of tapes, connecting first if necessary. */
  refresh(): void {
    const { comm } = this;
    if (comm === null) {
      void this.connect();
      return;
    }
    if (this.state !== "ready") return;
    if (this.executing !== null && !this.busy) {
      this.busy = true;
      this.emit();
    }
    this.ask({ type: "list" }).then(
      (answer) => {
        if (answer.type === "tapes") this.tapes = answer.tapes;
        this.busy = answer.type === "busy" || (answer.type === "tapes" && answer.busy === true);
        this.emit();
        if (answer.type === "tapes" && !this.busy) this.listedSignal.emit();
        this.pollLater();
      },
      // for a kernel that is gone, the reason is a better message than a missing answer
      (error: Error) => comm === this.comm && this.fail(error),
    );
  }

  /** Arms or cancels the recording of the next cell. */
  async arm(on: boolean): Promise<void> {
    if (this.state !== "ready") {
      await this.connect();
      await this.settled();
    }
    if ((this.state as SessionState) !== "ready") throw new Error(NOT_LOADED);
    await this.ask({ type: "arm", on });
  }

  /** While the kernel is busy and the side bar is visible, the list is updated periodically. */
  private pollLater(): void {
    clearTimeout(this.pollTimer);
    const goesOn = this.busy || this.tapes.some((row) => row.recording || row.checking);
    if (this.watchers > 0 && goesOn && this.state === "ready")
      this.pollTimer = setTimeout(() => this.refresh(), POLL_MS);
  }

  /** Diagnoses a tape in the kernel; the list then has its findings. */
  async diagnose(tape: number): Promise<void> {
    this.diagnosing.add(tape);
    this.error = "";
    this.emit();
    try {
      const answer = await this.ask({ type: "diagnose", tape });
      if (answer.type === "tapes") this.tapes = answer.tapes;
      this.listedSignal.emit();
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    } finally {
      this.diagnosing.delete(tape);
      this.emit();
    }
  }

  /** The tapes that the kernel is diagnosing, for this page or another. */
  get diagnosed(): readonly number[] {
    const rows = this.tapes.filter((row) => row.diagnosing === true).map((row) => row.tape);
    return [...new Set([...this.diagnosing, ...rows])];
  }

  /** Ends the diagnoses of some tapes, or their checks; what was found so far stays. */
  async cancel(...tapes: readonly number[]): Promise<void> {
    await Promise.all(tapes.map((tape) => this.ask({ type: "cancel", tape })));
  }

  /** Sends a question; rejects with the kernel's message, or when the kernel goes away before it answers. */
  ask(question: Question): Promise<Answer> {
    const comm = this.comm;
    if (comm === null) return Promise.reject(new Error("The kernel is not connected."));
    this.requests += 1;
    const request = this.requests;
    return new Promise((resolve, reject) => {
      this.open.set(request, { resolve, reject });
      comm.send(asJson({ ...question, request }));
    });
  }

  /** Sends a question of a panel about a tape. */
  askAbout(tape: number, question: Asked): Promise<Given> {
    return this.questions.ask({ tape, question });
  }

  /** The number of the newest tape, connecting first if necessary. */
  async newest(): Promise<number> {
    if (this.state !== "ready") {
      await this.connect();
      await this.settled();
    }
    if (this.state !== "ready") throw new Error(NOT_LOADED);
    const answer = await this.ask({ type: "list" });
    if (answer.type === "busy") throw new Error("A cell is running. Try again when it is done.");
    if (answer.type !== "tapes") throw new Error(`The kernel answered "${answer.type}" when asked for its tapes.`);
    this.tapes = answer.tapes;
    const numbers = answer.tapes.map((row) => row.tape);
    if (numbers.length === 0) throw new Error("There is no live tape in this kernel. Record one with %%tape.");
    return Math.max(...numbers);
  }

  /** Runs `%load_ext tapedebug` in the kernel, for the button of the side bar. */
  async load(): Promise<void> {
    const kernel = this.kernel;
    if (kernel === null) return;
    const reply = await kernel.requestExecute({ code: "%load_ext tapedebug", store_history: false }).done;
    if (reply.content.status === "error") {
      this.fail(new Error(`${reply.content.ename}: ${reply.content.evalue}`));
    } else if (this.comm === null) {
      await this.connect();
    }
  }

  dispose(): void {
    if (this.disposed) return;
    this.disposed = true;
    clearTimeout(this.pollTimer);
    clearTimeout(this.greetTimer);
    this.drop("closed");
    Signal.clearData(this);
  }

  private settled(): Promise<void> {
    if (this.state !== "connecting") return Promise.resolve();
    return new Promise((resolve) => {
      const listen = () => {
        if (this.state === "connecting") return;
        this.changedSignal.disconnect(listen);
        resolve();
      };
      this.changedSignal.connect(listen);
    });
  }

  private emit(): void {
    this.changedSignal.emit();
  }

  private fail(error: Error): void {
    this.error = error.message;
    this.busy = false;
    this.emit();
  }

  /** Replaces the kernel by the notebook's current one. */
  private useCurrentKernel(): void {
    const kernel = this.context.session?.kernel ?? null;
    if (kernel === this.kernel) return;
    this.lost = this.kernel === null ? "" : kernel === null ? "was shut down" : "was replaced by another";
    this.drop(kernel === null ? "no-kernel" : "absent");
    this.kernel = kernel;
    if (this.watchers > 0 || this.mentionsTapedebug()) void this.connect();
  }

  private statusChanged(_: ISessionContext, status: Kernel.Status): void {
    const lost = LOST[status];
    // JupyterLab first reports the death of a kernel as a restart, and right after that as a death
    if (lost !== undefined && status === "restarting") queueMicrotask(() => this.lose(...lost));
    else if (lost !== undefined) this.lose(...lost);
    else if (this.lacking && status === "idle") this.setState("absent");
  }

  private get lacking(): boolean {
    return this.state === "gone" || this.state === "dead";
  }

  /** Ends the connection. The first event that is reported before the kernel is back is the cause. */
  private lose(...[how, state]: Loss): void {
    if (this.disposed || this.state === state) return;
    if (!this.lacking) this.lost = how;
    this.drop(state);
  }

  /** After each execution in the kernel, by any client, there may be new tapes. */
  private onIopubMessage(_: ISessionContext, message: KernelMessage.IMessage): void {
    const content = message.content as { execution_state?: string; code?: string };
    const parent = message.parent_header as { msg_type?: string; msg_id?: string };
    const request = parent.msg_id ?? "";
    if (message.header.msg_type === "execute_input") {
      this.executing = request;
      if (MENTION.test(content.code ?? "")) this.mentioned = true;
      if (this.watchers > 0 && this.comm !== null) this.refresh(); // a cell has begun: it may record
    }
    if (message.header.msg_type !== "status") return;
    const done = content.execution_state === "idle" && parent.msg_type === "execute_request";
    if (done && request === this.executing) this.executing = null;
    const reason = this.watchers > 0 || this.mentioned || this.state === "ready";
    if (done && reason) this.refresh();
  }

  private async connect(): Promise<void> {
    const kernel = this.kernel;
    if (kernel === null || this.comm !== null) return;
    const info = await kernel.info;
    if (kernel !== this.kernel || this.comm !== null || this.disposed) return;
    if (info.language_info.name !== "python") {
      this.setState("foreign");
      return;
    }
    const comm = kernel.createComm(TARGET);
    this.comm = comm;
    this.setState("connecting");
    comm.onMsg = (message) => {
      const buffers = views(message.buffers);
      if (comm !== this.comm || this.questions.accept(message.content.data, buffers)) return;
      this.receive(message.content.data, buffers);
    };
    // a kernel without tapedebug has no such target, and closes the comm at once
    comm.onClose = () => {
      if (comm === this.comm) this.drop("absent");
    };
    comm.open();
    clearTimeout(this.greetTimer);
    this.greetTimer = setTimeout(() => this.greetOnceMore(comm), GREET_MS);
  }

  private greetOnceMore(comm: Kernel.IComm): void {
    if (comm !== this.comm || this.state !== "connecting") return;
    if (this.kernel?.status === "busy") {
      this.greetTimer = setTimeout(() => this.greetOnceMore(comm), GREET_MS); // it answers after the cell
      return;
    }
    this.comm = null;
    comm.dispose();
    void this.connect();
  }

  private receive(data: unknown, buffers: readonly DataView[]): void {
    const answer = readAnswer(data, buffers);
    if (answer === null) return;
    if (answer.type === "hello") {
      this.process = answer.process;
      this.next = answer.next;
      this.lost = "";
      this.setState("ready");
      this.refresh();
      return;
    }
    if (answer.type === "next") {
      this.next = answer;
      this.emit();
      return;
    }
    if (answer.type === "row") {
      this.tapes = this.tapes.map((row) => (row.tape === answer.row.tape ? answer.row : row));
      this.emit();
      return;
    }
    const waiting = answer.request === undefined ? undefined : this.open.get(answer.request);
    if (waiting === undefined || answer.request === undefined) {
      this.newsSignal.emit(answer);
      return;
    }
    this.open.delete(answer.request);
    if (answer.type === "error") waiting.reject(new Error(answer.message));
    else waiting.resolve(answer);
  }

  private setState(state: SessionState): void {
    if (state === this.state) return;
    this.state = state;
    this.emit();
  }

  private drop(state: SessionState): void {
    const comm = this.comm;
    this.comm = null;
    if (comm !== null && !comm.isDisposed) comm.dispose();
    for (const waiting of this.open.values()) waiting.reject(new Error("The kernel went away before it answered."));
    this.open.clear();
    this.questions.end("The kernel went away before it answered.");
    this.tapes = [];
    this.busy = false;
    this.executing = null;
    this.mentioned = false;
    this.next = OFF;
    this.process = "";
    this.diagnosing.clear();
    this.error = "";
    this.state = state;
    this.emit();
  }
}

/** The message for every tape whose kernel is gone. */
export function lossMessage({ state, name, lost }: TapeSession): string {
  if (state === "closed") return `${name} was closed.`;
  return `The kernel of this tape ${lost === "" ? "is gone" : lost}.`;
}

export const AGAIN = "Record the tape again to continue.";

function views(buffers: readonly (ArrayBuffer | ArrayBufferView)[] | undefined): DataView[] {
  return (buffers ?? []).map((b) =>
    ArrayBuffer.isView(b) ? new DataView(b.buffer, b.byteOffset, b.byteLength) : new DataView(b),
  );
}
