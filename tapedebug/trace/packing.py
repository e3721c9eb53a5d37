"""A trace packed for the panel: little data as JSON, launches and versions as typed columns.

For a tape of 100,000 launches the JSON takes 90 MB and seconds, the columns a few MB. ``docs/trace.md``
describes the form, and ``js/src/trace/unpack.ts`` decodes it. Files keep the JSON form.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

from tapedebug._gc_pause import gc_paused
from tapedebug.trace._columns import ColumnWriter, Table, offsets_of, or_nan, or_none
from tapedebug.trace.json_codec import encode
from tapedebug.trace.model import Launch, Location, Summary, Trace, Version

FORMAT = "tapedebug-columns"
SCHEMA = 1

KINDS = {"kernel": 0, "copy": 1, "fill": 2, "func": 3, "python": 4}
STATUSES = {"kept": 0, "preserved": 1, "lost": 2, "harmless": 3, "live": 4}

MOST_EXACT = 20_000
"""Largest number of versions for which times and summaries have 64 bits, and histograms are packed."""

_AS_JSON = (
    "name",
    "environment",
    "tape",
    "kernels",
    "arrays",
    "sequences",
    "verdict",
    "coverage",
    "findings",
    "checks",
    "events",
    "events_dropped",
)


class Packed(NamedTuple):
    """A packed trace: `head` is JSON-compatible and describes `columns`, which are little-endian bytes."""

    head: dict[str, Any]
    columns: dict[str, bytes]


def pack(trace: Trace) -> Packed:
    """Return a trace in the form that the panel reads.

    It is complete except for the arrays of `contents`. For more than 20,000 versions times and summaries have
    32 bits and histograms are left out; ``head["notes"]`` states this.
    """
    exact = len(trace.versions) <= MOST_EXACT
    writer = ColumnWriter()
    with gc_paused():
        tables = _Tables()
        _pack_launches(writer, trace.launches, tables, exact=exact)
        _pack_arguments(writer, trace.launches, tables)
        _pack_scopes(writer, trace, tables)
        dropped = _pack_versions(writer, trace, exact=exact)
    writer.integers("backward.order", trace.backward.order)
    head = {"format": FORMAT, "schema": SCHEMA}
    head |= {name: encode(getattr(trace, name)) for name in _AS_JSON}
    head["backward"] = {"ran": trace.backward.ran, "loss": trace.backward.loss}
    head |= {"timings": encode(trace.timings)} if trace.timings else {}
    head["notes"] = [*trace.notes, *([_said(len(trace.versions))] if dropped else [])]
    head["strings"] = tables.strings.items
    head["places"] = [encode(place) for place in tables.places.items]
    head["dims"] = tables.dims.items
    head["values"] = [encode(value) for value in tables.values.items]
    head["columns"] = writer.specs
    return Packed(head, writer.data)


def seal(packed: Packed) -> dict[str, Any]:
    """Return a packed trace as JSON-compatible data: ``head``, and all ``columns`` as one text.

    The text is the base64 form of the gzipped columns, concatenated in the order of their names: a program
    that stores JSON, such as Jupyter, may sort the keys.
    """
    return {"head": packed.head, "columns": seal_columns(packed)}


def seal_columns(packed: Packed) -> str:
    """Return the columns of a packed trace as the text that `seal` describes."""
    head, columns = packed
    whole = b"".join(columns[name] for name in sorted(head["columns"]) if name in columns)
    return base64.b64encode(gzip.compress(whole, compresslevel=6, mtime=0)).decode("ascii")


def _said(versions: int) -> str:
    return (
        f"Histograms of values were left out: there are {versions:,} versions of arrays, more than "
        f"{MOST_EXACT:,}."
    )


class _Tables:
    """Tables of values that many launches share, each packed once."""

    def __init__(self) -> None:
        self.strings: Table[str] = Table()
        self.places: Table[Location] = Table()
        self.dims: Table[list[int]] = Table()
        self.values: Table[Any] = Table()

    def name(self, text: str) -> int:
        return self.strings.add(text, text)

    def place(self, place: Location | None) -> int:
        if place is None:
            return -1
        return self.places.add((place.file, place.line, place.column, place.function), place)

    def value(self, value: object) -> int:
        if value is None:
            return -1
        # 1, 1.0 and True are equal, and so are 0.0 and -0.0, but their texts differ
        return self.values.add(value if type(value) is str else (type(value), repr(value)), value)


def _pack_launches(writer: ColumnWriter, launches: Sequence[Launch], tables: _Tables, *, exact: bool) -> None:
    writer.integers("launches.kind", [KINDS[launch.kind] for launch in launches])
    writer.integers("launches.name", [tables.name(launch.name) for launch in launches])
    writer.integers("launches.kernel", or_none(launch.kernel for launch in launches))
    writer.integers("launches.scope", or_none(launch.scope for launch in launches))
    dims = tables.dims
    writer.integers("launches.dim", [dims.add(tuple(launch.dim), list(launch.dim)) for launch in launches])
    writer.integers("launches.site", [tables.place(launch.call_site) for launch in launches])
    writer.floats("launches.seconds", or_nan(launch.seconds for launch in launches), exact=exact)
    backward = or_nan(launch.backward_seconds for launch in launches)
    writer.floats("launches.backward_seconds", backward, exact=exact)
    writer.integers("launches.args", offsets_of([len(launch.args) for launch in launches]))


def _pack_arguments(writer: ColumnWriter, launches: Sequence[Launch], tables: _Tables) -> None:
    args = [arg for launch in launches for arg in launch.args]
    writer.integers("args.name", [tables.name(arg.name) for arg in args])
    writer.integers("args.array", or_none(arg.array for arg in args))
    writer.integers("args.value", [-1 if arg.value is None else tables.value(arg.value) for arg in args])
    writer.integers("args.read_version", or_none(arg.read_version for arg in args))
    writer.integers("args.write_version", or_none(arg.write_version for arg in args))
    writer.integers("args.flags", [arg.reads + 2 * arg.writes + 4 * arg.needed for arg in args])


def _pack_scopes(writer: ColumnWriter, trace: Trace, tables: _Tables) -> None:
    scopes = trace.scopes
    writer.integers("scopes.name", [tables.name(scope.name) for scope in scopes])
    writer.integers("scopes.parent", or_none(scope.parent for scope in scopes))
    writer.integers("scopes.first", [scope.first for scope in scopes])
    writer.integers("scopes.last", [scope.last for scope in scopes])


def _pack_versions(writer: ColumnWriter, trace: Trace, *, exact: bool) -> bool:
    """Pack the versions; the number of a version is its position within its array.

    Returns:
        True if histograms were left out.
    """
    versions = sorted(trace.versions, key=lambda version: (version.array, version.version))
    counts = [0] * len(trace.arrays)
    for version in versions:
        counts[version.array] += 1
    offsets = offsets_of(counts)
    writer.integers("versions.of", offsets)
    writer.integers("versions.written_by", or_none(version.written_by for version in versions))
    writer.integers("versions.overwritten_by", or_none(version.overwritten_by for version in versions))
    writer.integers("versions.status", [STATUSES[version.status] for version in versions])
    writer.integers("versions.flags", [version.preserved + 2 * version.recomputed for version in versions])
    for name in ("reads", "needed_by"):
        lists = [getattr(version, name) for version in versions]
        writer.integers(f"versions.{name}", offsets_of([len(launches) for launches in lists]))
        writer.integers(f"versions.{name}.launches", list(chain.from_iterable(lists)))
    summaries: list[Summary] = []
    _pack_summary_index(writer, "value", versions, summaries)
    _pack_summary_index(writer, "adjoint", versions, summaries)
    return _pack_summaries(writer, summaries, exact=exact)


def _pack_summary_index(
    writer: ColumnWriter, name: str, versions: Sequence[Version], summaries: list[Summary]
) -> None:
    index = []
    for version in versions:
        summary = getattr(version, name)
        index.append(-1 if summary is None else len(summaries))
        if summary is not None:
            summaries.append(summary)
    writer.integers(f"versions.{name}", index)


def _pack_summaries(writer: ColumnWriter, summaries: Sequence[Summary], *, exact: bool) -> bool:
    for name in ("count", "nan", "inf"):
        writer.integers(f"summaries.{name}", [getattr(summary, name) for summary in summaries])
    for name in ("min", "max", "mean", "norm"):
        writer.floats(f"summaries.{name}", or_nan(getattr(s, name) for s in summaries), exact=exact)
    found = [summary.histogram for summary in summaries]
    kept = found if exact else [None] * len(found)
    histograms = [histogram for histogram in kept if histogram is not None]
    numbers = iter(range(len(histograms)))
    writer.integers("summaries.histogram", [-1 if h is None else next(numbers) for h in kept])
    writer.floats("histograms.low", [histogram.low for histogram in histograms], exact=exact)
    writer.floats("histograms.high", [histogram.high for histogram in histograms], exact=exact)
    writer.integers("histograms.of", offsets_of([len(histogram.counts) for histogram in histograms]))
    counts = chain.from_iterable(histogram.counts for histogram in histograms)
    writer.integers("histograms.counts", list(counts))
    return not exact and any(histogram is not None for histogram in found)
