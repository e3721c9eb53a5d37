import type { AnyModel } from "@anywidget/types";
import { makeNet } from "./make.js";
import { packTrace } from "./pack.mjs";

type Handler = (...args: unknown[]) => void;

/**
 * An anywidget model that keeps what is set and tells of it, as the real one does. It has what the anywidget specification gives
 * a widget and nothing else, as in Colab and VS Code: looking for more is an error.
 */
export function fakeModel(traits: Record<string, unknown>) {
  const handlers = new Map<string, Set<Handler>>();
  const sent: unknown[] = [];
  const saved: Record<string, unknown>[] = [];
  const dirty: Record<string, unknown> = {};
  const tell = (event: string, ...args: unknown[]): void => {
    for (const handler of handlers.get(event) ?? []) handler(...args);
  };
  const model = {
    get: (key: string) => traits[key],
    set: (key: string, value: unknown) => {
      traits[key] = value;
      dirty[key] = value;
      tell(`change:${key}`);
    },
    save_changes: () => saved.push({ ...dirty }),
    on: (event: string, handler: Handler) => {
      const set = handlers.get(event) ?? new Set();
      handlers.set(event, set.add(handler));
    },
    off: (event: string, handler: Handler) => handlers.get(event)?.delete(handler),
    send: (content: unknown) => sent.push(content),
  };
  const strict = new Proxy(model, {
    get(target, key) {
      if (key in target) return target[key as keyof typeof target];
      throw new Error(`the widget uses model.${String(key)}, which not every host has`);
    },
  });
  const python = (key: string, value: unknown): void => {
    traits[key] = value;
    tell(`change:${key}`);
  };
  /** A custom message of the kernel; hosts hand its buffers over as views. */
  const say = (content: unknown, buffers: DataView[] = []): void => tell("msg:custom", content, buffers);
  return { model: strict as unknown as AnyModel, sent, saved, traits, python, say, handlers };
}

/** The traits of a widget that shows the net, as Python sets them. */
export function traitsOfNet(): Record<string, unknown> {
  return {
    ...packTrace(makeNet()),
    mask: [[null, "throw", "loss"]],
    checks: [],
    selection: {},
    running: false,
    progress: 0,
    status: "",
    can_run: true,
    height: null,
  };
}
