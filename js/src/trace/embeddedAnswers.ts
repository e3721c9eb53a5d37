/** Answers embedded in reports and saved notebooks: those to questions that were asked before the file was written. */
import { isRecord } from "./reader.js";
import { type Answer, type Question, Unanswered } from "./store.js";

const MISSING = "Not in this file: computing it needs the kernel that recorded the tape.";

/** JSON with the keys of objects in order, so that equal questions are equal texts. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (!isRecord(value)) return JSON.stringify(value ?? null);
  const keys = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

interface EmbeddedAnswer {
  readonly data: Answer["data"];
  readonly buffers: readonly string[];
}

export class EmbeddedAnswers {
  private readonly answers = new Map<string, EmbeddedAnswer>();
  /** The questions that have an answer here. */
  readonly questions: readonly Question[];

  /** `raw` is `[{question, data, buffers}]`, where buffers are base64; other entries are left out. */
  constructor(raw: unknown) {
    const questions: Question[] = [];
    for (const item of Array.isArray(raw) ? raw : []) {
      if (!isRecord(item) || !isRecord(item.question) || typeof item.question.type !== "string") continue;
      if (!isRecord(item.data) || !Array.isArray(item.buffers)) continue;
      if (!item.buffers.every((buffer) => typeof buffer === "string")) continue;
      questions.push(item.question as Question);
      this.answers.set(canonical(item.question), { data: item.data, buffers: item.buffers as string[] });
    }
    this.questions = questions;
  }

  async ask(question: Question): Promise<Answer> {
    const found = this.find(question);
    if (found === null) throw new Unanswered(MISSING);
    return found;
  }

  /**
   * Return the embedded answer to a question, or null if there is none.
   *
   * @throws {Unanswered} if it is damaged.
   */
  find(question: Question): Answer | null {
    const answers = this.answers.get(canonical(question));
    if (answers === undefined) return null;
    try {
      return { data: answers.data, buffers: answers.buffers.map(decode) };
    } catch {
      throw new Unanswered("The data of this answer in the file is damaged.");
    }
  }
}

function decode(text: string): DataView {
  return new DataView(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)).buffer);
}
