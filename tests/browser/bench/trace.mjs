/**
 * Large traces in the packed form (`docs/trace.md`), made where they are shown: a simulation that steps through time, in scopes
 * of steps and of stages within them. Some of what its adjoints need is overwritten, most of that is kept.
 */

const KERNELS = ["advect", "pressure", "project", "blend"];
/** Launches of one time step: what repeats. */
const ROUND = 200;
const STAGE = 50;
const STATUS = { preserved: 1, lost: 2, harmless: 3, live: 4 };
const REPEATS = 97;

/** What a launch reads and writes. */
function accesses(index, arrays) {
  const place = index % ROUND;
  const written = (place * 3) % arrays;
  return { needed: (place * 7 + 1) % arrays, read: (place * 3 + arrays - 3) % arrays, written };
}

class Columns {
  specs = {};
  data = {};

  constant(name, length, value) {
    this.specs[name] = { length, value };
  }

  steps(name, length, value) {
    this.specs[name] = { length, first: 0, value };
  }

  add(name, column) {
    const dtype = column instanceof Int32Array ? "i4" : column instanceof Float32Array ? "f4" : "u1";
    this.specs[name] = { length: column.length, dtype };
    this.data[name] = new DataView(column.buffer);
  }
}

export function largeTrace({ launches: n, arrays: m, summaries = n <= 200_000 }) {
  const columns = new Columns();
  const stages = launchColumns(columns, n);
  argumentAndVersionColumns(columns, n, m, summaries);
  const rounds = Math.floor(n / ROUND);
  const head = {
    format: "tapedebug-columns",
    schema: 1,
    name: `${n} launches`,
    environment: {},
    tape: { id: 1, on_overwrite: "preserve", launches: n, backward_runs: 1, preserved_bytes: 0, livein_bytes: 0 },
    kernels: KERNELS.map(kernel),
    arrays: Array.from({ length: m }, (_, i) => array(i)),
    sequences: rounds >= 2 ? [{ first: 0, length: ROUND, count: rounds }] : [],
    verdict: "NOT CHECKED",
    coverage: { summary: "not checked", launches: n, checked: 0, notes: [] },
    findings: findings(n),
    checks: [],
    backward: { ran: true, loss: 0 },
    events: events(n),
    events_dropped: 0,
    notes: [],
    strings: [...KERNELS, "a", "b", "out", ...stages],
    places: KERNELS.map((_, i) => ({ file: "simulation.py", line: 10 + i, column: 4, function: "step" })),
    dims: [[256]],
    values: [],
    columns: columns.specs,
  };
  return { head, columns: columns.data };
}

/** Returns the names of the scopes. */
function launchColumns(columns, n) {
  const kernels = Int32Array.from({ length: n }, (_, i) => i % KERNELS.length);
  columns.constant("launches.kind", n, 0);
  for (const name of ["name", "kernel", "site"]) columns.add(`launches.${name}`, kernels);
  columns.add(
    "launches.scope",
    Int32Array.from({ length: n }, (_, i) => Math.floor(i / ROUND) * 5 + 1 + Math.floor((i % ROUND) / STAGE)),
  );
  columns.constant("launches.dim", n, 0);
  columns.add(
    "launches.seconds",
    Float32Array.from({ length: n }, (_, i) => 1e-6 * (1 + (i % 40))),
  );
  columns.constant("launches.backward_seconds", n, 2e-6);
  columns.steps("launches.args", n + 1, 3);
  columns.steps("backward.order", n, 1);
  const scopes = { name: [], parent: [], first: [], last: [] };
  const names = [];
  const scope = (name, parent, first, length) => {
    scopes.name.push(KERNELS.length + 3 + names.push(name) - 1);
    scopes.parent.push(parent);
    scopes.first.push(Math.min(n - 1, first));
    scopes.last.push(Math.min(n, first + length) - 1);
    return scopes.name.length - 1;
  };
  for (let step = 0; step * ROUND < n; step++) {
    const outer = scope(`step ${step}`, -1, step * ROUND, ROUND);
    for (let stage = 0; stage < 4; stage++) scope(`stage ${stage}`, outer, step * ROUND + STAGE * stage, STAGE);
  }
  for (const [name, list] of Object.entries(scopes)) columns.add(`scopes.${name}`, Int32Array.from(list));
  return names;
}

function argumentAndVersionColumns(columns, n, m, summarised) {
  const of = new Int32Array(m + 1);
  for (let i = 0; i < n; i++) of[accesses(i, m).written + 1]++;
  for (let a = 0; a < m; a++) of[a + 1] += of[a] + 1;
  const count = of[m];
  const fields = ["written_by", "overwritten_by"];
  const [writtenBy, overwrittenBy] = fields.map(() => new Int32Array(count).fill(-1));
  const reads = new Int32Array(count + 1);
  const needs = new Int32Array(count + 1);
  const found = new Int32Array(3 * n).fill(-1);
  const made = new Int32Array(3 * n).fill(-1);
  /** Walks the tape; `visit` is told the positions of the versions that each launch meets. */
  const walk = (visit) => {
    const current = of.slice(0, m);
    for (let i = 0; i < n; i++) {
      const { needed, read, written } = accesses(i, m);
      visit(i, current[needed], current[read], current[written]);
      current[written]++;
    }
  };
  walk((i, needed, read, old) => {
    const { needed: a, read: b, written } = accesses(i, m);
    reads[needed + 1]++;
    reads[read + 1]++;
    if (i % 4 !== 3) needs[needed + 1]++;
    overwrittenBy[old] = i;
    writtenBy[old + 1] = i;
    found[3 * i] = needed - of[a];
    found[3 * i + 1] = read - of[b];
    made[3 * i + 2] = old + 1 - of[written];
  });
  const status = Uint8Array.from({ length: count }, (_, v) => (overwrittenBy[v] < 0 ? STATUS.live : STATUS.harmless));
  for (let a = 0; a < m; a++) {
    for (let v = of[a]; v < of[a + 1]; v++) {
      if (needs[v + 1] > 0 && overwrittenBy[v] >= 0) status[v] = a % 20 === 4 ? STATUS.lost : STATUS.preserved;
    }
  }
  for (const offsets of [reads, needs]) for (let v = 0; v < count; v++) offsets[v + 1] += offsets[v];
  const readers = new Int32Array(reads[count]);
  const needers = new Int32Array(needs[count]);
  const at = { reads: reads.slice(), needs: needs.slice() };
  walk((i, needed, read) => {
    readers[at.reads[needed]++] = i;
    readers[at.reads[read]++] = i;
    if (i % 4 !== 3) needers[at.needs[needed]++] = i;
  });
  const ids = (pick) => Int32Array.from({ length: 3 * n }, (_, i) => pick(Math.floor(i / 3), i % 3));
  columns.add(
    "args.name",
    ids((_, slot) => KERNELS.length + slot),
  );
  columns.add(
    "args.array",
    ids((i, slot) => Object.values(accesses(i, m))[slot]),
  );
  columns.constant("args.value", 3 * n, -1);
  columns.add("args.read_version", found);
  columns.add("args.write_version", made);
  columns.add(
    "args.flags",
    Uint8Array.from({ length: 3 * n }, (_, i) =>
      i % 3 === 2 ? 2 : i % 3 === 0 && Math.floor(i / 3) % 4 !== 3 ? 5 : 1,
    ),
  );
  columns.add("versions.of", of);
  columns.add("versions.written_by", writtenBy);
  columns.add("versions.overwritten_by", overwrittenBy);
  columns.add("versions.status", status);
  columns.add(
    "versions.flags",
    status.map((code) => Number(code === STATUS.preserved)),
  );
  columns.add("versions.reads", reads);
  columns.add("versions.reads.launches", readers);
  columns.add("versions.needed_by", needs);
  columns.add("versions.needed_by.launches", needers);
  summaryColumns(columns, count, of, summarised);
}

/** Values and adjoints of a few kinds: mostly ordinary, some zero, one in a thousand not finite. */
function summaryColumns(columns, count, of, summarised) {
  const kinds = summarised ? REPEATS : 0;
  columns.constant("summaries.count", kinds, 768);
  columns.add(
    "summaries.nan",
    Uint8Array.from({ length: kinds }, (_, i) => (i === 1 ? 3 : 0)),
  );
  columns.constant("summaries.inf", kinds, 0);
  columns.add(
    "summaries.norm",
    Float32Array.from({ length: kinds }, (_, i) => (i === 0 ? 0 : 10 ** (-i / 12))),
  );
  for (const name of ["min", "max", "mean"]) columns.constant(`summaries.${name}`, kinds, 0);
  columns.constant("summaries.histogram", kinds, -1);
  for (const name of ["low", "high", "counts"]) columns.constant(`histograms.${name}`, 0, 0);
  columns.constant("histograms.of", 1, 0);
  const array = new Int32Array(count);
  for (let a = 0; a + 1 < of.length; a++) array.fill(a, of[a], of[a + 1]);
  const pick = (dead) => (_, v) =>
    !summarised ? -1 : dead && array[v] % 11 === 10 ? 0 : v % 997 === 996 ? 1 : 2 + (v % 90);
  columns.add("versions.value", Int32Array.from({ length: count }, pick(false)));
  columns.add("versions.adjoint", Int32Array.from({ length: count }, pick(true)));
}

function kernel(name) {
  const params = ["a", "b", "out"].map((param) => ({ name: param, type: "array", array: true }));
  return {
    name,
    file: "simulation.py",
    line: 1,
    lines: [`def ${name}(a, b, out):`],
    params,
    accesses: [],
    adjoint: null,
  };
}

function array(i) {
  return {
    label: `field${i}`,
    dtype: "vec3",
    shape: [256 * (1 + (i % 7))],
    requires_grad: i % 10 !== 9,
    buffer: i,
    start: 0,
    stop: 3072 * (1 + (i % 7)),
    parent: null,
    role: "intermediate",
  };
}

function findings(n) {
  return Array.from({ length: Math.min(20, Math.floor(n / 1000)) }, (_, id) => ({
    id,
    rule: "overwrite",
    severity: id < 3 ? "error" : "warning",
    message: "a value that an adjoint needs was overwritten",
    launches: [id * 1000 + 8, id * 1000 + 150],
    arrays: ["field4"],
    location: null,
    call_site: null,
    evidence: { reader: id * 1000 + 8, clobberer: id * 1000 + 150 },
    fix: "",
  }));
}

function events(n) {
  return Array.from({ length: Math.min(1000, Math.floor(n / 500)) }, (_, i) => ({
    kind: ["zero", "read", "write"][i % 3],
    clock: i,
    at: i * 500,
    of: i % 3 === 0 ? "gradient" : "values",
    array: i % 50,
    how: ["zero_", "numpy", "assign"][i % 3],
    call_site: { file: "simulation.py", line: 30, column: 0, function: "step" },
    tape: 1,
    again: false,
    settled: false,
    numbers: {},
  }));
}
