import { Signal } from "@lumino/signaling";
import { beforeAll, describe, expect, it } from "vitest";
import type { TapeSession } from "../../src/lab/session.js";
import { TapePanel } from "../../src/lab/tapePanel.js";
import type { ITapes } from "../../src/lab/tokens.js";
import { decompress } from "../../src/trace/compressed.js";
import { headOf } from "../../src/trace/open.js";
import type { Packed } from "../../src/trace/unpack.js";
import compressed from "../fixtures/net.packed.json";
import { type Context, DEATHS, Kernel, ROW, settle, start } from "./fake-kernel.js";

const LAST_STATE = "This is the last known state, read-only.";
const RAN = "Checks were running; the results up to then are shown, read-only.";
const AGAIN = "Record the tape again to continue.";
const ID = { path: "net.ipynb", process: "p1", tape: 3, name: "net" };
let net: { head: { tape: { launches: number } }; columns: Record<string, Uint8Array> };

beforeAll(async () => {
  net = (await decompress(compressed)) as Packed as unknown as typeof net;
});

/** Notebooks, each with a session. */
class Tapes {
  current = null;
  currentChanged = new Signal<this, TapeSession | null>(this);
  changed = new Signal<this, TapeSession>(this);
  sessions: TapeSession[] = [];

  open(kernel: Kernel, speaks = true): { session: TapeSession; context: Context } {
    const opened = start(kernel, speaks);
    const { session } = opened;
    this.sessions.push(session);
    session.changed.connect((one) => this.changed.emit(one));
    this.changed.emit(session);
    return opened;
  }
}

function live(): Kernel {
  const kernel = new Kernel();
  kernel.row = { ...ROW, launches: net.head.tape.launches };
  kernel.answer = ({ type }) => {
    if (type === "list") return { type: "tapes", tapes: kernel.row === null ? [] : [kernel.row] };
    if (type !== "trace") return { type: "done" };
    const { head, columns } = net;
    return {
      type: "trace",
      tape: 3,
      head,
      columns: Object.keys(columns),
      mask: [],
      checks: [],
      buffers: Object.values(columns),
    };
  };
  return kernel;
}

async function opened() {
  const [tapes, kernel] = [new Tapes(), live()];
  const { session, context } = tapes.open(kernel);
  await settle();
  const panel = new TapePanel(tapes as unknown as ITapes, ID);
  panel.attach(session);
  await panel.load();
  await settle();
  expect(panel.notice.text).toBe("");
  expect(panel.store.get("canRun")).toBe(true);
  return { tapes, kernel, session, context, panel };
}

describe("the notice of a tab", () => {
  it("says what became of the kernel, and stays by that", async () => {
    for (const [lost, tell] of DEATHS) {
      const { kernel, context, panel } = await opened();
      const said = { text: `The kernel of this tape ${lost}. ${LAST_STATE} ${AGAIN}`, action: null };
      tell(context);
      await settle();
      expect(panel.notice).toEqual(said);
      expect(panel.store.get("canRun")).toBe(false);
      context.statusChanged.emit("idle");
      kernel.process = "p2";
      context.ran("%load_ext tapedebug");
      await settle();
      expect(panel.notice).toEqual(said);
      expect(panel.alive).toBe(false);
      context.disposed.emit(); // a notebook that is opened again does not bring this tape back
      expect(panel.notice).toEqual(said);
    }
  });

  it("says that checks were running, also after the kernel is back", async () => {
    const { kernel, context, panel } = await opened();
    kernel.comm?.say({ type: "state", tape: 3, state: { running: true, progress: 0.25 } });
    await settle();
    context.autorestarts();
    await settle();
    context.statusChanged.emit("idle");
    kernel.process = "p2";
    context.ran("%load_ext tapedebug");
    await settle();
    expect(panel.notice.text).toBe(`The kernel of this tape died. ${RAN} ${AGAIN}`);
    expect(panel.store.get("running")).toBe(false);
    expect(panel.store.get("status")).toBe("The checks were stopped; the results up to then are shown.");
    await expect(panel.store.ask({ type: "values", array: 0, version: 0, of: "value" })).rejects.toThrow(
      "This needs the kernel that recorded the tape, which is gone.",
    );
  });

  it("says that checks were running where the kernel had not even heard of them", async () => {
    const { kernel, context, panel } = await opened();
    kernel.silent = true;
    panel.store.run([[null, "x", "loss"]]);
    context.autorestarts();
    await settle();
    expect(panel.notice.text).toBe(`The kernel of this tape died. ${RAN} ${AGAIN}`);
    expect(panel.store.get("asked")).toBeNull();
  });

  it("says that its notebook was closed, and comes back to life with it", async () => {
    const { tapes, kernel, context, panel } = await opened();
    context.disposed.emit();
    expect(panel.notice).toEqual({ text: `net.ipynb was closed. ${LAST_STATE}`, action: "open" });
    expect(panel.store.get("canRun")).toBe(false);
    tapes.open(kernel, false); // nothing else would ask this kernel
    await settle();
    await settle();
    expect(panel.notice).toEqual({ text: "", action: null });
    expect(panel.store.get("canRun")).toBe(true);
    kernel.comm?.say({ type: "state", tape: 3, state: { progress: 0.5 } });
    await settle();
    expect(panel.store.get("progress")).toBe(0.5);
  });

  it("says that the kernel of a notebook that is opened again is another", async () => {
    const { tapes, context, panel } = await opened();
    context.disposed.emit();
    const other = live();
    other.process = "p2";
    tapes.open(other, false);
    await settle();
    const text = `The kernel of net.ipynb was restarted, and this tape is gone. Record it again. ${LAST_STATE}`;
    expect(panel.notice).toEqual({ text, action: null });
    const bare = await opened();
    bare.context.disposed.emit();
    bare.tapes.open(Object.assign(new Kernel(), { loaded: false }), false);
    await settle();
    expect(bare.panel.notice).toEqual({ text, action: null });
  });

  it("says what it waits for after a reload of the page, until that is there", async () => {
    const [tapes, kernel] = [new Tapes(), live()];
    const panel = new TapePanel(tapes as unknown as ITapes, ID);
    panel.find();
    const text = "This tape is in the kernel of net.ipynb. Open it to see the tape.";
    expect(panel.notice).toEqual({ text, action: "open" });
    tapes.open(kernel, false);
    await settle();
    await settle();
    expect(panel.notice.text).toBe("");
    expect(panel.node.querySelector(".tapedebug")).not.toBeNull();

    const late = new TapePanel(tapes as unknown as ITapes, { ...ID, process: "p0" });
    late.find();
    await settle();
    expect(late.notice).toEqual({
      text: "The kernel of net.ipynb was restarted, and this tape is gone. Record it again. Close this tab.",
      action: null,
    });
  });

  it("says that more was recorded, that it was recorded anew, and that nobody holds the tape", async () => {
    const { kernel, session, panel } = await opened();
    const row = kernel.row as typeof ROW;
    const { launches } = row;
    const list = async (next: typeof ROW | null) => {
      kernel.row = next;
      session.refresh();
      await settle();
    };
    await list({ ...row, launches: launches + 1000 });
    const now = (launches + 1000).toLocaleString("en");
    expect(panel.notice).toEqual({
      text: `The tape has ${now} launches now; this shows the first ${launches}.`,
      action: "refresh",
    });
    await list({ ...row, launches: 1 });
    expect(panel.notice.text).toBe("The tape was recorded again: it has 1 launch now.");
    await list(null);
    expect(panel.notice).toEqual({ text: `The program no longer holds this tape. ${LAST_STATE}`, action: null });
    expect(panel.store.get("canRun")).toBe(false);
  });

  it("goes when a notebook has its old kernel again", async () => {
    const { kernel, context, panel } = await opened();
    context.session = { kernel: live() };
    context.session.kernel.process = "p2";
    context.kernelChanged.emit({});
    await settle();
    expect(panel.notice.text).toBe(`The kernel of this tape was replaced by another. ${LAST_STATE} ${AGAIN}`);
    context.session = { kernel };
    context.kernelChanged.emit({});
    await settle();
    await settle();
    expect(panel.notice.text).toBe("");
    expect(panel.store.get("canRun")).toBe(true);
  });
});

describe("a tab", () => {
  it("tells the kernel that it was closed, and asks nothing of one that has gone", async () => {
    const { kernel, panel } = await opened();
    panel.dispose();
    expect(kernel.sent.at(-1)).toMatchObject({ type: "forget", tape: 3 });
    const second = await opened();
    second.context.statusChanged.emit("dead");
    const before = second.kernel.sent.length;
    second.panel.dispose();
    expect(second.kernel.sent.length).toBe(before);
  });

  it("does not open while a cell runs, and says so", async () => {
    const { kernel, panel } = await opened();
    kernel.answer = () => ({ type: "busy", holder: "the diagnosis of tape 4" });
    await expect(panel.load()).rejects.toThrow("This has to wait for the diagnosis of tape 4. Open the tape again.");
  });

  it("shows what a diagnosis has found so far, and all of it when it has ended", async () => {
    for (const outcome of ["AGREE", "error"]) {
      const { kernel, session, panel } = await opened();
      const shown = () => headOf(panel.store.get("trace")).verdict;
      const recorded = shown();
      const answer = kernel.answer;
      let end = (): void => undefined;
      kernel.answer = (question) => {
        if (question.type !== "diagnose") return answer(question);
        end = () => {
          if (outcome === "error") kernel.comm?.say({ type: "error", message: "no", request: question.request });
          else kernel.comm?.say({ type: "tapes", tapes: [kernel.row], request: question.request });
        };
        return {};
      };
      const diagnosis = session.diagnose(3);
      await settle();
      const { buffers, ...trace } = answer({ type: "trace", tape: 3 }) as { head: object; buffers: Uint8Array[] };
      const soFar = { ...trace, head: { ...trace.head, verdict: "WRONG" } };
      kernel.comm?.say({ ...soFar, tape: 4 }, buffers);
      await settle();
      expect(shown()).toBe(recorded);
      kernel.comm?.say(soFar, buffers);
      await settle();
      expect(shown()).toBe("WRONG");
      expect(kernel.sent.filter(({ type }) => type === "trace").length).toBe(1);
      end();
      await diagnosis;
      await settle();
      expect(shown()).toBe(recorded);
      expect(kernel.sent.filter(({ type }) => type === "trace").length).toBe(2);
    }
  });
});
