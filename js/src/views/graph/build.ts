/** From boxes to a picture: their ports, the versions of arrays that they read and write, and the edges between. */
import type { TraceModel } from "../../trace/model.js";
import type { Arg, Finding, Launch, VersionStatus } from "../../trace/types.js";
import type { ViewState } from "../state.js";
import { bandsOf } from "./bands.js";
import type { Folding, Unit } from "./folding.js";
import type { ArrayNode, EdgeKind, GraphEdge, GraphNode, LaunchNode, Member, Picture, Port } from "./picture.js";
import { hasPort, isHidden, type SharedMemory } from "./sharedMemory.js";
import { type VersionFacts, versionFacts, versionFactsAt } from "./versionLookup.js";

/** The most ports of a box; with more it would be unreadable. */
const MOST_PORTS = 14;
/** The most versions that a node stores. */
const MOST_MEMBERS = 64;
/** Findings that are looked up, worst first, and launches of each. */
const MOST_FINDINGS = 300;
const MOST_OF_FINDING = 500;

type Draft<T> = { -readonly [K in keyof T]: T[K] };
type Filter = Pick<ViewState, "gradientOnly" | "readOnly"> & { readonly suspectOnly?: boolean };

/** The end of an edge at a box: launch, argument, and access. */
interface End {
  readonly unit: Unit;
  readonly index: number | null;
  readonly launch: number;
  readonly array: number;
  readonly version: number;
  /** Through a view of the same memory. */
  readonly view: boolean;
}

interface DraftLaunch extends Draft<LaunchNode> {
  ports: Port[];
  /** Port of each argument, or (of a scope) of each array. */
  readonly slots: Map<number, number>;
}

interface DraftArray extends Draft<ArrayNode> {
  labels: string[];
  members: Member[];
}

export function buildPicture(folding: Folding, memory: SharedMemory, units: readonly Unit[], filter: Filter): Picture {
  return new Builder(folding, memory, filter).build(units);
}

class Builder {
  private readonly model: TraceModel;
  private readonly boxes = new Map<string, DraftLaunch>();
  private readonly arrays = new Map<string, DraftArray>();
  private readonly edges = new Map<string, Draft<GraphEdge>>();
  /** Initial versions that rounds of a sequence read at the same port are one node: key → key. */
  private readonly merged = new Map<string, { key: string; count: number }>();
  private readonly hidden = new Map<number, boolean>();

  constructor(
    private readonly folding: Folding,
    private readonly memory: SharedMemory,
    private readonly filter: Filter,
  ) {
    this.model = folding.model;
  }

  build(units: readonly Unit[]): Picture {
    for (const unit of units) this.box(unit);
    for (const unit of units) this.merge(unit);
    for (const unit of units) {
      for (const index of this.folding.samples(unit)) {
        const launch = this.model.launch(index);
        if (launch) this.connect(unit, launch);
      }
      if (unit.scope) this.results(unit);
    }
    for (const node of [...this.arrays.values()]) this.overwrites(node);
    this.findings();
    const nodes = new Map<string, GraphNode>([...this.boxes, ...this.arrays]);
    return {
      nodes,
      edges: [...this.edges.values()],
      hidden: [...this.hidden.values()].filter((hidden) => hidden).length,
      nodeOfLaunch: (launch) => (launch === null ? null : (this.boxes.get(this.folding.unitOf(launch).key) ?? null)),
      nodeOfVersion: (array, version) => this.nodeOfVersion(array, version),
    };
  }

  private isHidden(array: number): boolean {
    const known = this.hidden.get(array);
    if (known !== undefined) return known;
    const hidden = isHidden(this.model, array, this.filter);
    this.hidden.set(array, hidden);
    return hidden;
  }

  private box(unit: Unit): void {
    const launch = this.model.launch(unit.first);
    if (!launch) return;
    const slots = new Map<number, number>();
    const ports: Port[] = [];
    let more = 0;
    for (const [index, arg] of unit.scope ? [] : launch.args.entries()) {
      if (!hasPort(arg)) continue;
      if (ports.length === MOST_PORTS) {
        more++;
        continue;
      }
      slots.set(index, ports.length);
      ports.push({
        slot: ports.length,
        name: arg.name,
        array: arg.array,
        reads: arg.reads,
        writes: arg.writes,
        needed: arg.needed,
        readVersion: arg.readVersion,
        writeVersion: arg.writeVersion,
      });
    }
    this.boxes.set(unit.key, {
      kind: "launch",
      key: unit.key,
      unit,
      launch,
      ports,
      more,
      findings: [],
      count: this.folding.count(unit),
      bands: bandsOf(this.model, unit),
      slots,
    });
  }

  /** Arrays of its own for every round (weights of a layer, frames of a video) are one node. */
  private merge(unit: Unit): void {
    if (!unit.sequence || unit.scope) return;
    const launches = this.folding.samples(unit).map((index) => this.model.launch(index));
    for (const [slot, arg] of (launches[0]?.args ?? []).entries()) {
      const keys = launches.map((launch) => this.initialKey(launch?.args[slot])).filter((key) => key !== null);
      const different = new Set(keys);
      if (different.size < 2 || arg.array === null) continue;
      const [first] = keys as [string];
      for (const key of different) {
        if (!this.merged.has(key)) this.merged.set(key, { key: this.root(first), count: unit.sequence.count });
      }
    }
  }

  private initialKey(arg: Arg | undefined): string | null {
    if (arg?.array == null || arg.readVersion === null) return null;
    const version = versionFacts(this.model, arg.array, arg.readVersion);
    return version === null || version.writtenBy === null ? `v${arg.array}.${arg.readVersion}` : null;
  }

  private root(key: string): string {
    for (let at = key, hops = 0; hops < 100; hops++) {
      const next = this.merged.get(at)?.key;
      if (next === undefined || next === at) return at;
      at = next;
    }
    return key;
  }

  private keyOf(array: number, number_: number, version: VersionFacts | null): string {
    const writer = version?.writtenBy ?? null;
    if (writer === null) return this.root(`v${array}.${number_}`);
    const unit = this.folding.unitOf(writer);
    if (unit.scope) return `w${unit.key}.a${array}`;
    if (!unit.sequence) return `v${array}.${number_}`;
    const launch = this.model.launch(writer);
    const by = launch && this.memory.writer(launch, array);
    return by && !by.view ? `w${unit.key}.${by.index}` : `w${unit.key}.a${array}`;
  }

  private nodeOfVersion(array: number | null, version: number | null): ArrayNode | null {
    if (array === null) return null;
    if (version === null)
      return [...this.arrays.values()].find((n) => n.members.some((m) => m.array === array)) ?? null;
    const found = versionFacts(this.model, array, version);
    const direct = this.arrays.get(this.keyOf(array, version, found));
    if (direct || !found || found.writtenBy !== null) return direct ?? null;
    // A round in the middle of a sequence reads it: the node is that of the port.
    const reader = this.model.launch(found.reads[0] ?? null);
    const unit = reader && this.folding.unitOf(reader.index);
    const index = reader?.args.findIndex((arg) => arg.array === array && arg.readVersion === version) ?? -1;
    const slot = unit ? this.boxes.get(unit.key)?.slots.get(index) : undefined;
    const edge = [...this.edges.values()].find(
      (e) => e.kind === "read" && e.to === unit?.key && e.slot === slot && (this.arrays.get(e.from)?.count ?? 0) > 1,
    );
    return (edge && this.arrays.get(edge.from)) ?? null;
  }

  // ------------------------------------------------------------------ reads and writes

  private connect(unit: Unit, launch: Launch): void {
    for (const [index, arg] of launch.args.entries()) {
      if (!hasPort(arg) || this.isHidden(arg.array)) continue;
      if (arg.reads && arg.readVersion !== null) this.read(unit, launch, index, arg, arg.array, arg.readVersion);
      if (arg.writes && arg.writeVersion !== null && !unit.scope) this.node(arg.array, arg.writeVersion);
    }
  }

  private read(unit: Unit, launch: Launch, index: number, arg: Arg, array: number, number_: number): void {
    const version = versionFacts(this.model, array, number_);
    const writer = version?.writtenBy ?? null;
    if (
      unit.scope &&
      writer !== null &&
      this.folding.unitOf(writer) === unit &&
      sameRound(unit, writer, launch.index)
    ) {
      return; // within the box
    }
    const node = this.node(array, number_);
    const status = version?.status;
    const fate = !arg.needed ? null : status === "lost" ? "lost" : status === "preserved" ? "kept" : null;
    this.edge({ unit, index, launch: launch.index, array, version: number_, view: false }, "read", node, fate);
  }

  /** The accesses of a collapsed scope that are visible outside. */
  private results(unit: Unit): void {
    const written = new Set<number>();
    for (const index of this.folding.samples(unit)) {
      for (const arg of this.model.launch(index)?.args ?? []) {
        if (hasPort(arg) && arg.writes && !this.isHidden(arg.array)) written.add(arg.array);
      }
    }
    for (const array of written) {
      const version = versionFactsAt(this.model, array, unit.last);
      if (!version || version.writtenBy === null || version.writtenBy < unit.first) continue;
      if (version.status === "live" || (version.reads.at(-1) ?? -1) > unit.last) this.node(array, version.version);
    }
  }

  private node(array: number, number_: number): DraftArray {
    const version = versionFacts(this.model, array, number_);
    const key = this.keyOf(array, number_, version);
    let node = this.arrays.get(key);
    if (!node) {
      node = this.newNode(key, array, version);
      this.arrays.set(key, node);
    }
    if (node.members.some((m) => m.array === array && m.version === number_)) return node;
    if (node.members.length >= MOST_MEMBERS) return node;
    node.members.push({ array, version: number_ });
    const label = this.model.array(array)?.label ?? "";
    if (!node.labels.includes(label)) node.labels.push(label);
    if (version) this.note(node, version);
    return node;
  }

  private newNode(key: string, array: number, version: VersionFacts | null): DraftArray {
    const info = this.model.array(array);
    if (!info) throw new RangeError(`no array ${array}`);
    const writer = version?.writtenBy ?? null;
    const unit = writer === null ? null : this.folding.unitOf(writer);
    const many = this.merged.get(key)?.count ?? (unit?.scope ? 1 : (unit?.sequence?.count ?? 1));
    return {
      kind: "array",
      key,
      info,
      labels: [],
      members: [],
      count: many,
      requiresGrad: info.requiresGrad,
      status: "live",
      findings: [],
      writer: writer === null ? -1 : this.boxes.has(unit?.key ?? "") ? null : writer,
      readElsewhere: false,
      from: unit && this.boxes.has(unit.key) ? unit.key : null,
    };
  }

  /** Adds a version: its status, its writer, its other readers. */
  private note(node: DraftArray, version: VersionFacts): void {
    if (version.status !== "live") node.status = worse(node.status, version.status);
    node.requiresGrad ||= this.model.array(version.array)?.requiresGrad ?? false;
    const { reads } = version;
    const looked = reads.length > MOST_MEMBERS ? [reads[0], reads.at(-1)] : [...reads];
    node.readElsewhere ||= looked.some((at) => at !== undefined && !this.boxes.has(this.folding.unitOf(at).key));
    const launch = this.model.launch(version.writtenBy);
    const unit = launch && this.folding.unitOf(launch.index);
    if (!launch || !unit || !this.boxes.has(unit.key)) return;
    const by = this.memory.writer(launch, version.array);
    const { array, version: number_ } = version;
    const end = {
      unit,
      index: by?.index ?? null,
      launch: launch.index,
      array,
      version: number_,
      view: by?.view ?? false,
    };
    this.edge(end, "write", node);
  }

  private overwrites(node: DraftArray): void {
    for (const { array, version: number_ } of node.members) {
      const version = versionFacts(this.model, array, number_);
      const launch = this.model.launch(version?.overwrittenBy ?? null);
      if (!version || !launch || (version.status !== "lost" && version.status !== "preserved")) continue;
      const unit = this.folding.unitOf(launch.index);
      if (!this.boxes.has(unit.key)) continue;
      const by = this.memory.writer(launch, array);
      const fate = version.status === "lost" ? "lost" : "kept";
      const index = by?.index ?? null;
      this.edge({ unit, index, launch: launch.index, array, version: number_, view: false }, "overwrite", node, fate);
    }
  }

  private edge(end: End, kind: EdgeKind, node: DraftArray, fate: GraphEdge["fate"] = null): void {
    const { unit, index, launch, array, version, view } = end;
    const box = this.boxes.get(unit.key);
    if (!box) return;
    const slot = unit.scope
      ? this.scopePort(box, array, kind, kind === "read" ? version : null)
      : index === null
        ? null
        : (box.slots.get(index) ?? null);
    const [from, to] = kind === "read" ? [node.key, unit.key] : [unit.key, node.key];
    const key = `${from}>${to}:${slot ?? ""}:${kind}`;
    const known = this.edges.get(key);
    if (known) {
      if (fate === "lost" || known.fate === null) known.fate = fate ?? known.fate;
      return;
    }
    const writer = node.from ? this.boxes.get(node.from) : undefined;
    const back = kind === "read" ? writer !== undefined && unit.first <= writer.unit.first : kind === "overwrite";
    const grad = kind !== "overwrite" && (this.model.array(array)?.requiresGrad ?? false);
    this.edges.set(key, { key, kind, from, to, slot, launch, array, version, fate, grad, back, view });
  }

  /** The port of a collapsed scope for an array: by its label, in the order of first use. */
  private scopePort(box: DraftLaunch, array: number, kind: EdgeKind, version: number | null): number | null {
    const reads = kind === "read";
    let slot = box.slots.get(array);
    if (slot === undefined) {
      if (box.ports.length === MOST_PORTS) {
        box.more++;
        return null;
      }
      slot = box.ports.length;
      box.slots.set(array, slot);
      const name = this.model.array(array)?.label ?? "";
      const none = { reads: false, writes: false, needed: false, readVersion: null, writeVersion: null };
      box.ports.push({ slot, name, array, ...none });
    }
    const port = box.ports[slot] as Draft<Port>;
    if (reads) {
      port.reads = true;
      port.readVersion ??= version;
    } else if (kind === "write") port.writes = true;
    return slot;
  }

  // ------------------------------------------------------------------ findings

  /** Errors and warnings, at the boxes and the arrays that they name. */
  private findings(): void {
    const readers = new Map<string, Set<string>>();
    for (const edge of this.edges.values()) {
      const [node, box] = edge.kind === "read" ? [edge.from, edge.to] : [edge.to, edge.from];
      const set = readers.get(node) ?? new Set();
      set.add(box);
      readers.set(node, set);
    }
    for (const finding of this.model.findings.slice(0, MOST_FINDINGS)) {
      if (finding.severity === "info") continue;
      const units = new Set(finding.launches.slice(0, MOST_OF_FINDING).map((at) => this.folding.unitOf(at).key));
      for (const key of units) add(this.boxes.get(key), finding);
      const labels = new Set(finding.arrays);
      for (const node of this.arrays.values()) {
        const named = node.members.some(({ array }) => labels.has(this.model.array(array)?.label ?? ""));
        const near = units.size === 0 || [...(readers.get(node.key) ?? [])].some((key) => units.has(key));
        if (named && near) add(node, finding);
      }
    }
  }
}

function add(node: { findings: readonly Finding[] } | undefined, finding: Finding): void {
  if (node && !node.findings.includes(finding)) node.findings = [...node.findings, finding];
}

function sameRound(unit: Unit, one: number, other: number): boolean {
  if (!unit.sequence) return true;
  const { first, length } = unit.sequence;
  return Math.floor((one - first) / length) === Math.floor((other - first) / length);
}

const BY_SEVERITY: readonly VersionStatus[] = ["live", "kept", "harmless", "preserved", "lost"];

function worse(one: VersionStatus, other: VersionStatus): VersionStatus {
  return BY_SEVERITY.indexOf(one) > BY_SEVERITY.indexOf(other) ? one : other;
}
