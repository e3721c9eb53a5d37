/** The anywidget module: an anywidget model on one side, a store on the other. Nothing here depends on JupyterLab. */
import type { AnyModel, RenderProps } from "@anywidget/types";
import { Questions } from "../trace/questions.js";
import { type Answer, type MaskEntry, PanelStore, type Question, type Selection, Unanswered } from "../trace/store.js";
import { isPacked } from "../trace/unpack.js";
import { fetchChunks } from "../views/chunks.js";
import { mountPanel } from "../views/panel.js";
import type { Panel } from "../views/state.js";

/** The traits of `tapedebug.notebook.TapeDebugger`. */
interface Traits {
  head: unknown;
  columns: unknown;
  mask: unknown;
  checks: unknown;
  selection: unknown;
  running: boolean;
  progress: number;
  status: string;
  can_run: boolean;
  beat: number;
  /** CSS pixels, or null. */
  height: number | null;
}

const TRAITS = [
  "head",
  "columns",
  "mask",
  "checks",
  "selection",
  "running",
  "progress",
  "status",
  "can_run",
  "beat",
] as const;

/** The class that widget managers give to views whose kernel is gone. */
const DISCONNECTED = "jupyter-widgets-disconnected";
const GONE = "The kernel of this tape is gone. This is the last known state.";
const NEEDED = "This needs the kernel of the tape, which is gone.";

function isPair(entry: unknown): entry is MaskEntry {
  return (
    Array.isArray(entry) &&
    entry.length === 3 &&
    (entry[0] === null || Number.isInteger(entry[0])) &&
    typeof entry[1] === "string" &&
    typeof entry[2] === "string"
  );
}

function readMask(value: unknown): MaskEntry[] {
  return Array.isArray(value) ? value.filter(isPair) : [];
}

/** Ids are for the panel; labels are for Python to read and write, where they are unique. */
function arrayOf(key: unknown, labels: readonly unknown[]): number | string | null {
  if (typeof key === "number" && Number.isInteger(key) && key >= 0) return key;
  if (typeof key !== "string") return null;
  const id = labels.indexOf(key);
  return id < 0 ? key : id;
}

function labelsOf(head: unknown): unknown[] {
  const arrays = (head as { arrays?: unknown } | null)?.arrays;
  return Array.isArray(arrays) ? arrays.map((array: unknown) => (array as { label?: unknown } | null)?.label) : [];
}

function readSelection(value: unknown, labels: readonly unknown[]): Selection {
  const raw = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const index = (key: string): number | null => {
    const found = raw[key];
    return typeof found === "number" && Number.isInteger(found) && found >= 0 ? found : null;
  };
  return {
    launch: index("launch"),
    array: arrayOf(raw.array, labels),
    version: index("version"),
    finding: index("finding"),
    pair: isPair(raw.pair) ? raw.pair : null,
  };
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Head and columns arrive in one message, but their change events come one after the other. */
function pullTrace(model: AnyModel<Traits>, store: PanelStore): void {
  const [head, columns] = [model.get("head"), model.get("columns")];
  const now = { head, columns };
  const before = store.get("trace");
  if (isPacked(before) && before.head === head && before.columns === columns) return;
  store.set({ trace: isPacked(now) ? now : head, passes: 0 });
}

/** Traits → store. Equal values are not set again, so that an echo of the panel's own change does not rebuild it. */
function copyTraits(model: AnyModel<Traits>, store: PanelStore, keys: readonly (keyof Traits)[]): void {
  for (const key of keys) {
    const value = model.get(key);
    if (key === "head" || key === "columns") pullTrace(model, store);
    else if (key === "mask") {
      const mask = readMask(value);
      if (!same(mask, store.get("mask"))) store.set({ mask });
    } else if (key === "checks") store.set({ checks: Array.isArray(value) ? value : [] });
    else if (key === "selection") store.select(readSelection(value, labelsOf(model.get("head"))));
    else if (key === "running") store.set({ running: value === true });
    else if (key === "progress") store.set({ progress: Number(value) || 0 });
    else if (key === "status") store.set({ status: String(value ?? "") });
    else if (key === "beat") store.set({ beat: Number(value) || 0 });
    else store.set({ canRun: value === true });
  }
}

function pushSelection(model: AnyModel<Traits>, selection: Selection): void {
  const { array } = selection;
  const labels = labelsOf(model.get("head"));
  const label = typeof array === "number" ? labels[array] : array;
  const unique = typeof label === "string" && labels.filter((other) => other === label).length === 1;
  model.set("selection", { ...selection, array: unique ? label : array });
}

function render({ model, el }: RenderProps<Traits>): () => void {
  leaveOutOfSavedState("widget_manager" in model ? model.widget_manager : null); // not every host has one
  const say = (type: "cancel" | "export") => (): void => model.send({ type });
  const run = (only?: readonly MaskEntry[]): void => model.send(only ? { type: "run", mask: only } : { type: "run" });
  const questions = new Questions<Question>((request, question) => model.send({ type: "ask", request, question }));
  const ask = (question: Question): Promise<Answer> =>
    el.closest(`.${DISCONNECTED}`) === null ? questions.ask(question) : Promise.reject(new Unanswered(NEEDED));
  const store = new PanelStore({}, { run, cancel: say("cancel"), exportReport: say("export"), ask });
  const hear = (message: unknown, buffers: DataView[]): void => {
    const { type, passes } = (typeof message === "object" && message !== null ? message : {}) as Record<
      string,
      unknown
    >;
    if (type === "passes") store.set({ passes: Number(passes) || 0 });
    else questions.accept(message, buffers);
  };
  model.on("msg:custom", hear);
  copyTraits(model, store, TRAITS);
  let pulling = false;
  const listeners = TRAITS.map((key) => {
    const listener = (): void => {
      pulling = true;
      try {
        copyTraits(model, store, [key]);
      } finally {
        pulling = false;
      }
    };
    model.on(`change:${key}`, listener);
    return { key, listener };
  });
  const unsubscribe = store.subscribe((changed) => {
    if (pulling) return;
    if (changed.has("mask")) model.set("mask", store.get("mask"));
    if (changed.has("selection")) pushSelection(model, store.get("selection"));
    if (changed.has("mask") || changed.has("selection")) model.save_changes();
  });
  const unmount = mountPanel(el, store);
  const resize = (): void => setHeight(el, model.get("height"));
  resize();
  model.on("change:height", resize);
  const connection = watchConnection(model, el, () => {
    questions.end(GONE);
    store.set({ canRun: false, running: false, asked: null, status: GONE });
  });
  return () => {
    connection();
    for (const { key, listener } of listeners) model.off(`change:${key}`, listener);
    model.off("change:height", resize);
    model.off("msg:custom", hear);
    questions.end("The panel was closed.");
    unsubscribe();
    unmount();
  };
}

function setHeight(el: HTMLElement, height: unknown): void {
  const root = el.querySelector<HTMLElement>(".tapedebug");
  const given = typeof height === "number" && height > 0;
  root?.classList.toggle("td-fixed", given);
  if (given) root?.style.setProperty("--td-height", `${height}px`);
  else root?.style.removeProperty("--td-height");
}

/**
 * Calls `gone` when the kernel is restarted: Jupyter's widget managers then mark the view, which may be deep inside other
 * boxes. They do not report a kernel that dies; `views/heartbeat.ts` detects that it is silent.
 */
function watchConnection(model: AnyModel<Traits>, el: HTMLElement, gone: () => void): () => void {
  const look = (): void => {
    if (el.closest(`.${DISCONNECTED}`) !== null) gone();
  };
  const observer = new MutationObserver(look);
  observer.observe(el, { attributes: true, attributeFilter: ["class"] });
  // the boxes around it are marked one after the other
  let timer = 0;
  const later = (): void => {
    timer = window.setTimeout(look, 200);
  };
  model.on("comm_live_update", later);
  look();
  return () => {
    observer.disconnect();
    window.clearTimeout(timer);
    model.off("comm_live_update", later);
  };
}

/** Requests the code of a chunk from the kernel, which also sent this module; no address is involved. */
async function fetchChunk(panel: Panel, { name }: { readonly name: string }): Promise<unknown> {
  const { buffers } = await panel.store.ask({ type: "chunk", name });
  const [code] = buffers;
  if (code === undefined) throw new Error(`The kernel has no chunk "${name}" of the panel.`);
  const bytes = code.buffer.slice(code.byteOffset, code.byteOffset + code.byteLength) as ArrayBuffer;
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  try {
    const chunk = (await import(url)) as { default: unknown };
    return chunk.default;
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The widget manager of JupyterLab and Notebook, as far as this module uses it. */
interface StateManager {
  get_state_sync(options?: unknown): { state: Record<string, SavedModel> };
}

interface SavedModel {
  readonly state?: { readonly _anywidget_id?: unknown; readonly layout?: unknown };
}

const LEAVES_OUT = Symbol("tapedebug leaves its panels out of the saved state");
const REFERENCE = "IPY_MODEL_";

/**
 * A notebook keeps the tape in the output that shows it, with which it is shown when the notebook is opened again. The state of
 * its widgets would be the tape once more, and the whole front end for each panel.
 */
export function leaveOutOfSavedState(manager: unknown): void {
  if (typeof manager !== "object" || manager === null || LEAVES_OUT in manager) return;
  const saver = manager as StateManager;
  if (typeof saver.get_state_sync !== "function") return;
  const whole = saver.get_state_sync.bind(saver);
  saver.get_state_sync = (options) => {
    const saved = whole(options);
    for (const [id, { state }] of Object.entries(saved.state)) {
      if (!String(state?._anywidget_id ?? "").startsWith("tapedebug.")) continue;
      delete saved.state[id];
      const layout = String(state?.layout ?? "");
      if (layout.startsWith(REFERENCE)) delete saved.state[layout.slice(REFERENCE.length)];
    }
    return saved;
  };
  Object.defineProperty(manager, LEAVES_OUT, { value: true });
}

fetchChunks(fetchChunk);

export default { render };
