/** Notes beside each line of a kernel's source, as seen from one launch. Pure. */
import { LOST, PRESERVED } from "../trace/columns.js";
import type { TraceModel } from "../trace/model.js";
import type { Arg, Code, Kernel, Launch, Summary } from "../trace/types.js";

export type Weight = "read" | "needed" | "write" | "kept" | "lost" | "bad";

export interface Badge {
  readonly text: string;
  readonly weight: Weight;
  readonly title: string;
}

export interface LineNote {
  readonly badges: readonly Badge[];
  /** The line overwrites what an adjoint still needs, and no copy was kept; or values turned non-finite here. */
  readonly wrong: boolean;
  /** The number of accesses to arrays in the line, and how that compares with the busiest line: 1 to 4. */
  readonly accesses: number;
  readonly heat: number;
}

const HOTTEST = 4;

const VERBS = { read: "r", write: "w", atomic: "w+" } as const;

interface Group {
  readonly line: number;
  readonly param: number;
  readonly kind: "read" | "write" | "atomic";
  needed: boolean;
  count: number;
}

/** Notes by line number, of the kernel itself or of a function that it calls. */
export function lineNotes(
  model: TraceModel,
  launch: Launch,
  kernel: Kernel,
  code: Code = kernel,
): ReadonlyMap<number, LineNote> {
  const notes = new Map<number, { badges: Badge[]; wrong: boolean; accesses: number; heat: number }>();
  const born = nonFiniteOrigins(model, launch);
  for (const group of grouped(kernel, code)) {
    const { line, param, kind, needed, count } = group;
    const name = kernel.params[param]?.name ?? `argument ${param}`;
    const arg = launch.args.find((a) => a.name === name) ?? launch.args[param];
    const badge =
      kind === "read"
        ? readBadge(name, needed && arg?.needed !== false)
        : writeBadge(model, launch, arg, name, VERBS[kind]);
    const note = notes.get(line) ?? { badges: [], wrong: false, accesses: 0, heat: 0 };
    note.badges.push(count > 1 ? { ...badge, text: `${badge.text} ×${count}` } : badge);
    const bad = arg ? born.get(`${kind === "read" ? "r" : "w"} ${arg.name}`) : undefined;
    if (bad) note.badges.push(bad);
    note.wrong ||= badge.weight === "lost" || bad !== undefined;
    note.accesses += count;
    notes.set(line, note);
  }
  const most = Math.max(1, ...[...notes.values()].map((note) => note.accesses));
  for (const note of notes.values()) note.heat = Math.ceil((HOTTEST * note.accesses) / most);
  return notes;
}

function grouped(kernel: Kernel, code: Code): Iterable<Group> {
  const groups = new Map<string, Group>();
  for (const { line, param, kind, needed, file } of kernel.accesses) {
    if (file !== (code === kernel ? "" : code.file) || !holds(code, line)) continue;
    const key = `${line} ${param} ${kind}`;
    const group = groups.get(key);
    if (group) {
      group.count++;
      group.needed ||= needed;
    } else groups.set(key, { line, param, kind, needed, count: 1 });
  }
  return groups.values();
}

export function holds(code: Code, line: number): boolean {
  return line >= code.line && line < code.line + code.lines.length;
}

/**
 * The accesses at which a launch turns finite values into non-finite ones, forward (by "w" and the argument) or in the adjoint (by "r"). The adjoint
 * of a version is the sum over all that read it: a launch is named only if no other reader can be the cause.
 */
function nonFiniteOrigins(model: TraceModel, launch: Launch): ReadonlyMap<string, Badge> {
  const found = new Map<string, Badge>();
  const bad = (summary: Summary | null): boolean | null => (summary ? summary.nan + summary.inf > 0 : null);
  const known = launch.args.map((arg) => ({
    name: arg.name,
    read: model.version(arg.array, arg.readVersion),
    written: model.version(arg.array, arg.writeVersion),
  }));
  if (known.every(({ read }) => read === null || bad(read.value) === false)) {
    for (const { name, written } of known) {
      if (written?.value && bad(written.value)) found.set(`w ${name}`, nonFinite(written.value, `writes ${name}`));
    }
  }
  if (known.every(({ written }) => written === null || bad(written.adjoint) !== true)) {
    for (const { name, read } of known) {
      if (!read?.adjoint || !bad(read.adjoint) || !read.reads.every((reader) => reader === launch.index)) continue;
      found.set(`r ${name}`, nonFinite(read.adjoint, `adds to the adjoint of ${name}`, "adj "));
    }
  }
  return found;
}

function nonFinite(summary: Summary, what: string, prefix = ""): Badge {
  const kind = summary.nan > 0 ? "NaN" : "Inf";
  return {
    text: `✕ ${prefix}${kind}`,
    weight: "bad",
    title: `${what}: finite values go in, non-finite ones come out`,
  };
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
  const { of, overwrittenBy, status } = model.columns.versions;
  const index = model.versionIndexAt(array, launch);
  // A launch overwrites the version before its own, or an older one of which only a part was written since.
  for (let i = index; i >= Math.max(of[array] ?? 0, index - 8); i--) {
    if (overwrittenBy[i] !== launch) continue;
    if (status[i] === LOST) return "lost";
    if (status[i] === PRESERVED) worst = "preserved";
  }
  return worst;
}

/** A line of the generated adjoint; `origin` is the line that it comes from, where that is to be said. */
export interface GeneratedLine {
  readonly text: string;
  readonly origin: number | null;
}

interface AdjointText {
  /** The lines that come from the asked line; all of them where the text does not say. */
  readonly lines: readonly GeneratedLine[];
  readonly whole: boolean;
}

/**
 * Generated lines end in a comment that names the line they come from: "# 29: p = x[i]". Functions of other files have lines of
 * the same numbers: where the text of the asked line is given, it has to be that of the comment.
 */
export function adjointOf(adjoint: string, line: number | null, text?: string): AdjointText {
  const all = adjoint.split("\n").map((written) => {
    const found = ORIGIN.exec(written);
    return { text: withoutOrigin(written), origin: found ? Number(found[1]) : null, from: found?.[2] ?? "" };
  });
  const whole = { lines: all.map(({ text: own, origin }) => ({ text: own, origin })), whole: true };
  if (line === null) return whole;
  const numbered = all.filter(({ origin }) => origin === line);
  const wanted = text?.trim();
  const own = numbered.filter(({ from }) => wanted === undefined || from === "" || from === wanted);
  if (own.length === 0) return whole;
  return { lines: dedent(own.map((found) => found.text)).map((code) => ({ text: code, origin: null })), whole: false };
}

const ORIGIN = /\s+# (\d+):(?: (.*))?$/;

function withoutOrigin(text: string): string {
  return text.replace(ORIGIN, "");
}

function dedent(lines: readonly string[]): string[] {
  const indents = lines.filter((text) => text.trim() !== "").map((text) => text.length - text.trimStart().length);
  const least = Math.min(...indents);
  return lines.map((text) => text.slice(Number.isFinite(least) ? least : 0));
}
