/** The three sentences on top of a report (`tapedebug/report/_sentences.py`): what was run, what is wrong, what to change. */
import { h } from "../dom.js";
import { short } from "../format.js";

const TITLES = ["Run", "Result", "Change"] as const;
const LONGEST = 2_000;

/** The sentences in a file; none where it has anything else there. */
export function readSentences(raw: unknown): readonly string[] {
  return Array.isArray(raw) && raw.length === TITLES.length ? raw.map((text) => short(String(text), LONGEST)) : [];
}

/** A list of them, each with its title; empty where there are none. */
export function sentenceRows(sentences: readonly string[]): HTMLElement[] {
  return TITLES.flatMap((title, i) => {
    const text = sentences[i];
    return text ? [h("dt", {}, title), h("dd", {}, text)] : [];
  });
}
