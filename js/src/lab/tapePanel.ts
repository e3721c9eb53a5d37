/** One live tape in a tab: the panel of the notebook cell, with its checks run over the comm, and what became of its kernel. */
import { Signal } from "@lumino/signaling";
import { Widget } from "@lumino/widgets";
import { headOf } from "../trace/open.js";
import { isRecord } from "../trace/reader.js";
import { NOTHING, PanelStore, Unanswered } from "../trace/store.js";
import { loadAllChunks } from "../views/chunks.js";
import { mountPanel } from "../views/panel.js";
import { element } from "./dom.js";
import { type Answer, busyMessage, type Question, type TapeRow } from "./protocol.js";
import { AGAIN, lossMessage, type TapeSession } from "./session.js";
import { amount, title } from "./sidebarRows.js";
import type { ITapes, TapePlace } from "./tokens.js";

void loadAllChunks().catch(() => undefined); // imported again when they are needed

/** The tape of a tab, with enough to find it again after the page is reloaded. */
export interface TapeId {
  readonly path: string;
  readonly process: string;
  readonly tape: number;
  readonly name: string;
}

type Shown = Extract<Answer, { readonly type: "trace" }>;

/** The notice of a tab above the panel, with its actions. */
interface Notice {
  readonly text: string;
  readonly action: "refresh" | "open" | null;
}

const SILENT: Notice = { text: "", action: null };

export class TapePanel extends Widget {
  readonly store: PanelStore;
  readonly noticeChanged: Signal<this, void> = new Signal(this);
  notice: Notice = SILENT;
  private readonly body = element("div", "td-live-panel");
  private session: TapeSession | null = null;
  private watching: { dispose(): void } | null = null;
  /** The session of the tab's notebook that is asked whether it has the tape, and whether it has been asked. */
  private candidate: { readonly session: TapeSession; asked: boolean } | null = null;
  /** The kernel is gone, and the tape with it; if only the notebook was closed, it may come back. */
  private gone = false;
  private unmount: (() => void) | null = null;
  /** The entry of the tape in the kernel's list, to detect changes. */
  private known: TapeRow | null = null;
  private launches = 0;
  /** The panel shows an unfinished diagnosis. */
  private unfinished = false;
  private label: string;

  constructor(
    private readonly tapes: ITapes,
    readonly tapeId: TapeId,
  ) {
    super();
    this.addClass("td-tab");
    this.addClass("td-live");
    this.node.append(this.body);
    this.label = tapeId.name;
    const { tape } = tapeId;
    this.store = new PanelStore(
      { canRun: false },
      {
        run: (only) => this.send({ type: "run", tape, mask: only ?? this.store.get("mask") }),
        cancel: () => this.send({ type: "cancel", tape }),
        exportReport: () => this.send({ type: "export", tape }),
        ask: (question) =>
          this.alive && this.session !== null
            ? this.session.askAbout(tape, question)
            : Promise.reject(new Unanswered("This needs the kernel that recorded the tape, which is gone.")),
      },
    );
    tapes.changed.connect(this.onSessionChanged, this);
  }

  /** True if the tape still exists in the kernel. */
  get alive(): boolean {
    return this.session?.state === "ready" && this.session.process === this.tapeId.process;
  }

  get name(): string {
    return title({ tape: this.tapeId.tape, name: this.label });
  }

  /** The state of the tab that is saved for a reload of the page. */
  get saved(): TapeId {
    return { ...this.tapeId, name: this.label };
  }

  /** Attaches to the session of the tape's kernel, if there is one; otherwise shows what the tab waits for. */
  find(): void {
    for (const session of this.tapes.sessions) this.onSessionChanged(this.tapes, session);
    if (this.session === null) this.setNotice({ text: this.waitingText(), action: "open" });
  }

  attach(session: TapeSession): void {
    if (this.session === session) return;
    this.detach();
    this.session = session;
    session.news.connect(this.onAnswer, this);
    session.listed.connect(this.compare, this);
    this.watching = session.watch();
  }

  async load(place?: TapePlace): Promise<void> {
    const { session, tapeId } = this;
    if (session === null) throw new Error(this.waitingText());
    const answer = await session.ask({ type: "trace", tape: tapeId.tape });
    if (this.isDisposed) return;
    if (answer.type === "busy") throw new Error(busyMessage(answer.holder, "Open the tape again."));
    if (answer.type !== "trace")
      throw new Error(`The kernel answered "${answer.type}" when asked for tape ${tapeId.tape}.`);
    this.take(answer);
    this.known = session.tapes.find(({ tape }) => tape === tapeId.tape) ?? null;
    this.unmount ??= mountPanel(this.body, this.store, { fill: true });
    this.goTo(place);
    this.setNotice(SILENT);
    session.refresh(); // the list may lack the tape's name, or its findings
  }

  private take(answer: Shown): void {
    const first = this.unmount === null;
    this.store.set({
      trace: answer.trace,
      checks: answer.checks,
      canRun: true,
      ...(first ? { mask: answer.mask } : {}),
      ...(this.store.get("canRun") ? {} : { status: "" }), // it belonged to the previous kernel
    });
    this.label = nameOf(answer.trace) ?? this.label;
    this.launches = launchesOf(answer.trace);
    this.unfinished = this.session?.diagnosing.has(this.tapeId.tape) ?? false;
  }

  /** Shows a launch or a finding. */
  goTo(place: TapePlace | undefined): void {
    if (place === undefined) return;
    const { launch, finding } = place;
    this.store.select(finding !== null ? { ...NOTHING, finding } : { ...NOTHING, launch });
  }

  override dispose(): void {
    if (this.isDisposed) return;
    this.tapes.changed.disconnect(this.onSessionChanged, this);
    // the kernel cancels the checks of this tab, and can release its tape
    if (this.alive) this.session?.ask({ type: "forget", tape: this.tapeId.tape }).catch(() => undefined);
    this.detach();
    this.unmount?.();
    super.dispose();
  }

  private detach(): void {
    this.watching?.dispose();
    this.watching = null;
    this.candidate = null;
    this.session?.news.disconnect(this.onAnswer, this);
    this.session?.listed.disconnect(this.compare, this);
    this.session = null;
  }

  private setNotice(notice: Notice): void {
    if (notice.text === this.notice.text && notice.action === this.notice.action) return;
    this.notice = notice;
    this.noticeChanged.emit();
  }

  private send(question: Question): void {
    if (this.session === null) return;
    this.session.ask(question).catch((error: Error) => {
      if (this.alive) this.store.set({ running: false, asked: null, status: error.message });
    });
  }

  private onAnswer(_: TapeSession, answer: Answer): void {
    if (!("tape" in answer) || answer.tape !== this.tapeId.tape) return;
    if (answer.type === "state") this.store.set(answer.state);
    else if (answer.type === "trace" && this.unmount !== null && !this.store.get("running")) this.take(answer);
  }

  /** A session changed: ours may be gone, or another one may have our kernel again. */
  private onSessionChanged(_: ITapes, session: TapeSession): void {
    if (session === this.session && !this.alive) {
      if (session.state !== "connecting") this.lose(session);
    } else if (session === this.session) {
      if (this.gone) this.revive(session);
      else if (this.unfinished && !session.diagnosing.has(this.tapeId.tape)) this.reload();
    } else if (!this.alive && !session.isDisposed) {
      if (session.state === "ready" && session.process === this.tapeId.process) this.revive(session);
      else if (this.session === null && !this.gone && session.path === this.tapeId.path) this.checkSession(session);
    }
  }

  private revive(session: TapeSession): void {
    this.gone = false;
    this.attach(session);
    this.load().catch((error: Error) => this.setNotice({ text: error.message, action: "refresh" }));
  }

  /** The notebook is open again: checks if its kernel is the one that has the tape. */
  private checkSession(session: TapeSession): void {
    if (this.candidate?.session !== session) {
      this.candidate = { session, asked: false };
      this.watching?.dispose();
      this.watching = session.watch();
    }
    const { state } = session;
    if (state === "connecting") this.candidate.asked = true;
    if (state === "ready" || (state === "absent" && this.candidate.asked)) {
      const text = elsewhere(session.name);
      this.setNotice({
        text: this.unmount === null ? `${text} Close this tab.` : `${text} ${LAST_STATE}`,
        action: null,
      });
    }
  }

  /** Later events of a kernel that is gone do not change the message: the first one names the cause. */
  private lose(session: TapeSession): void {
    const closed = session.state === "closed";
    if (!this.gone) {
      const ran = this.store.get("running") || this.store.get("asked") !== null;
      this.gone = !closed;
      const text = `${lossMessage(session)} ${ran ? CHECKS_RAN : LAST_STATE}`;
      this.setNotice(closed ? { text, action: "open" } : { text: `${text} ${AGAIN}`, action: null });
      this.store.set({ canRun: false, running: false, asked: null, status: ran ? CHECKS_STOPPED : "" });
    }
    if (closed) this.detach();
  }

  /** Updates the tab if more was recorded, or if the tape was diagnosed. */
  private compare(session: TapeSession): void {
    if (!this.alive || this.unmount === null) return;
    const row = session.tapes.find(({ tape }) => tape === this.tapeId.tape);
    if (row === undefined) {
      this.store.set({ canRun: false });
      this.setNotice({ text: `The program no longer holds this tape. ${LAST_STATE}`, action: null });
      return;
    }
    const before = this.known;
    this.known = row;
    if (row.launches !== this.launches) {
      const now = amount(row.launches, "launch", "launches");
      const text = `The tape has ${now} now; this shows the first ${this.launches.toLocaleString("en")}.`;
      this.setNotice({
        text: row.launches > this.launches ? text : `The tape was recorded again: it has ${now} now.`,
        action: "refresh",
      });
      return;
    }
    const news = (one: TapeRow): string => JSON.stringify([one.verdict, one.findings, one.backwardRuns]);
    if (before !== null && news(before) !== news(row)) this.reload();
  }

  private reload(): void {
    if (this.store.get("running")) return;
    this.unfinished = false;
    this.load().catch((error: Error) => this.store.set({ status: error.message }));
  }

  private waitingText(): string {
    return `This tape is in the kernel of ${this.tapeId.path}. Open it to see the tape.`;
  }
}

const LAST_STATE = "This is the last known state, read-only.";
const CHECKS_RAN = "Checks were running; the results up to then are shown, read-only.";
const CHECKS_STOPPED = "The checks were stopped; the results up to then are shown.";

function elsewhere(name: string): string {
  return `The kernel of ${name} was restarted, and this tape is gone. Record it again.`;
}

function nameOf(trace: unknown): string | null {
  const { name } = headOf(trace);
  return typeof name === "string" ? name : null;
}

function launchesOf(trace: unknown): number {
  const { tape } = headOf(trace);
  const launches = isRecord(tape) ? tape.launches : null;
  return typeof launches === "number" ? launches : 0;
}
