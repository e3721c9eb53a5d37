"""The overwrites of a tape by kind: the launch that wrote, and the launch that had read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.diagnose import wording as words
from tapedebug.trace import Argument, Launch, Trace, Version


@dataclass(frozen=True, slots=True)
class OverwrittenRead:
    """One overwrite: `clobberer` overwrote the version of `array` that `reader` had read as `param`.

    `back` is True if the reader had written that version itself.
    """

    reader: int
    param: int
    clobberer: int
    array: int
    version: int
    back: bool = False


@dataclass(slots=True)
class OverwriteGroup:
    """Overwrites of one kind: same writing kernel and parameter and, for needed values, the same reader."""

    write_param: int
    needed: bool
    pairs: list[OverwrittenRead] = field(default_factory=list)

    @property
    def first(self) -> OverwrittenRead:
        """The overwrite that the message is about."""
        return self.pairs[0]

    @property
    def in_place(self) -> bool:
        """True if launches overwrite values that they read themselves."""
        return self.first.reader == self.first.clobberer

    @property
    def readers(self) -> list[tuple[int, int]]:
        """Return the (launch, parameter) pairs that read the values of the first overwrite."""
        first = self.first
        same = (pair for pair in self.pairs if (pair.array, pair.version) == (first.array, first.version))
        return list(dict.fromkeys((pair.reader, pair.param) for pair in same))

    def occurrences(self) -> int:
        """The number of overwritten versions."""
        return len({(pair.array, pair.version) for pair in self.pairs})

    def unpreserved(self) -> list[tuple[int, int]]:
        """Return the (launch, parameter) pairs whose old values are lost."""
        return sorted({(pair.reader, pair.param) for pair in self.pairs})


def group_overwrites(
    trace: Trace, *, in_memory: bool = False, stop: int | None = None
) -> list[OverwriteGroup]:
    """Return the overwrites of values that a launch had read, by kind.

    Overwrites of values that no adjoint needs are listed once for each writing kernel and parameter, for
    arrays with `requires_grad`, and only if the same write is not already a finding.

    Args:
        trace: The tape.
        in_memory: True if adjoints read the arrays in place, including values that their own launch wrote.
        stop: The first launch that was recorded after the reverse pass, which saw nothing of what it writes.
    """
    groups: dict[tuple[Any, ...], OverwriteGroup] = {}
    pairs = [item for item in _pairs(trace, in_memory) if stop is None or item[0].clobberer < stop]
    for pair, needed in sorted(pairs, key=lambda item: (item[0].clobberer, item[0].reader)):
        reader, clobberer = trace.launches[pair.reader], trace.launches[pair.clobberer]
        write_param = words.written_param(clobberer, trace.arrays[pair.array], trace)
        key: tuple[Any, ...] = (clobberer.kernel, clobberer.name, write_param)
        if needed:
            key = (*key, reader.kernel, reader.name, pair.param, reader is clobberer, pair.back)
        groups.setdefault(key, OverwriteGroup(write_param, needed)).pairs.append(pair)
    needing = [group for group in groups.values() if group.needed]
    minded = {(pair.array, pair.version) for group in needing for pair in group.pairs}
    harmless = [group for group in groups.values() if not group.needed]
    for group in harmless:
        group.pairs = [pair for pair in group.pairs if (pair.array, pair.version) not in minded]
    return [*needing, *(group for group in harmless if group.pairs)]


def _pairs(trace: Trace, in_memory: bool) -> Iterator[tuple[OverwrittenRead, bool]]:
    """Yield each overwrite, and True if an adjoint needs the old values."""
    for version in trace.versions:
        clobberer = version.overwritten_by
        if clobberer is None:
            continue
        for index in version.reads:
            found = _read_argument(trace.launches[index], version)
            if found is None:
                continue
            param, arg = found
            if arg.needed or trace.arrays[version.array].requires_grad:
                yield OverwrittenRead(index, param, clobberer, version.array, version.version), arg.needed
        writer = version.written_by
        if writer is not None and writer != clobberer:
            for param in _read_back(trace.launches[writer], version, in_memory):
                yield (
                    OverwrittenRead(writer, param, clobberer, version.array, version.version, back=True),
                    True,
                )


def _read_argument(reader: Launch, version: Version) -> tuple[int, Argument] | None:
    """Return the parameter through which a launch read a version, preferably one that its adjoint needs."""
    matching = [
        (position, arg)
        for position, arg in enumerate(reader.args)
        if arg.array == version.array and arg.read_version == version.version
    ]
    return min(matching, key=lambda item: not item[1].needed, default=None)


def _read_back(writer: Launch, version: Version, in_memory: bool) -> Iterator[int]:
    """Return the parameters whose values after the launch its adjoint reads."""
    for position, arg in enumerate(writer.args):
        if arg.array != version.array:
            continue
        changed_itself = arg.needed and arg.read_version == version.version - 1
        late = writer.index in version.needed_by and not arg.needed and arg.write_version == version.version
        if late or (in_memory and changed_itself):
            yield position
