/** In the browser: shows a trace in the widget of the built bundle, drives its lanes, and counts what that takes. */
import { packTrace } from "./pack.mjs";
import { largeTrace } from "./trace.mjs";

const traits = {
  head: {},
  columns: {},
  mask: [],
  checks: [],
  selection: {},
  running: false,
  progress: 0,
  status: "",
  can_run: false,
  beat: 0,
  height: null,
};
const listeners = new Map();
/** As much of an anywidget model as the widget uses. */
const model = {
  get: (name) => traits[name],
  set(name, value) {
    traits[name] = value;
    for (const listener of listeners.get(`change:${name}`) ?? []) listener();
  },
  on: (name, listener) => listeners.set(name, [...(listeners.get(name) ?? []), listener]),
  off: (name, listener) =>
    listeners.set(
      name,
      (listeners.get(name) ?? []).filter((other) => other !== listener),
    ),
  /** Chunks of the panel come from the server of this page; there is no kernel. */
  async send({ type, request, question }) {
    if (type !== "ask") return;
    const say = (message, buffers) => {
      for (const listener of listeners.get("msg:custom") ?? []) listener({ request, ...message }, buffers);
    };
    if (question.type !== "chunk") say({ type: "refused", message: "There is no kernel here." }, []);
    else {
      const code = await fetch(`static/${question.name}.js`).then((response) => response.arrayBuffer());
      say({ type: "answer", data: {} }, [new DataView(code)]);
    }
  },
  save_changes() {},
};

/** What one frame of ours cost: time in its callbacks, and calls of the canvas. */
let paintTime = 0;
let calls = 0;
const { requestAnimationFrame: native } = window;
window.requestAnimationFrame = (callback) =>
  native.call(window, (time) => {
    const began = performance.now();
    callback(time);
    paintTime += performance.now() - began;
  });

/** Only while counting: a wrapper around every call of the canvas would be what is measured. */
function counting(body) {
  const undo = [];
  for (const { prototype } of [CanvasRenderingContext2D, Path2D]) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const { value } = Object.getOwnPropertyDescriptor(prototype, name);
      if (typeof value !== "function" || name === "constructor") continue;
      prototype[name] = function (...args) {
        calls += 1;
        return value.apply(this, args);
      };
      undo.push(() => {
        prototype[name] = value;
      });
    }
  }
  return body().finally(() => {
    for (const restore of undo) restore();
  });
}

const frame = () => new Promise((resolve) => native.call(window, resolve));
const canvas = () => document.querySelector(".td-canvas");

function wheel(at, { dx = 0, dy = 0, zoom = false }) {
  const box = canvas().getBoundingClientRect();
  canvas().dispatchEvent(
    new WheelEvent("wheel", {
      deltaX: dx,
      deltaY: dy,
      ctrlKey: zoom,
      clientX: box.left + at * box.width,
      clientY: box.top + box.height / 2,
      bubbles: true,
      cancelable: true,
    }),
  );
}

/** What a hand does: to and fro along the tape, in and out about a place, up and down the lanes. */
const GESTURES = {
  pan: (i, n) => wheel(0.5, { dx: i < n / 2 ? 40 : -40 }),
  zoom: (i, n) => wheel(0.6, { dy: i % 40 < 20 ? -25 : 25, zoom: true, n }),
  scroll: (i, n) => wheel(0.5, { dy: i < n / 2 ? 30 : -30 }),
};

window.bench = {
  /** Milliseconds until the panel can be used: mounted, laid out, painted, and the page listens again. */
  async show(trace) {
    const { default: widget } = await import("./static/widget.js");
    await frame();
    const host = document.getElementById("host");
    window.bench.close?.();
    host.replaceChildren();
    traits.selection = {};
    Object.assign(traits, trace.columns ? trace : packTrace(trace));
    const began = performance.now();
    window.bench.close = widget.render({ model, el: host });
    await frame();
    await frame();
    await new Promise((resolve) => setTimeout(resolve, 0));
    return performance.now() - began;
  },
  async large(options) {
    const began = performance.now();
    const trace = largeTrace(options);
    const making = performance.now() - began;
    return { making, usable: await window.bench.show(trace) };
  },
  /** Looks at so many columns at a time (0: all), around the middle of one of the passes. */
  async view(columns, backward = false) {
    canvas().dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }));
    await frame();
    if (columns > 0) {
      const at = backward ? 0.75 : 0.3;
      for (let i = 0; i < columns; i++) wheel(at, { dy: -250, zoom: true });
    }
    await frame();
    await frame();
  },
  /** Frames of a gesture: times between frames, time spent in our own code of each, calls of the canvas. */
  async drive(gesture, frames) {
    const between = [];
    const painting = [];
    for (let i = 0, last = await frame(); i < frames; i++) {
      paintTime = 0;
      const began = performance.now();
      GESTURES[gesture](i, frames);
      const handling = performance.now() - began;
      const now = await frame();
      between.push(now - last);
      painting.push(handling + paintTime);
      last = now;
    }
    return { between, painting };
  },
  /** Canvas calls of the dearest of some frames of a gesture. */
  work(gesture, frames) {
    return counting(async () => {
      let most = 0;
      for (let i = 0; i < frames; i++) {
        calls = 0;
        GESTURES[gesture](i, frames);
        await frame();
        await frame();
        most = Math.max(most, calls);
      }
      return most;
    });
  },
  trait: (name) => traits[name],
  set: (name, value) => model.set(name, value),
  memory: () => performance.memory?.usedJSHeapSize ?? null,
};
