/**
 * Reports that a kernel is silent while it should work. Not every host tells a widget that its kernel has died, so the kernel
 * sends a heartbeat every second (`beat`), whose absence is detected here.
 */
import type { Panel } from "./state.js";

/** Seconds without a sign of life after which a run may be lost. */
export const HEARTBEAT_TIMEOUT = 12;
/** Seconds within which the kernel should confirm a press of *Run*. */
export const ANSWER_SECONDS = 6;

const MESSAGES = ["beat", "progress", "checks", "running", "trace"] as const;

/** The state of a run, as far as this panel can tell. */
export interface Silence {
  readonly seconds: number;
  readonly text: string;
}

export class Heartbeat {
  private lastMessage = Date.now();
  private timer = 0;
  private silence: Silence | null = null;

  constructor(
    private readonly panel: Panel,
    private readonly changed: (silence: Silence | null) => void,
  ) {
    const { store, lifetime } = panel;
    lifetime.add(
      store.subscribe((fields) => {
        if (MESSAGES.some((field) => fields.has(field)) || fields.has("asked")) this.restart();
        else if (fields.has("status") && this.silence === null) this.lastMessage = Date.now();
      }),
    );
    lifetime.add(() => window.clearInterval(this.timer));
    this.restart();
  }

  /** Restarts the wait, after a message or a new request. */
  private restart(): void {
    const { running, asked } = this.panel.store.value;
    this.lastMessage = Date.now();
    this.report(null);
    window.clearInterval(this.timer);
    this.timer = running || asked !== null ? window.setInterval(() => this.check(), 1000) : 0;
  }

  private check(): void {
    const { running, beat } = this.panel.store.value;
    const seconds = Math.round((Date.now() - this.lastMessage) / 1000);
    // a tapedebug without heartbeats in the kernel may be silent for long
    const timeout = running ? (beat > 0 ? HEARTBEAT_TIMEOUT : 5 * HEARTBEAT_TIMEOUT) : ANSWER_SECONDS;
    if (seconds < timeout) return;
    const text = running
      ? `No news from the kernel for ${seconds} s: it is busy with one long step, or it has died.`
      : `The kernel has not answered for ${seconds} s: it is busy, or it has died.`;
    this.report({ seconds, text });
  }

  /** Stops waiting; results so far stay. */
  giveUp(): void {
    const { store } = this.panel;
    const { running } = store.value;
    store.set({
      running: false,
      asked: null,
      status: running
        ? "Stopped waiting for the kernel; the results so far stay. If it has died, run the notebook's cells again."
        : "Stopped waiting for the kernel. If it has died, run the notebook's cells again.",
    });
  }

  private report(silence: Silence | null): void {
    if (silence === null && this.silence === null) return;
    const before = this.silence;
    this.silence = silence;
    this.changed(silence);
    if (silence !== null && before === null) this.panel.announce(silence.text);
  }
}
