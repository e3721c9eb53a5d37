/** The script of a stand-alone report: shows the traces that the page carries as data. It has no kernel. */

import { bytesOf, decompress } from "../trace/compressed.js";
import { EmbeddedAnswers } from "../trace/embeddedAnswers.js";
import { isRecord } from "../trace/reader.js";
import { loadAllChunks } from "../views/chunks.js";
import { readDiff } from "../views/diff/data.js";
import { replace } from "../views/dom.js";
import { type ReportFile, ReportPage } from "../views/reportPage/page.js";
import { readSentences } from "../views/reportPage/sentences.js";

/** Element ids that `tapedebug/report` writes. */
const DATA = "tapedebug-trace";
const HOST = "tapedebug-panel";
const PACKED = "application/gzip+base64";

/** Text of the data element; large data is packed, and undone by the browser itself. */
async function unpack(element: HTMLElement): Promise<string> {
  const text = element.textContent ?? "";
  if (element.getAttribute("type") !== PACKED) return text;
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function read(element: HTMLElement): Promise<ReportFile | null> {
  try {
    const raw: unknown = JSON.parse(await unpack(element));
    if (!isRecord(raw) || !Array.isArray(raw.traces) || raw.traces.length === 0) return null;
    const text = (key: string): string => (typeof raw[key] === "string" ? (raw[key] as string) : "");
    const answers = Array.isArray(raw.answers) ? raw.answers : [];
    const diff = raw.traces.length === 2 ? readDiff(raw.diff) : null;
    const said = diff !== null && isRecord(raw.diff) ? [raw.diff.sentences] : raw.sentences;
    return {
      traces: await Promise.all(raw.traces.map(decompress)),
      answers: raw.traces.map(
        (_, i) => new EmbeddedAnswers(answers.filter((item) => (isRecord(item) ? (item.tape ?? 0) : 0) === i)),
      ),
      notes: Array.isArray(raw.notes) ? raw.notes.map(String) : [],
      diff,
      sentences: Array.isArray(said) ? said.map(readSentences) : [],
      version: text("version"),
      written: text("written"),
    };
  } catch {
    return null;
  }
}

async function start(): Promise<void> {
  const host = document.getElementById(HOST);
  const data = document.getElementById(DATA);
  if (!host || !data) return;
  await loadAllChunks(); // they are in this bundle
  const file = await read(data);
  data.remove(); // the data has been parsed; megabytes of text need not stay in the page
  if (file === null) replace(host, "The data of this report is damaged. Write the report again.");
  else new ReportPage(host, file).show();
}

void start();
