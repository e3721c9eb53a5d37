/** The script of a stand-alone report: shows the traces that the page carries as data. There is no kernel behind it. */
import { NOTHING, PanelStore, type Selection } from "../trace/store.js";
import { h, replace } from "../views/dom.js";
import { short } from "../views/format.js";
import { mountPanel } from "../views/panel.js";

/** Element ids that `tapedebug/report` writes. */
const DATA = "tapedebug-trace";
const HOST = "tapedebug-panel";

interface Payload {
  readonly traces: readonly unknown[];
  /** What was left out of the report. */
  readonly notes: readonly string[];
}

function read(text: string): Payload | null {
  try {
    const { traces, notes } = JSON.parse(text) as Partial<Payload>;
    return Array.isArray(traces) && traces.length > 0 ? { traces, notes: Array.isArray(notes) ? notes : [] } : null;
  } catch {
    return null;
  }
}

function nameOf(trace: unknown): string {
  const { name, verdict, tape } = (trace ?? {}) as { name?: unknown; verdict?: unknown; tape?: { id?: unknown } };
  return `${short(String(name ?? "tape"), 40)} · tape ${String(tape?.id ?? "?")} · ${String(verdict ?? "")}`;
}

/** A report opens on what is wrong; where nothing is, on the first launch. */
function opening(trace: unknown): Selection {
  const { findings } = (trace ?? {}) as { findings?: unknown };
  const list = (Array.isArray(findings) ? findings : []) as { id?: unknown; severity?: unknown }[];
  for (const severity of ["error", "warning"]) {
    const id = list.find((finding) => finding?.severity === severity)?.id;
    if (typeof id === "number") return { ...NOTHING, finding: id };
  }
  return { ...NOTHING, launch: 0 };
}

function show(host: HTMLElement, payload: Payload): void {
  const { traces, notes } = payload;
  const store = new PanelStore({ trace: traces[0], status: notes.join(" "), selection: opening(traces[0]) });
  if (traces.length === 1) {
    mountPanel(host, store, { fill: true });
    return;
  }
  const choice = h("select", { id: "tapedebug-choice", "aria-label": "Tape" });
  for (const [i, trace] of traces.entries()) choice.append(h("option", { value: i }, nameOf(trace)));
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

const host = document.getElementById(HOST);
const payload = read(document.getElementById(DATA)?.textContent ?? "");
if (host && payload) show(host, payload);
else if (host) host.textContent = "The data of this report is damaged. Write the report again.";
