/** Open questions to the kernel: each has a number, which its answer repeats. */
import { type Answer, Unanswered } from "./store.js";

/** Messages of the kernel: `{type: "answer", request, data}` with buffers, or `{type: "refused", request, message}`. */
interface Reply {
  readonly type?: unknown;
  readonly request?: unknown;
  readonly data?: unknown;
  readonly message?: unknown;
}

export class Questions<Q> {
  private count = 0;
  private readonly open = new Map<number, { resolve(answer: Answer): void; reject(error: Error): void }>();

  constructor(private readonly send: (request: number, question: Q) => void) {}

  ask(question: Q): Promise<Answer> {
    this.count += 1;
    const request = this.count;
    return new Promise((resolve, reject) => {
      this.open.set(request, { resolve, reject });
      try {
        this.send(request, question);
      } catch {
        this.open.delete(request);
        reject(new Unanswered("The kernel cannot be reached."));
      }
    });
  }

  /** Takes a message of the kernel; false where it is no answer to any of these questions. */
  accept(message: unknown, buffers: readonly DataView[]): boolean {
    const reply = (typeof message === "object" && message !== null ? message : {}) as Reply;
    const waiting = typeof reply.request === "number" ? this.open.get(reply.request) : undefined;
    if (waiting === undefined || (reply.type !== "answer" && reply.type !== "refused")) return false;
    this.open.delete(reply.request as number);
    if (reply.type === "refused") waiting.reject(new Unanswered(String(reply.message ?? "The kernel gave no reason.")));
    else waiting.resolve({ data: (reply.data ?? {}) as Answer["data"], buffers });
    return true;
  }

  /** Rejects all open questions. */
  end(why: string): void {
    for (const waiting of this.open.values()) waiting.reject(new Unanswered(why));
    this.open.clear();
  }
}
