/** Traces for tests, written as `tapedebug.trace` writes them. */

export type Json = Record<string, unknown>;

interface Options {
  readonly steps?: number;
  /** What the tape did about the positions that are overwritten. */
  readonly mode?: "ignore" | "preserve";
  /** Arrays that take no part, to make many lanes. */
  readonly extra?: number;
  readonly summaries?: boolean;
}

const ARRAYS = ["throw", "x", "x_next", "v", "force", "loss"] as const;
type Name = (typeof ARRAYS)[number];

function summary(norm: number): Json {
  return {
    count: 768,
    nan: 0,
    inf: 0,
    min: -norm,
    max: norm,
    mean: 0,
    norm,
    histogram: { low: -norm, high: norm, counts: [1, 2, 4, 8, 8, 4, 2, 1] },
  };
}

/** A net of ping-pong positions: launch 0 spreads the throw, then spring, integrate a step, the loss at the end. */
export function makeNet({ steps = 3, mode = "ignore", extra = 0, summaries = true }: Options = {}): Json {
  const launches: Json[] = [];
  const versions: Json[] = [];
  const current = new Map<Name, Json>();
  const id = (name: Name): number => ARRAYS.indexOf(name);
  const begin = (name: Name, by: number | null): Json => {
    const before = current.get(name);
    const version: Json = {
      array: id(name),
      version: before ? (before.version as number) + 1 : 0,
      written_by: by,
      reads: [],
      needed_by: [],
      overwritten_by: null,
      preserved: false,
      recomputed: false,
      status: "live",
      value: summaries ? summary(1 + ((by ?? 0) % 7)) : null,
      adjoint: summaries ? summary(0.1 + ((by ?? 0) % 5)) : null,
    };
    if (before) close(before, by as number, mode);
    current.set(name, version);
    versions.push(version);
    return version;
  };
  for (const name of ARRAYS) begin(name, null);
  const launch = (kernel: number, name: string, scope: number | null, args: [Name, "r" | "n" | "w"][]): void => {
    const index = launches.length;
    const list = args.map(([array, access]) => {
      const seen = current.get(array) as Json;
      const reads = access !== "w";
      if (reads) (seen.reads as number[]).push(index);
      if (access === "n") (seen.needed_by as number[]).push(index);
      const written = reads ? null : begin(array, index);
      return {
        name: array,
        array: id(array),
        value: null,
        reads,
        writes: !reads,
        read_version: reads ? seen.version : null,
        write_version: written?.version ?? null,
        needed: access === "n",
      };
    });
    launches.push({
      index,
      kind: "kernel",
      kernel,
      name,
      dim: [256],
      scope,
      seconds: 1e-5 * (1 + kernel),
      backward_seconds: 2e-5,
      call_site: { file: "/home/ada/net.py", line: 80 + kernel, column: 4, function: "simulate" },
      args: list,
    });
  };
  launch(0, "launch_net", null, [
    ["throw", "r"],
    ["v", "w"],
  ]);
  const scopes: Json[] = [];
  for (let step = 0; step < steps; step++) {
    const [from, to]: [Name, Name] = step % 2 === 0 ? ["x", "x_next"] : ["x_next", "x"];
    const first = launches.length;
    launch(1, "spring", step, [
      [from, "n"],
      ["force", "w"],
    ]);
    launch(2, "integrate", step, [
      [from, "r"],
      ["force", "r"],
      [to, "w"],
    ]);
    scopes.push({ id: step, name: `step ${step}`, parent: null, first, last: launches.length - 1 });
  }
  launch(3, "target_loss", null, [
    [steps % 2 === 0 ? "x" : "x_next", "n"],
    ["loss", "w"],
  ]);
  const last = launches.length - 1;
  return {
    format: "tapedebug-trace",
    schema: 1,
    name: "net",
    environment: { tapedebug: "0.1.0", python: "3.11.7" },
    tape: { id: 3, on_overwrite: mode, launches: last + 1, backward_runs: 1, preserved_bytes: 0, livein_bytes: 0 },
    kernels: ["launch_net", "spring", "integrate", "target_loss"].map(kernel),
    arrays: [
      ...ARRAYS.map((label, i) => array(i, label)),
      ...Array.from({ length: extra }, (_, i) => array(ARRAYS.length + i, `p${i}`)),
    ],
    launches,
    scopes,
    versions: [...versions, ...Array.from({ length: extra }, (_, i) => parameter(ARRAYS.length + i))],
    sequences: steps >= 4 ? [{ first: 1, length: 4, count: Math.floor(steps / 2) }] : [],
    verdict: mode === "ignore" ? "WRONG" : "AGREE",
    coverage: {
      summary: `${last + 1} of ${last + 1} launches checked end to end`,
      launches: last + 1,
      checked: last + 1,
      notes: [],
    },
    findings: [finding(mode)],
    checks: [
      check(null, "throw", "loss", mode === "ignore" ? "WRONG" : "AGREE"),
      check(null, "x", "loss", null),
      check(1, "x", "force", "AGREE"),
    ],
    backward: { ran: true, loss: id("loss"), order: launches.map((_, i) => last - i) },
  };
}

/** Ends a version: what its adjoint needs is lost or kept, the rest is harmless. */
function close(version: Json, by: number, mode: "ignore" | "preserve"): void {
  const needed = (version.needed_by as number[]).length > 0;
  version.overwritten_by = by;
  version.preserved = needed && mode === "preserve";
  version.status = !needed ? "harmless" : mode === "preserve" ? "preserved" : "lost";
}

function kernel(name: string, id: number): Json {
  return {
    id,
    name,
    file: "/home/ada/net.py",
    line: 10 * (id + 1),
    lines: ["@wp.kernel", `def ${name}(x, force):`, "    i = wp.tid()", "    force[i] = x[i] * x[i]"],
    params: [
      { name: "x", type: "array(dtype=vec3)", array: true },
      { name: "force", type: "array(dtype=vec3)", array: true },
    ],
    accesses: [
      { param: 0, kind: "read", line: 10 * (id + 1) + 3, column: 15, end_column: 19, needed: true },
      { param: 0, kind: "read", line: 10 * (id + 1) + 3, column: 22, end_column: 26, needed: true },
      { param: 1, kind: "write", line: 10 * (id + 1) + 3, column: 4, end_column: 12, needed: false },
    ],
    adjoint: `def adj_${name}(lo, hi, args):\n    for i in range(lo, hi):\n        adj_x = 2.0 * x * adj_force  # ${10 * (id + 1) + 3}: force[i] = x[i] * x[i]`,
  };
}

function array(id: number, label: string): Json {
  return {
    id,
    label,
    dtype: "vec3",
    shape: [256],
    requires_grad: true,
    buffer: id,
    start: 0,
    stop: 3072,
    parent: null,
    role: label === "throw" ? "input" : label === "loss" ? "output" : "intermediate",
  };
}

function parameter(id: number): Json {
  return {
    array: id,
    version: 0,
    written_by: null,
    reads: [],
    needed_by: [],
    overwritten_by: null,
    preserved: false,
    recomputed: false,
    status: "live",
    value: null,
    adjoint: null,
  };
}

function finding(mode: string): Json {
  return {
    id: 0,
    rule: "overwrite",
    severity: mode === "ignore" ? "error" : "info",
    message: "launch 4 'integrate' overwrites values of 'x' that the adjoint of launch 1 'spring' needs",
    launches: [1, 4],
    arrays: ["x"],
    location: { file: "/home/ada/net.py", line: 23, column: 15, function: "spring" },
    call_site: { file: "/home/ada/net.py", line: 82, column: 4, function: "simulate" },
    evidence: { reader: 1, clobberer: 4, max_change: 0.04 },
    fix: "give each step its own x",
  };
}

function check(launch: number | null, input: string, output: string, verdict: string | null): Json {
  return {
    launch,
    input,
    output,
    verdict,
    max_abs_error: verdict ? 0.5 : null,
    max_rel_error: verdict ? (verdict === "WRONG" ? 0.38 : 3e-8) : null,
    message: "",
    seconds: verdict ? 0.1 : null,
  };
}
