import { describe, expect, it } from "vitest";
import { Questions } from "../src/trace/questions.js";
import { PanelStore, Unanswered } from "../src/trace/store.js";

describe("Questions", () => {
  const asked: [number, unknown][] = [];
  const questions = () => {
    asked.length = 0;
    return new Questions<{ type: string }>((request, question) => asked.push([request, question]));
  };

  it("gives each answer to the one who asked, in any order", async () => {
    const open = questions();
    const first = open.ask({ type: "a" });
    const second = open.ask({ type: "b" });
    const view = new DataView(new ArrayBuffer(2));
    expect(asked).toEqual([
      [1, { type: "a" }],
      [2, { type: "b" }],
    ]);
    expect(open.accept({ type: "answer", request: 2, data: { n: 2 } }, [view])).toBe(true);
    expect(open.accept({ type: "answer", request: 1, data: { n: 1 } }, [])).toBe(true);
    expect(await first).toEqual({ data: { n: 1 }, buffers: [] });
    expect((await second).buffers[0]).toBe(view);
  });

  it("leaves alone what answers nothing of its own", () => {
    const open = questions();
    void open.ask({ type: "a" }).catch(() => {});
    for (const message of [null, 3, {}, { request: 1 }, { type: "answer", request: 9 }, { type: "list", request: 1 }]) {
      expect(open.accept(message, [])).toBe(false);
    }
  });

  it("rejects with the kernel's words, and when nobody is left to answer", async () => {
    const open = questions();
    const refused = open.ask({ type: "a" });
    const forgotten = open.ask({ type: "b" });
    open.accept({ type: "refused", request: 1, message: "no tape" }, []);
    open.end("The panel was closed.");
    await expect(refused).rejects.toThrow(new Unanswered("no tape"));
    await expect(forgotten).rejects.toThrow("The panel was closed.");
  });

  it("says that it needs a kernel where there is none", async () => {
    await expect(new PanelStore().ask({ type: "a" })).rejects.toThrow("This needs the kernel that recorded the tape.");
  });
});
