/** Answers in a file: found by what was asked, whatever the order of the keys; everything else is refused in words. */
import { describe, expect, test } from "vitest";
import { canonical, EmbeddedAnswers } from "../src/trace/embeddedAnswers.js";
import { Unanswered } from "../src/trace/store.js";

const QUESTION = { type: "jacobian", launch: null, input: "x", output: "loss" };

describe("answers that a file carries", () => {
  test("are found whatever the order of the keys", async () => {
    const held = new EmbeddedAnswers([{ question: QUESTION, data: { rows: 1 }, buffers: ["AACAPw=="] }]);
    const { data, buffers } = await held.ask({ output: "loss", input: "x", launch: null, type: "jacobian" });
    expect(data).toEqual({ rows: 1 });
    expect(buffers[0]?.getFloat32(0, true)).toBe(1);
    expect(held.questions).toEqual([QUESTION]);
  });

  test("are not those of another question", async () => {
    const held = new EmbeddedAnswers([{ question: QUESTION, data: {}, buffers: [] }]);
    await expect(held.ask({ ...QUESTION, launch: 0 })).rejects.toThrow(Unanswered);
    await expect(held.ask({ ...QUESTION, input: "__proto__" })).rejects.toThrow(/^Not in this file/);
  });

  test("that are damaged are left out, or refused", async () => {
    const damaged = [
      null,
      3,
      {},
      { question: 3 },
      { question: QUESTION, data: [], buffers: [] },
      { question: QUESTION, data: {}, buffers: [7] },
    ];
    expect(new EmbeddedAnswers(damaged).questions).toEqual([]);
    expect(new EmbeddedAnswers("answers").questions).toEqual([]);
    const held = new EmbeddedAnswers([{ question: QUESTION, data: {}, buffers: ["not base64!"] }]);
    await expect(held.ask(QUESTION)).rejects.toThrow(/damaged/);
  });

  test("have one text for equal questions", () => {
    expect(canonical({ b: [1, { d: null, c: "é" }], a: undefined })).toBe('{"b":[1,{"c":"é","d":null}]}');
    expect(canonical(JSON.parse('{"__proto__": 1}'))).toBe('{"__proto__":1}');
  });
});
