/** The script of a stand-alone report: shows the traces that the page carries as data. There is no kernel behind it. */
import { NOTHING, PanelStore, type Selection } from "../trace/store.js";
import { h, replace } from "../views/dom.js";
import { short } from "../views/format.js";
import { mountPanel } from "../views/panel.js";

/** Element ids that `tapedebug/report` writes. */
const DATA = "tapedebug-trace";
const HOST = "tapedebug-panel";
const PACKED = "application/gzip+base64";

interface Payload {
  readonly traces: readonly unknown[];
  /** What was left out of the report. */
  readonly notes: readonly string[];
}

/** Text of the data element; large data is packed, and undone by the browser itself. */
async function unpack(element: HTMLElement): Promise<string> {
  const text = element.textContent ?? "";
  if (element.getAttribute("type") !== PACKED) return text;
  const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function read(element: HTMLElement): Promise<Payload | null> {
  try {
    const { traces, notes } = JSON.parse(await unpack(element)) as Partial<Payload>;
    return Array.isArray(traces) && traces.length > 0 ? { traces, notes: Array.isArray(notes) ? notes : [] } : null;
  } catch {
    return null;
  }
}

function nameOf(trace: unknown): string {
  const { name, verdict, tape } = (trace ?? {}) as { name?: unknown; verdict?: unknown; tape?: { id?: unknown } };
  const called = short(String(name ?? "tape"), 60);
  const number = /\btape \d+$/.test(called) ? "" : ` · tape ${String(tape?.id ?? "?")}`;
  const worst = worstOf(trace);
  return `${called}${number} · ${String(verdict ?? "")}${worst === "info" ? "" : ` · ${worst}`}`;
}

function findingsOf(trace: unknown): Record<string, unknown>[] {
  const { findings } = (trace ?? {}) as { findings?: unknown };
  return Array.isArray(findings) ? (findings as Record<string, unknown>[]) : [];
}

/** The severity of the worst finding. */
function worstOf(trace: unknown): string {
  const severities = findingsOf(trace).map((finding) => finding?.severity);
  return ["error", "warning"].find((severity) => severities.includes(severity)) ?? "info";
}

/** Of several tapes a report opens on the one with the worst finding. */
function worstTape(traces: readonly unknown[]): number {
  const worst = traces.map(worstOf);
  return Math.max(0, worst.includes("error") ? worst.indexOf("error") : worst.indexOf("warning"));
}

/** A report opens on what is wrong; where nothing is, on a launch of the first finding, else on the first kernel. */
function opening(trace: unknown): Selection {
  const raw = (trace ?? {}) as { launches?: unknown };
  const findings = findingsOf(trace);
  const worst = findings.find((f) => f?.severity === "error") ?? findings.find((f) => f?.severity === "warning");
  if (typeof worst?.id === "number") return { ...NOTHING, finding: worst.id };
  const named = findings[0]?.launches;
  const launches = (Array.isArray(raw.launches) ? raw.launches : []) as Record<string, unknown>[];
  const first = Array.isArray(named) ? named[0] : launches.findIndex((launch) => launch?.kind === "kernel");
  return { ...NOTHING, launch: typeof first === "number" && first >= 0 ? first : null };
}

function show(host: HTMLElement, payload: Payload): void {
  const { traces, notes } = payload;
  const first = worstTape(traces);
  const store = new PanelStore({ trace: traces[first], status: notes.join(" "), selection: opening(traces[first]) });
  if (traces.length === 1) {
    mountPanel(host, store, { fill: true });
    return;
  }
  const choice = h("select", { id: "tapedebug-choice", "aria-label": "Tape" });
  for (const [i, trace] of traces.entries()) choice.append(h("option", { value: i }, nameOf(trace)));
  choice.value = String(first);
  choice.addEventListener("change", () => {
    const trace = traces[Number(choice.value)];
    store.set({ trace, selection: opening(trace) });
  });
  const frame = h("div", { class: "td-report-frame" });
  replace(
    host,
    h("nav", { class: "td-report-nav" }, h("label", { for: "tapedebug-choice" }, `${traces.length} tapes:`), choice),
    frame,
  );
  mountPanel(frame, store, { fill: true });
}

async function start(): Promise<void> {
  const host = document.getElementById(HOST);
  const data = document.getElementById(DATA);
  if (!host || !data) return;
  const payload = await read(data);
  data.remove(); // it has been read; megabytes of text need not stay
  if (payload) show(host, payload);
  else host.textContent = "The data of this report is damaged. Write the report again.";
}

void start();
