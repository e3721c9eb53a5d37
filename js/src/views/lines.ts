/** What is said beside each line of a kernel's source, as seen from one launch. Pure. */
import type { TraceModel } from "../trace/model.js";
import type { Arg, Kernel, Launch } from "../trace/types.js";

export type Weight = "read" | "needed" | "write" | "kept" | "lost";

export interface Badge {
  readonly text: string;
  readonly weight: Weight;
  readonly title: string;
}

export interface LineNote {
  readonly badges: readonly Badge[];
  /** The line overwrites what an adjoint still needs, and no copy was kept. */
  readonly wrong: boolean;
}

const VERBS = { read: "r", write: "w", atomic: "w+" } as const;

/** Notes by line number. */
export function lineNotes(model: TraceModel, launch: Launch, kernel: Kernel): ReadonlyMap<number, LineNote> {
  const counts = new Map<
    string,
    { line: number; param: number; kind: "read" | "write" | "atomic"; needed: boolean; n: number }
  >();
  for (const { line, param, kind, needed } of kernel.accesses) {
    const key = `${line} ${param} ${kind}`;
    const group = counts.get(key);
    if (group) {
      group.n++;
      group.needed ||= needed;
    } else counts.set(key, { line, param, kind, needed, n: 1 });
  }
  const notes = new Map<number, { badges: Badge[]; wrong: boolean }>();
  for (const { line, param, kind, needed, n } of counts.values()) {
    const name = kernel.params[param]?.name ?? `argument ${param}`;
    const arg = launch.args.find((a) => a.name === name) ?? launch.args[param];
    const badge =
      kind === "read"
        ? readBadge(name, needed && arg?.needed !== false)
        : writeBadge(model, launch, arg, name, VERBS[kind]);
    const note = notes.get(line) ?? { badges: [], wrong: false };
    note.badges.push(n > 1 ? { ...badge, text: `${badge.text} ×${n}` } : badge);
    note.wrong ||= badge.weight === "lost";
    notes.set(line, note);
  }
  return notes;
}

function readBadge(name: string, needed: boolean): Badge {
  return needed
    ? { text: `r ${name} ●`, weight: "needed", title: `reads ${name}; the adjoint needs these values` }
    : { text: `r ${name}`, weight: "read", title: `reads ${name}; the adjoint does not need the values` };
}

function writeBadge(model: TraceModel, launch: Launch, arg: Arg | undefined, name: string, verb: string): Badge {
  const fate = arg?.array == null ? null : overwritten(model, arg.array, launch.index);
  const atomic = verb === "w+" ? " (atomic)" : "";
  if (fate === "lost") {
    return {
      text: `${verb} ✕ overwrites`,
      weight: "lost",
      title: `writes ${name}${atomic} over values that an adjoint still needs`,
    };
  }
  if (fate === "preserved") {
    return {
      text: `${verb} kept`,
      weight: "kept",
      title: `writes ${name}${atomic} over values that an adjoint needs; the tape kept a copy`,
    };
  }
  return { text: `${verb} ${name}`, weight: "write", title: `writes ${name}${atomic}` };
}

/** The worst that a launch did to versions of an array by writing it. */
function overwritten(model: TraceModel, array: number, launch: number): "lost" | "preserved" | null {
  let worst: "lost" | "preserved" | null = null;
  const versions = model.versions(array);
  const at = model.versionAt(array, launch);
  const index = at ? versions.indexOf(at) : versions.length - 1;
  // What a launch overwrites is the version before its own, or an older one of which only a part was written since.
  for (let i = index; i >= Math.max(0, index - 8); i--) {
    const version = versions[i];
    if (version?.overwrittenBy !== launch) continue;
    if (version.status === "lost") return "lost";
    if (version.status === "preserved") worst = "preserved";
  }
  return worst;
}

export interface AdjointText {
  /** The lines that come from the asked line; all of them where the text does not say. */
  readonly lines: readonly string[];
  readonly whole: boolean;
}

/** Generated lines end in a comment that names the line they come from: "# 29: p = x[i]". */
export function adjointOf(adjoint: string, line: number | null): AdjointText {
  const all = adjoint.split("\n");
  if (line === null) return { lines: all, whole: true };
  const own = all.filter((text) => lineOf(text) === line).map(withoutOrigin);
  return own.length > 0 ? { lines: dedent(own), whole: false } : { lines: all, whole: true };
}

const ORIGIN = /\s+# (\d+):(?: .*)?$/;

export function lineOf(text: string): number | null {
  const found = ORIGIN.exec(text);
  return found ? Number(found[1]) : null;
}

function withoutOrigin(text: string): string {
  return text.replace(ORIGIN, "");
}

function dedent(lines: readonly string[]): string[] {
  const indents = lines.filter((text) => text.trim() !== "").map((text) => text.length - text.trimStart().length);
  const least = Math.min(...indents);
  return lines.map((text) => text.slice(Number.isFinite(least) ? least : 0));
}
