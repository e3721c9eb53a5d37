/** The picture before layout: boxes with ports, versions of arrays, edges between them. */
import type { ArrayInfo, Finding, Launch, Scope, Sequence, VersionStatus } from "../../trace/types.js";
import type { Unit } from "./folding.js";

export interface Port {
  /** Position among the box's ports: the order of the kernel's arguments. */
  readonly slot: number;
  readonly name: string;
  readonly array: number;
  readonly reads: boolean;
  readonly writes: boolean;
  readonly needed: boolean;
  readonly readVersion: number | null;
  readonly writeVersion: number | null;
}

export interface LaunchNode {
  readonly kind: "launch";
  readonly key: string;
  readonly unit: Unit;
  readonly launch: Launch;
  readonly ports: readonly Port[];
  /** Arrays beyond the ports that are drawn. */
  readonly more: number;
  readonly findings: readonly Finding[];
  /** Launches that it stands for. */
  readonly count: number;
  /** The scopes and sequences around it, outermost first. */
  readonly bands: readonly Band[];
}

export interface Member {
  readonly array: number;
  readonly version: number;
}

export interface ArrayNode {
  readonly kind: "array";
  readonly key: string;
  readonly info: ArrayInfo;
  /** Of the arrays in it, each once. */
  readonly labels: readonly string[];
  /** The versions that were examined, in the order of the tape. */
  readonly members: readonly Member[];
  /** The number of versions that it stands for. */
  readonly count: number;
  readonly requiresGrad: boolean;
  /** The worst of the members. */
  readonly status: VersionStatus;
  readonly findings: readonly Finding[];
  /** The writer, if it is not drawn; -1: it was not written on this tape. */
  readonly writer: number | null;
  /** True if launches read it that are not drawn. */
  readonly readElsewhere: boolean;
  /** The box that writes it. */
  readonly from: string | null;
}

export type GraphNode = LaunchNode | ArrayNode;

export type EdgeKind = "read" | "write" | "overwrite";

export interface GraphEdge {
  readonly key: string;
  readonly kind: EdgeKind;
  readonly from: string;
  readonly to: string;
  /** The port of the box at its launch end; null if it has none. */
  readonly slot: number | null;
  readonly launch: number;
  readonly array: number;
  readonly version: number;
  /** "lost": the reverse pass does not see these values; "kept": it sees a copy. */
  readonly fate: "lost" | "kept" | null;
  /** Carries an adjoint in the reverse pass. */
  readonly grad: boolean;
  /** Leads to an earlier box: from one round of a sequence to the next. */
  readonly back: boolean;
  /** Through a view of the same memory. */
  readonly view: boolean;
}

/** A scope or a repeated sequence around boxes. */
export interface Band {
  readonly key: string;
  readonly label: string;
  readonly scope: Scope | null;
  readonly sequence: Sequence | null;
}

export interface Picture {
  readonly nodes: ReadonlyMap<string, GraphNode>;
  readonly edges: readonly GraphEdge[];
  /** Arrays that the filters of the panel hide. */
  readonly hidden: number;
  nodeOfLaunch(launch: number | null): LaunchNode | null;
  nodeOfVersion(array: number | null, version: number | null): ArrayNode | null;
}
