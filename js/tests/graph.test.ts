import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { openJson } from "../src/trace/json.js";
import type { TraceModel } from "../src/trace/model.js";
import { NOTHING, type PanelState, PanelStore } from "../src/trace/store.js";
import { step } from "../src/views/graph/arrowKeys.js";
import { buildPicture } from "../src/views/graph/build.js";
import { toDot } from "../src/views/graph/dot.js";
import { Folding } from "../src/views/graph/folding.js";
import { type Layout, layoutGraph } from "../src/views/graph/layout.js";
import { neighbourhood } from "../src/views/graph/neighbourhood.js";
import { badge, layoutEdges, layoutNodes, roughly, shapeOf, titleOf } from "../src/views/graph/nodeSize.js";
import { edgeLabel, nodeLabel } from "../src/views/graph/phrases.js";
import type { ArrayNode, GraphEdge, LaunchNode, Picture } from "../src/views/graph/picture.js";
import { SharedMemory } from "../src/views/graph/sharedMemory.js";
import { mountPanel } from "../src/views/panel.js";
import { INITIAL_VIEW, type ViewState } from "../src/views/state.js";
import wrong from "./fixtures/net.trace.json";
import kept from "./fixtures/net-40-preserve.trace.json";
import recorded from "./fixtures/recorded-ignore.trace.json";
import { type Json, makeNet } from "./make.js";

const EVIL = "</script><img src=x onerror=alert(1)>";
const EVERYTHING = { ...INITIAL_VIEW, gradientOnly: false, readOnly: true };

function modelOf(data: unknown): TraceModel {
  return openJson(data);
}

function pictureOf(model: TraceModel, view: Partial<ViewState> = {}): Picture {
  const state = { ...EVERYTHING, ...view };
  const folding = new Folding(model, state);
  return buildPicture(folding, new SharedMemory(model), folding.all(500) ?? [], state);
}

function near(model: TraceModel, centres: number[], hops: number, most = 50): { picture: Picture; cut: boolean } {
  const folding = new Folding(model, EVERYTHING);
  const memory = new SharedMemory(model);
  const { units, cut } = neighbourhood(folding, memory, centres, hops, most, EVERYTHING);
  return { picture: buildPicture(folding, memory, units, EVERYTHING), cut };
}

function boxes(picture: Picture): LaunchNode[] {
  return [...picture.nodes.values()].filter((node) => node.kind === "launch");
}

function arrays(picture: Picture): ArrayNode[] {
  return [...picture.nodes.values()].filter((node) => node.kind === "array");
}

function layoutOf(picture: Picture): Layout {
  const shapes = new Map([...picture.nodes.values()].map((node) => [node.key, shapeOf(node, roughly)]));
  return layoutGraph(layoutNodes(picture, shapes), layoutEdges(picture, shapes));
}

function named(picture: Picture, title: string): ArrayNode {
  const found = arrays(picture).find((node) => titleOf(node) === title);
  if (!found) throw new Error(`no ${title} among ${arrays(picture).map(titleOf).join(", ")}`);
  return found;
}

/** "x v0 → spring.x", in the order of the trace. */
function flow(picture: Picture, edges: readonly GraphEdge[] = picture.edges): string[] {
  return edges.map((edge) => {
    const end = (key: string): string => {
      const node = picture.nodes.get(key);
      if (node?.kind === "array") return titleOf(node);
      const port = edge.slot === null ? "" : `.${node?.ports[edge.slot]?.name}`;
      return `${node?.unit.scope?.name ?? node?.launch.name}${port}`;
    };
    return `${end(edge.from)} → ${end(edge.to)}${edge.back ? " (back)" : ""}`;
  });
}

/** A chain of launches that read a parameter and the value before: thousands of them are one array with as many versions. */
function makeChain(count: number): Json {
  const launch = (index: number): Json => ({
    ...{ index, kind: "kernel", kernel: null, name: `k${index % 7}`, dim: [64], scope: null, seconds: null },
    ...{ backward_seconds: null, call_site: null },
    args: [
      {
        name: "p",
        array: 1,
        value: null,
        reads: true,
        writes: false,
        read_version: 0,
        write_version: null,
        needed: true,
      },
      {
        name: "x",
        array: 0,
        value: null,
        reads: true,
        writes: true,
        read_version: index,
        write_version: index + 1,
        needed: false,
      },
    ],
  });
  const version = (array: number, number: number, reads: number[]): Json => ({
    ...{ array, version: number, written_by: array === 0 && number > 0 ? number - 1 : null, reads, needed_by: [] },
    ...{ overwritten_by: array === 0 && number < count ? number : null, preserved: false, recomputed: false },
    ...{ status: array === 0 && number < count ? "harmless" : "live", value: null, adjoint: null },
  });
  const all = Array.from({ length: count }, (_, i) => i);
  const base = makeNet();
  const [first, second] = base.arrays as Json[];
  return {
    ...base,
    ...{
      kernels: [],
      scopes: [],
      sequences: [],
      findings: [],
      checks: [],
      backward: { ran: false, loss: null, order: [] },
    },
    arrays: [
      { ...first, id: 0, label: "x", role: "intermediate" },
      { ...second, id: 1, label: "p", role: "input" },
    ],
    launches: all.map(launch),
    versions: [...all, count].map((i) => version(0, i, i < count ? [i] : [])).concat(version(1, 0, all)),
  };
}

describe("picture", () => {
  it("draws what each launch reads and writes, version by version", () => {
    const picture = pictureOf(modelOf(makeNet({ steps: 1 })));
    expect(flow(picture).sort()).toEqual(
      [
        "throw → launch_net.throw",
        "launch_net.v → v v1",
        "x → spring.x",
        "spring.force → force v1",
        "x → integrate.x",
        "force v1 → integrate.force",
        "integrate.x_next → x_next v1",
        "x_next v1 → target_loss.x_next",
        "target_loss.loss → loss v1",
      ].sort(),
    );
  });

  it("keeps the ports in the order of the kernel's arguments, with what they do", () => {
    const data = makeNet({ steps: 1 });
    const spring = (data.launches as Json[])[1] as { args: Json[] };
    spring.args.unshift({ name: "k", array: null, value: 2.5, reads: false, writes: false });
    spring.args.push(
      { ...spring.args[1], name: "again", needed: false },
      { ...spring.args[1], name: "s.idle", reads: false },
    );
    const box = boxes(pictureOf(modelOf(data)))[1] as LaunchNode;
    expect(box.ports.map((port) => `${port.name}: ${badge(port)}`)).toEqual(["x: r ●", "force: w", "again: r"]);
  });

  it("draws a repeated sequence once, and leads from one round to the next", () => {
    const data = makeNet({ steps: 40 });
    data.sequences = [{ first: 1, length: 2, count: 40 }];
    const model = modelOf(data);
    const picture = pictureOf(model);
    expect(boxes(picture).map((box) => [box.launch.name, box.count])).toEqual([
      ["launch_net", 1],
      ["spring", 40],
      ["integrate", 40],
      ["target_loss", 1],
    ]);
    const loop = flow(picture).filter((text) => text.endsWith("(back)") && !text.startsWith("integrate.x_next"));
    expect(loop.sort()).toEqual(["x_next / x ×40 → integrate.x (back)", "x_next / x ×40 → spring.x (back)"]);
    expect(flow(picture)).toContain("x_next / x ×40 → target_loss.x");
    expect(boxes(picture)[1]?.bands.map((band) => band.label)).toEqual(["step 0 … step 39: repeated ×40"]);
    // what is chosen in a later round is found in the box that stands for it
    expect(picture.nodeOfLaunch(53)?.launch.name).toBe("spring");
    expect(picture.nodeOfVersion(model.arrayId("force"), 17)?.key).toBe(named(picture, "force ×40").key);
    expect(pictureOf(model, { fold: false }).nodes.size).toBeGreaterThan(100);
  });

  it("makes one node of the arrays that rounds of a sequence read each for itself", () => {
    const data = makeNet({ steps: 8, extra: 8 });
    data.sequences = [{ first: 1, length: 2, count: 8 }];
    const extras = (data.arrays as Json[]).map((array) => array.id as number).slice(6);
    for (const [round, id] of extras.entries()) {
      const launch = (data.launches as { args: Json[] }[])[1 + 2 * round];
      launch?.args.push({ ...launch.args[0], name: "weight", array: id, read_version: 0, needed: false });
      const version = (data.versions as Json[]).find((v) => v.array === id) as Json;
      version.reads = [1 + 2 * round];
    }
    const model = modelOf(data);
    const picture = pictureOf(model);
    expect(named(picture, "p0 … p7 ×8").members).toHaveLength(3);
    expect(picture.nodeOfVersion(model.arrayId("p4"), 0)?.key).toBe(named(picture, "p0 … p7 ×8").key);
  });

  it("collapses a scope to a box with what goes in and out", () => {
    const picture = pictureOf(modelOf(makeNet({ steps: 3 })), { collapsed: new Set([1]) });
    const box = boxes(picture).find((node) => node.unit.scope !== null) as LaunchNode;
    expect([titleOf(box), box.count]).toEqual(["▸ step 1", 2]);
    expect(box.ports.map((port) => [port.name, badge(port)])).toEqual([
      ["x_next", "r"],
      ["x", "w"],
    ]);
    expect(arrays(picture).map(titleOf)).not.toContain("force v2");
  });

  it("joins what one launch wrote through a view to who reads the whole", () => {
    const data = makeNet({ steps: 1 });
    const list = data.arrays as Json[];
    const id = list.length;
    list.push({ ...list[4], id, label: "force[0:9]", parent: 4, stop: 100 });
    const spring = (data.launches as { args: Json[] }[])[1];
    Object.assign(spring?.args[1] as Json, { array: id, write_version: 1 });
    (data.versions as Json[]).push({ ...((data.versions as Json[])[4] as Json), array: id, version: 0 });
    const picture = pictureOf(modelOf(data));
    const edge = picture.edges.find((e) => e.view) as GraphEdge;
    expect(flow(picture, [edge])).toEqual(["spring.force → force v1"]);
  });

  it("marks what was overwritten, the edge that needs it and the one that overwrites", () => {
    const model = modelOf(wrong);
    const picture = pictureOf(model);
    const lost = picture.edges.filter((edge) => edge.fate === "lost");
    expect(flow(picture, lost)).toContain("x v0 → spring_forces.x");
    expect(flow(picture, lost)).toContain("integrate.x_next → x v0 (back)");
    expect(named(picture, "x v0").status).toBe("lost");
    expect(named(picture, "x v0").findings.map((finding) => finding.rule)).toEqual(["overwrite"]);
    expect(named(picture, "throw").findings).toEqual([]);
    const calm = pictureOf(modelOf(kept));
    expect(calm.edges.some((edge) => edge.fate === "lost")).toBe(false);
    expect(calm.edges.some((edge) => edge.kind === "overwrite" && edge.fate === "kept")).toBe(true);
  });

  it("hides the arrays that the lanes hide", () => {
    const data = makeNet({ steps: 1 });
    Object.assign((data.arrays as Json[])[4] as Json, { requires_grad: false });
    const model = modelOf(data);
    expect(arrays(pictureOf(model)).map(titleOf)).toContain("force v1");
    const picture = pictureOf(model, { gradientOnly: true });
    expect(arrays(picture).map(titleOf)).not.toContain("force v1");
    expect(picture.hidden).toBe(1);
  });

  it("survives scopes that are their own ancestors and launches of a scope that is not theirs", () => {
    const data = makeNet({ steps: 3 });
    const scopes = data.scopes as Json[];
    Object.assign(scopes[0] as Json, { parent: 1 });
    Object.assign(scopes[1] as Json, { parent: 0, first: 7, last: 2 });
    for (const collapsed of [new Set<number>(), new Set([0]), new Set([1]), new Set([0, 1, 2, 99])]) {
      const picture = pictureOf(modelOf(data), { collapsed });
      expect(picture.nodes.size).toBeGreaterThan(0);
      expect(layoutOf(picture).nodes.size).toBe(picture.nodes.size);
    }
  });
});

describe("neighbourhood", { timeout: 30_000 }, () => {
  it("takes in who wrote, who reads, and who overwrites, hop by hop", () => {
    const model = modelOf(makeNet({ steps: 3 }));
    const launches = (hops: number): number[] => boxes(near(model, [1], hops).picture).map((box) => box.launch.index);
    expect(launches(0)).toEqual([1]);
    expect(launches(1)).toEqual([1, 2, 4]); // 2 reads the force, 4 overwrites x, which the adjoint of 1 needs
    expect(launches(2)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("says where there is more than is drawn, and draws the nearest", () => {
    const model = modelOf(makeChain(200));
    const { picture, cut } = near(model, [100], 4, 5);
    expect(cut).toBe(true);
    expect(boxes(picture).map((box) => box.launch.index)).toEqual([98, 99, 100, 101, 102]);
    expect(named(picture, "x v98").writer).toBe(97);
    expect(named(picture, "p").readElsewhere).toBe(true);
    expect(near(model, [100], 4).cut).toBe(false);
    const two = near(model, [100, 150], 1, 4);
    expect(boxes(two.picture).map((box) => box.launch.index)).toEqual([99, 100, 101, 150]);
  });

  it("costs what is drawn, however long the tape is", () => {
    const model = modelOf(makeChain(5_000));
    const looked = vi.spyOn(model, "launch");
    const start = performance.now();
    const { picture } = near(model, [3_000], 4);
    layoutOf(picture);
    const spent = performance.now() - start;
    expect(boxes(picture)).toHaveLength(9);
    expect(new Set(looked.mock.calls.map(([index]) => index)).size).toBeLessThan(40);
    expect(spent).toBeLessThan(5_000); // about 10 ms; machines that run tests are busy
  });

  it("finds out at once that a tape is too long to be shown as a whole", () => {
    const model = modelOf(makeChain(2_000));
    const looked = vi.spyOn(model, "launch");
    expect(new Folding(model, EVERYTHING).all(60)).toBeNull();
    expect(looked.mock.calls.length).toBeLessThan(200);
  });
});

describe("layout", { timeout: 30_000 }, () => {
  const pictures = (): Picture[] => [
    pictureOf(modelOf(wrong)),
    pictureOf(modelOf(kept)),
    pictureOf(modelOf(makeNet({ steps: 9 })), { collapsed: new Set([2, 3]) }),
    near(modelOf(recorded), [7], 3).picture,
    near(modelOf(makeChain(300)), [150], 4).picture,
  ];

  it("is the same every time", () => {
    for (const [i, picture] of pictures().entries())
      expect(layoutOf(picture)).toEqual(layoutOf(pictures()[i] as Picture));
  });

  it("puts nothing over anything else, and time downward", () => {
    for (const picture of pictures()) {
      const layout = layoutOf(picture);
      const shapes = new Map([...picture.nodes.values()].map((node) => [node.key, shapeOf(node, roughly)]));
      const placed = [...layout.nodes].map(([key, at]) => ({
        key,
        ...at,
        ...(shapes.get(key) ?? { width: 0, height: 0 }),
      }));
      for (const [i, a] of placed.entries()) {
        expect(a.x).toBeGreaterThanOrEqual(0);
        expect(a.x + a.width).toBeLessThanOrEqual(layout.width + 0.01);
        for (const b of placed.slice(i + 1)) {
          const apart =
            a.x + a.width <= b.x + 0.01 ||
            b.x + b.width <= a.x + 0.01 ||
            a.y + a.height <= b.y ||
            b.y + b.height <= a.y;
          expect(apart, `${a.key} and ${b.key}`).toBe(true);
        }
      }
      for (const edge of picture.edges.filter((e) => !e.back)) {
        const [from, to] = [layout.nodes.get(edge.from), layout.nodes.get(edge.to)];
        expect((from?.y ?? 0) < (to?.y ?? 0), edge.key).toBe(true);
      }
    }
  });

  it("ends every edge at its port", () => {
    for (const picture of pictures()) {
      const layout = layoutOf(picture);
      const shapes = new Map([...picture.nodes.values()].map((node) => [node.key, shapeOf(node, roughly)]));
      for (const edge of picture.edges) {
        const points = layout.edges.get(edge.key) ?? [];
        const [box, tip] = edge.kind === "read" ? [edge.to, points.at(-1)] : [edge.from, points[0]];
        const port = shapes.get(box)?.ports[edge.slot ?? -1];
        if (!port) continue;
        const x = (tip?.x ?? 0) - (layout.nodes.get(box)?.x ?? 0);
        expect(x).toBeCloseTo(port.x + port.width / 2, 3);
      }
    }
  });

  it("puts launches of a scope into a band of their own", () => {
    const picture = pictureOf(modelOf(makeNet({ steps: 3 })));
    const layout = layoutOf(picture);
    const bands = [...layout.bands].sort((a, b) => a.top - b.top);
    expect(bands.map((band) => band.key)).toEqual(["scope 0", "scope 1", "scope 2"]);
    for (const [i, band] of bands.entries()) expect(band.top).toBeGreaterThan(bands[i - 1]?.bottom ?? -1000);
    for (const box of boxes(picture)) {
      const y = layout.nodes.get(box.key)?.y ?? 0;
      const around = bands.filter((band) => band.top < y && y < band.bottom).map((band) => band.key);
      expect(around).toEqual(box.bands.map((band) => band.key));
    }
  });

  it("does not go astray on the largest picture", () => {
    const model = modelOf(makeNet({ steps: 60 }));
    const { picture } = near(model, [60], 4, 50);
    layoutOf(picture);
    const start = performance.now();
    layoutOf(picture);
    expect(performance.now() - start).toBeLessThan(5_000); // about 30 ms on a quiet machine
  });
});

describe("words", () => {
  it("say what an edge and a node are", () => {
    const model = modelOf(wrong);
    const picture = pictureOf(model);
    const labels = picture.edges.map((edge) => edgeLabel(model, picture, edge));
    expect(labels).toContain("force v2, read by integrate as force");
    expect(labels).toContain("x v0, overwritten by integrate (launch 6): an adjoint still needs it");
    expect(nodeLabel(model, named(picture, "x v0"))).toBe(
      "array x v0; requires_grad; overwritten: the reverse pass sees other values; error: overwrite",
    );
  });

  it("walk along edges with the arrows", () => {
    const picture = pictureOf(modelOf(makeNet({ steps: 1 })));
    const layout = layoutOf(picture);
    const walk = (from: string | null, ...keys: string[]): string => {
      let at = from;
      for (const key of keys) at = step(picture, layout, at, key)?.key ?? at;
      const node = picture.nodes.get(at ?? "");
      return node ? titleOf(node) : String(at);
    };
    const force = named(picture, "force v1").key;
    expect(walk(force, "ArrowDown")).toBe("integrate");
    expect(walk(force, "ArrowUp")).toBe("spring");
    expect(walk(force, "ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown")).toBe("loss v1");
    const spring = boxes(picture)[1]?.key ?? "";
    expect(walk(spring, "ArrowLeft", "ArrowLeft", "ArrowLeft")).toBe("scope 0");
    expect(walk("scope 0", "ArrowDown")).toBe("spring");
  });

  it("walk on rather than round a loop or back along an overwrite", () => {
    const data = makeNet({ steps: 40 });
    data.sequences = [{ first: 1, length: 2, count: 40 }];
    const picture = pictureOf(modelOf(data));
    const next = step(picture, layoutOf(picture), named(picture, "x_next / x ×40").key, "ArrowDown");
    expect(picture.nodeOfLaunch(81)?.key).toBe(next?.key);
  });
});

describe("DOT", () => {
  it("is what is shown, with ports, colours and boxes around", () => {
    const picture = pictureOf(modelOf(wrong));
    const dot = toDot(picture, "net", "11 of 11 launches");
    expect(dot).toMatch(/^digraph "net" \{\n/);
    expect(dot.match(/shape=plain/g)).toHaveLength(boxes(picture).length);
    expect(dot.match(/shape=ellipse/g)).toHaveLength(arrays(picture).length);
    expect(dot.match(/ -> /g)).toHaveLength(picture.edges.length);
    expect(dot).toMatch(/a\d+ -> l1:p0 \[color="#c62828", penwidth=1.8\];/);
    expect(dot).toContain('fillcolor="#c8e6c9"');
    expect(dot).toContain("label=<step 0>");
    expect(dot).toContain("11 of 11 launches");
  });

  it("leaves names names", () => {
    const data = makeNet({ steps: 1 });
    Object.assign((data.arrays as Json[])[4] as Json, { label: `${EVIL}"\\n];\u0000}` });
    Object.assign((data.launches as Json[])[1] as Json, { name: "]>];}\n<B>" });
    const dot = toDot(pictureOf(modelOf(data)), `a"b\\${EVIL}`, "");
    expect(dot).not.toContain("<img");
    expect(dot).not.toContain("</script>");
    expect(dot.split("\n")[0]).toBe('digraph "a&quot;b\\\\&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" {');
    expect(dot).toContain("]&gt;];} &lt;B&gt;");
  });
});

describe("graph view", { timeout: 30_000 }, () => {
  let host: HTMLElement;
  let unmount: () => void = () => {};

  function mount(state: Partial<PanelState> = {}): PanelStore {
    const store = new PanelStore({ trace: openJson(makeNet()), ...state });
    unmount = mountPanel(host, store);
    return store;
  }

  function find<E extends Element = HTMLElement>(selector: string): E {
    const element = host.querySelector<E>(selector);
    if (!element) throw new Error(`no ${selector} in the panel`);
    return element;
  }

  function labelled(text: string): SVGElement {
    const found = [...host.querySelectorAll<SVGElement>(".td-g-svg [aria-label]")].find((element) =>
      element.getAttribute("aria-label")?.startsWith(text),
    );
    if (!found) throw new Error(`nothing is called ${text}`);
    return found;
  }

  function press(key: string, target: Element = find(".td-canvas")): void {
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }

  function click(element: Element): void {
    element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }

  beforeEach(() => {
    host = document.createElement("div");
    document.body.append(host);
  });

  afterEach(() => {
    unmount();
    host.remove();
  });

  it("is behind a tab, and draws nothing before somebody looks", () => {
    mount();
    const [lanes, graph] = [...host.querySelectorAll<HTMLElement>(".td-stagetab")];
    expect(find(".td-graph").hidden).toBe(true);
    expect(host.querySelectorAll(".td-g-node")).toHaveLength(0);
    graph?.click();
    expect(find(".td-graph").hidden).toBe(false);
    expect(find(".td-lanes").hidden).toBe(true);
    expect(graph?.getAttribute("aria-selected")).toBe("true");
    expect(host.querySelector(`#${graph?.getAttribute("aria-controls")}`)).toBe(find(".td-graph"));
    expect(host.querySelectorAll(".td-g-launch")).toHaveLength(8);
    press("ArrowLeft", graph as Element);
    expect(lanes?.getAttribute("aria-selected")).toBe("true");
    press("g");
    expect(find(".td-graph").hidden).toBe(false);
    expect(find(".td-g-says").textContent).toBe("The whole tape: 8 launches.");
  });

  it("chooses launches, ports, versions and edges, and shows what was chosen elsewhere", () => {
    const store = mount();
    press("g");
    click(labelled("launch 3, spring"));
    expect(store.get("selection")).toMatchObject({ launch: 3 });
    expect(labelled("launch 3, spring").classList.contains("td-g-chosen")).toBe(true);
    click(labelled("integrate reads force v1"));
    expect(store.get("selection")).toMatchObject({ launch: 2, array: 4, version: 1 });
    click(labelled("array force v3"));
    expect(store.get("selection")).toMatchObject({ launch: 2, array: 4, version: 3 });
    click(labelled("force v2, read by integrate"));
    expect(store.get("selection")).toMatchObject({ launch: 4, array: 4, version: 2 });
    expect(labelled("force v2, read by integrate").classList.contains("td-g-chosen")).toBe(true);
    store.select({ launch: 5 });
    expect(labelled("launch 5, spring").getAttribute("aria-current")).toBe("true");
    expect(labelled("launch 4, integrate").getAttribute("aria-current")).toBeNull();
  });

  it("dims what a finding does not name", () => {
    const store = mount();
    press("g");
    const dim = (text: string): boolean => labelled(text).classList.contains("td-g-dim");
    expect(dim("launch 0")).toBe(false);
    find<HTMLButtonElement>(".td-card").click();
    expect(store.get("selection").finding).toBe(0);
    expect([dim("launch 1, spring"), dim("launch 4, integrate"), dim("array x")]).toEqual([false, false, false]);
    expect([dim("launch 0"), dim("launch 7"), dim("array loss")]).toEqual([true, true, true]);
  });

  it("walks with the keyboard, and Enter chooses", () => {
    const store = mount({ selection: { ...NOTHING, launch: 1 } });
    press("g");
    const focused = (): Element => find(".td-g-svg [tabindex='0']");
    expect(focused().getAttribute("aria-label")).toContain("launch 1, spring");
    press("ArrowDown", focused());
    expect(focused().getAttribute("aria-label")).toContain("array force v1");
    expect(find("[aria-live]").textContent).toBe("force v1, written by spring as force");
    press("Enter", focused());
    expect(store.get("selection")).toMatchObject({ launch: 1, array: 4, version: 1 });
    press("ArrowDown", focused());
    press("Enter", focused());
    expect(store.get("selection").launch).toBe(2);
    expect(host.querySelectorAll(".td-g-svg [tabindex='0']")).toHaveLength(1);
  });

  it("collapses a scope by its head and opens it again", () => {
    mount();
    press("g");
    click(labelled("scope step 1: collapse"));
    expect(host.querySelectorAll(".td-g-launch")).toHaveLength(7);
    click(labelled("scope step 1, collapsed, 2 launches"));
    expect(host.querySelectorAll(".td-g-launch")).toHaveLength(8);
  });

  it("shows the neighbourhood of a long tape, follows what is chosen elsewhere, and widens", () => {
    const store = mount({ trace: openJson(makeChain(2_000)), selection: { ...NOTHING, launch: 1_500 } });
    press("g");
    const says = (): string => find(".td-g-says").textContent ?? "";
    expect(says()).toContain("5 of 2,000 launches: those at most 2 launches away from launch 1500.");
    const [whole] = [...host.querySelectorAll<HTMLButtonElement>(".td-g-choice")];
    expect(whole?.disabled).toBe(true);
    const four = [...host.querySelectorAll<HTMLButtonElement>(".td-g-choice")].find((b) => b.textContent === "4");
    four?.click();
    expect(says()).toContain("9 of 2,000 launches: those at most 4 launches away from launch 1500.");
    store.select({ launch: 1_502 });
    expect(says()).toContain("from launch 1500"); // it is drawn: the picture stays
    const centre = [...host.querySelectorAll<HTMLButtonElement>(".td-g-controls .td-link")][0];
    expect(centre?.textContent).toBe("Centre on launch 1502");
    centre?.click();
    expect(says()).toContain("from launch 1502");
    store.select({ launch: 40 });
    expect(says()).toContain("from launch 40.");
  });

  it("shows adjoints flowing while the backward pass is looked at", () => {
    mount({ selection: { ...NOTHING, launch: 7 } });
    press("g");
    for (let i = 0; i < 3; i++) press("ArrowRight");
    expect(find(".td-scrub-text").textContent).toBe("launch 5 backward");
    expect(find(".td-g-svg").classList.contains("td-g-backward")).toBe(true);
    expect(find(".td-g-says").textContent).toContain("arrows show where adjoints flow");
    expect(labelled("x v0, read by spring").classList.contains("td-g-ahead")).toBe(true);
  });

  it("has nothing to draw of an empty tape, and says so", () => {
    mount({ trace: openJson({ ...makeChain(0), versions: [], arrays: [] }) });
    press("g");
    expect(find(".td-g-says").textContent).toBe("The whole tape: 0 launches.");
    press("f");
    press("ArrowDown", find(".td-g-svg"));
    find<HTMLButtonElement>(".td-g-copy").click();
  });

  it("writes the number that it is coloured by", () => {
    mount();
    press("g");
    const colour = find<HTMLSelectElement>("select[aria-label='Colour bars by']");
    const force = (): SVGElement => labelled("array force v1");
    const set = (by: string): void => {
      colour.value = by;
      colour.dispatchEvent(new Event("change"));
    };
    set("value");
    expect(force().textContent).toContain("‖value‖ 2");
    expect(force().classList.toString()).toContain("td-g-level");
    set("time");
    expect(force().textContent?.trim()).toBe("force v1 vec3[256]");
    expect(labelled("launch 1, spring").textContent).toContain("20 µs");
    set("findings");
    expect(labelled("launch 1, spring").classList.toString()).not.toContain("td-g-level");
  });

  it("keeps hostile names text", () => {
    const data = makeNet();
    for (const array of data.arrays as Json[]) array.label = `${EVIL} ${"x".repeat(100_000)}`;
    for (const launch of data.launches as Json[]) launch.name = EVIL;
    for (const scope of data.scopes as Json[]) scope.name = EVIL;
    mount({ trace: openJson(data) });
    press("g");
    expect(host.querySelectorAll("img, script")).toHaveLength(0);
    expect(host.querySelectorAll(".td-g-launch")).toHaveLength(8);
    const longest = Math.max(
      ...[...host.querySelectorAll(".td-g-svg *")].map((e) => (e.getAttribute("aria-label") ?? "").length),
    );
    expect(longest).toBeLessThan(1_000);
  });

  it("shows the text where a page may not copy", async () => {
    mount();
    press("g");
    vi.stubGlobal("navigator", { clipboard: { writeText: () => Promise.reject(new Error("not allowed")) } });
    find<HTMLButtonElement>(".td-g-copy").click();
    await vi.waitFor(() => expect(find<HTMLTextAreaElement>(".td-g-dot").hidden).toBe(false));
    expect(find<HTMLTextAreaElement>(".td-g-dot").value).toContain("digraph");
    vi.unstubAllGlobals();
  });
});
