/**
 * The packed form of a trace that is JSON, for tests and the pages that they open. Nothing is checked and nothing is narrowed: all
 * columns are of 8 bytes, and nonsense stays nonsense, so that hostile traces reach those who have to bear with them.
 */
const KINDS = ["kernel", "copy", "fill", "func", "python"];
const STATUSES = ["kept", "preserved", "lost", "harmless", "live"];
const SPECIAL = { nan: Number.NaN, inf: Number.POSITIVE_INFINITY, "-inf": Number.NEGATIVE_INFINITY };

const orNone = (value) => value ?? -1;
const number = (value) => (typeof value === "number" ? value : (SPECIAL[value] ?? Number.NaN));

/** Lists in a row; what is no list has no entries. */
function flat(lists) {
  const sound = lists.map((list) => (Array.isArray(list) ? list : []));
  const ends = new Float64Array(sound.length + 1);
  for (const [i, list] of sound.entries()) ends[i + 1] = ends[i] + list.length;
  return [ends, sound.flat()];
}

/** @returns `{ head, columns }`, or what was given where it has no lists of launches, arrays and versions. */
export function packTrace(trace) {
  const { launches, arrays, versions, scopes = [], backward = {}, ...rest } = trace;
  if (![launches, arrays, versions].every(Array.isArray)) return trace;
  const specs = {};
  const columns = {};
  const add = (name, values) => {
    const column = Float64Array.from(values, number);
    specs[name] = { length: column.length, dtype: "f8" };
    columns[name] = new DataView(column.buffer);
  };
  const strings = [];
  const places = [];
  const dims = [];
  const values = [];
  const into = (table, item) => (item === null || item === undefined ? -1 : table.push(item) - 1);
  const pick = (prefix, list, fields) => {
    for (const [name, read] of Object.entries(fields)) add(`${prefix}.${name}`, list.map(read));
  };

  pick("launches", launches, {
    kind: ({ kind }) => Math.max(0, KINDS.indexOf(kind)),
    name: ({ name }) => into(strings, name ?? "launch"),
    kernel: ({ kernel }) => orNone(kernel),
    scope: ({ scope }) => orNone(scope),
    dim: ({ dim }) => into(dims, dim ?? []),
    site: ({ call_site }) => into(places, call_site),
    seconds: ({ seconds }) => seconds,
    backward_seconds: ({ backward_seconds }) => backward_seconds,
  });
  const [ends, args] = flat(launches.map((launch) => launch.args));
  add("launches.args", ends);
  pick("args", args, {
    name: ({ name }) => into(strings, name ?? ""),
    array: ({ array }) => orNone(array),
    value: ({ value }) => into(values, value),
    read_version: ({ read_version }) => orNone(read_version),
    write_version: ({ write_version }) => orNone(write_version),
    flags: ({ reads, writes, needed }) => Number(!!reads) + 2 * Number(!!writes) + 4 * Number(!!needed),
  });
  pick("scopes", scopes, {
    name: ({ name }) => into(strings, name ?? ""),
    parent: ({ parent }) => orNone(parent),
    first: ({ first }) => first ?? 0,
    last: ({ last }) => last ?? 0,
  });
  add("backward.order", Array.isArray(backward.order) ? backward.order : []);

  const groups = arrays.map((_, array) => versions.filter((version) => version.array === array));
  for (const group of groups) group.sort((a, b) => a.version - b.version);
  const [of, list] = flat(groups);
  add("versions.of", of);
  pick("versions", list, {
    written_by: ({ written_by }) => orNone(written_by),
    overwritten_by: ({ overwritten_by }) => orNone(overwritten_by),
    status: ({ status }) => Math.max(0, STATUSES.indexOf(status)),
    flags: ({ preserved, recomputed }) => Number(!!preserved) + 2 * Number(!!recomputed),
  });
  for (const name of ["reads", "needed_by"]) {
    const [starts, all] = flat(list.map((version) => version[name]));
    add(`versions.${name}`, starts);
    add(`versions.${name}.launches`, all);
  }
  const summaries = [];
  for (const name of ["value", "adjoint"])
    add(
      `versions.${name}`,
      list.map((version) => into(summaries, version[name])),
    );
  for (const name of ["count", "nan", "inf", "min", "max", "mean", "norm"]) {
    add(
      `summaries.${name}`,
      summaries.map((summary) => summary[name]),
    );
  }
  const histograms = [];
  add(
    "summaries.histogram",
    summaries.map(({ histogram }) => into(histograms, histogram)),
  );
  add(
    "histograms.low",
    histograms.map(({ low }) => low),
  );
  add(
    "histograms.high",
    histograms.map(({ high }) => high),
  );
  const [bars, counts] = flat(histograms.map((histogram) => histogram.counts));
  add("histograms.of", bars);
  add("histograms.counts", counts);

  const head = { ...rest, format: "tapedebug-columns", schema: rest.schema, arrays, strings, places, dims, values };
  head.backward = { ran: backward.ran, loss: backward.loss };
  head.columns = specs;
  if (rest.format !== "tapedebug-trace") head.format = rest.format;
  return { head, columns };
}
