/** The anywidget module: an anywidget model on one side, a store on the other. Nothing here knows of JupyterLab. */
import type { AnyModel, RenderProps } from "@anywidget/types";
import { type MaskEntry, PanelStore, type Selection } from "../trace/store.js";
import { mountPanel } from "../views/panel.js";

/** The traits of `tapedebug.notebook.TapeDebugger`. */
interface Traits {
  trace: unknown;
  mask: unknown;
  checks: unknown;
  selection: unknown;
  running: boolean;
  progress: number;
  status: string;
  can_run: boolean;
}

const TRAITS = ["trace", "mask", "checks", "selection", "running", "progress", "status", "can_run"] as const;

function readMask(value: unknown): MaskEntry[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (entry): entry is MaskEntry =>
      Array.isArray(entry) &&
      entry.length === 3 &&
      (entry[0] === null || Number.isInteger(entry[0])) &&
      typeof entry[1] === "string" &&
      typeof entry[2] === "string",
  );
}

/** Ids are for the panel; labels are for Python to read and write, where they are unique. */
function arrayOf(key: unknown, labels: readonly unknown[]): number | string | null {
  if (typeof key === "number" && Number.isInteger(key) && key >= 0) return key;
  if (typeof key !== "string") return null;
  const id = labels.indexOf(key);
  return id < 0 ? key : id;
}

function labelsOf(trace: unknown): unknown[] {
  const arrays = (trace as { arrays?: unknown } | null)?.arrays;
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
  };
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** Traits → store. Equal values are not set again, so that an echo of the panel's own change does not make it anew. */
function pull(model: AnyModel<Traits>, store: PanelStore, keys: readonly (keyof Traits)[]): void {
  for (const key of keys) {
    const value = model.get(key);
    if (key === "trace") store.set({ trace: value });
    else if (key === "mask") {
      const mask = readMask(value);
      if (!same(mask, store.get("mask"))) store.set({ mask });
    } else if (key === "checks") store.set({ checks: Array.isArray(value) ? value : [] });
    else if (key === "selection") store.select(readSelection(value, labelsOf(model.get("trace"))));
    else if (key === "running") store.set({ running: value === true });
    else if (key === "progress") store.set({ progress: Number(value) || 0 });
    else if (key === "status") store.set({ status: String(value ?? "") });
    else store.set({ canRun: value === true });
  }
}

function pushSelection(model: AnyModel<Traits>, selection: Selection): void {
  const { array } = selection;
  const labels = labelsOf(model.get("trace"));
  const label = typeof array === "number" ? labels[array] : array;
  const unique = typeof label === "string" && labels.filter((other) => other === label).length === 1;
  model.set("selection", { ...selection, array: unique ? label : array });
}

function render({ model, el }: RenderProps<Traits>): () => void {
  const say = (type: "run" | "cancel" | "export") => (): void => model.send({ type });
  const store = new PanelStore({}, { run: say("run"), cancel: say("cancel"), exportReport: say("export") });
  pull(model, store, TRAITS);
  let pulling = false;
  const listeners = TRAITS.map((key) => {
    const listener = (): void => {
      pulling = true;
      try {
        pull(model, store, [key]);
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
  return () => {
    for (const { key, listener } of listeners) model.off(`change:${key}`, listener);
    unsubscribe();
    unmount();
  };
}

export default { render };
