"""A second reader of the packed form, written from `docs/trace.md` alone, in plain Python."""

from __future__ import annotations

import base64
import gzip
import struct
from itertools import accumulate
from typing import Any

Json = dict[str, Any]

CODES = {"u1": "B", "i1": "b", "u2": "H", "i2": "h", "u4": "I", "i4": "i", "f4": "f", "f8": "d"}
KINDS = ["kernel", "copy", "fill", "func", "python"]
STATUSES = ["kept", "preserved", "lost", "harmless", "live"]


def unpacked(head: Json, columns: dict[str, bytes]) -> Json:
    """The JSON form of a packed trace, without what the packed form leaves out."""
    c = {name: _numbers(spec, columns.get(name)) for name, spec in head["columns"].items()}
    return {
        **{k: v for k, v in head.items() if k not in {"columns", "strings", "places", "dims", "values"}},
        "format": "tapedebug-trace",
        "launches": [_launch(head, c, i) for i in range(len(c["launches.kind"]))],
        "scopes": [
            {
                "id": i,
                "name": head["strings"][c["scopes.name"][i]],
                "parent": _some(c["scopes.parent"][i]),
                "first": c["scopes.first"][i],
                "last": c["scopes.last"][i],
            }
            for i in range(len(c["scopes.name"]))
        ],
        "versions": [
            _version(c, array, v)
            for array in range(len(head["arrays"]))
            for v in range(c["versions.of"][array], c["versions.of"][array + 1])
        ],
        "backward": {**head["backward"], "order": c["backward.order"]},
    }


def unsealed(sealed: Json) -> Json:
    """The JSON form of a trace in a report or a saved notebook."""
    whole = gzip.decompress(base64.b64decode(sealed["columns"], validate=True))
    columns, at = {}, 0
    for name, spec in sorted(sealed["head"]["columns"].items()):
        if "dtype" in spec:
            end = at + (spec["length"] - ("first" in spec)) * struct.calcsize(CODES[spec["dtype"]])
            columns[name], at = whole[at:end], end
    assert at == len(whole)
    return unpacked(sealed["head"], columns)


def _numbers(spec: Json, data: bytes | None) -> list[Any]:
    length, first, value = spec["length"], spec.get("first"), spec.get("value")
    if "dtype" not in spec:
        assert data is None
        value = float(value) if isinstance(value, str) else value
        return [value] * length if first is None else [first + i * value for i in range(length)]
    assert data is not None
    entries = list(struct.unpack(f"<{length - (first is not None)}{CODES[spec['dtype']]}", data))
    return entries if first is None else list(accumulate(entries, initial=first))


def _some(index: int) -> int | None:
    return None if index < 0 else index


def _float(value: float) -> float | str | None:
    """Return a number as JSON has it: None if there is none, text if it is infinite."""
    if value != value:
        return None
    return value if abs(value) != float("inf") else ("inf" if value > 0 else "-inf")


def _launch(head: Json, c: dict[str, list[Any]], i: int) -> Json:
    site = c["launches.site"][i]
    return {
        "index": i,
        "kind": KINDS[c["launches.kind"][i]],
        "kernel": _some(c["launches.kernel"][i]),
        "name": head["strings"][c["launches.name"][i]],
        "dim": head["dims"][c["launches.dim"][i]],
        "args": [_argument(head, c, a) for a in range(c["launches.args"][i], c["launches.args"][i + 1])],
        "scope": _some(c["launches.scope"][i]),
        "seconds": _float(c["launches.seconds"][i]),
        "backward_seconds": _float(c["launches.backward_seconds"][i]),
        "call_site": None if site < 0 else head["places"][site],
    }


def _argument(head: Json, c: dict[str, list[Any]], a: int) -> Json:
    value, flags = c["args.value"][a], c["args.flags"][a]
    return {
        "name": head["strings"][c["args.name"][a]],
        "array": _some(c["args.array"][a]),
        "value": None if value < 0 else head["values"][value],
        "reads": bool(flags & 1),
        "writes": bool(flags & 2),
        "read_version": _some(c["args.read_version"][a]),
        "write_version": _some(c["args.write_version"][a]),
        "needed": bool(flags & 4),
    }


def _version(c: dict[str, list[Any]], array: int, v: int) -> Json:
    def launches(name: str) -> list[int]:
        offsets = c[f"versions.{name}"]
        return c[f"versions.{name}.launches"][offsets[v] : offsets[v + 1]]

    flags = c["versions.flags"][v]
    return {
        "array": array,
        "version": v - c["versions.of"][array],
        "written_by": _some(c["versions.written_by"][v]),
        "reads": launches("reads"),
        "needed_by": launches("needed_by"),
        "overwritten_by": _some(c["versions.overwritten_by"][v]),
        "preserved": bool(flags & 1),
        "recomputed": bool(flags & 2),
        "status": STATUSES[c["versions.status"][v]],
        "value": _summary(c, c["versions.value"][v]),
        "adjoint": _summary(c, c["versions.adjoint"][v]),
    }


def _summary(c: dict[str, list[Any]], s: int) -> Json | None:
    if s < 0:
        return None
    counts = {name: c[f"summaries.{name}"][s] for name in ("count", "nan", "inf")}
    numbers = {name: _float(c[f"summaries.{name}"][s]) for name in ("min", "max", "mean", "norm")}
    h = c["summaries.histogram"][s]
    histogram = None
    if h >= 0:
        bins = c["histograms.counts"][c["histograms.of"][h] : c["histograms.of"][h + 1]]
        histogram = {"low": c["histograms.low"][h], "high": c["histograms.high"][h], "counts": bins}
    return {**counts, **numbers, "histogram": histogram}
