"""Versions of array values from the reads and writes of launches; overlapping views share memory."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.contract import RecordedTape, Retention, overwrite_mode
from tapedebug.trace.model import Argument, Launch, Version, VersionStatus


class VersionBook:
    """Numbering of the versions of every array while launches are added in order.

    A write through a view begins a new version of the view and of all arrays that share memory with it.

    Args:
        overlaps: For each array id the other arrays that share bytes with it.
    """

    def __init__(self, overlaps: Sequence[Sequence[int]]) -> None:
        self._overlaps = overlaps
        self._current: list[Version | None] = [None] * len(overlaps)
        self.versions: list[Version] = []

    def current(self, array: int) -> Version:
        """Return the current version of `array`."""
        version = self._current[array]
        if version is None:
            version = self._begin(array, 0, None)
        return version

    def add(self, index: int, args: Sequence[Argument], late: Sequence[int] = ()) -> None:
        """Add launch `index`: its reads come before its writes. Sets the version numbers of `args`.

        Args:
            index: The index of the launch.
            args: Its arguments.
            late: The positions of the arguments whose values after the launch its adjoint reads.
        """
        for arg in args:
            if arg.array is None or not (arg.reads or arg.needed):
                continue
            version = self.current(arg.array)
            arg.read_version = version.version
            _append(version.reads, index)
            if arg.needed:
                _append(version.needed_by, index)
        written: dict[int, Version] = {}
        for arg in args:
            if arg.array is None or not arg.writes:
                continue
            for array in (arg.array, *self._overlaps[arg.array]):
                if array not in written:
                    written[array] = self._overwrite(array, index)
            arg.write_version = written[arg.array].version
        for position in late:
            left = args[position].array
            if left is not None:
                _append(self.current(left).needed_by, index)

    def write_outside(self, arrays: Sequence[int]) -> list[Version]:
        """Add a write to these arrays that is not on the tape; return the versions that it begins."""
        return [self._overwrite(array, None) for array in arrays]

    def _overwrite(self, array: int, index: int | None) -> Version:
        old = self.current(array)
        old.overwritten_by = index
        return self._begin(array, old.version + 1, index)

    def _begin(self, array: int, number: int, index: int | None) -> Version:
        version = self._current[array] = Version(array=array, version=number, written_by=index)
        self.versions.append(version)
        return version

    def finish(self) -> list[Version]:
        """Return all versions, by array and number; every array has at least one."""
        for array in range(len(self._overlaps)):
            self.current(array)
        for version in self.versions:  # a list that grew has room for more, in all four times the memory
            version.reads, version.needed_by = version.reads[:], version.needed_by[:]
        return sorted(self.versions, key=lambda version: (version.array, version.version))


def _append(indices: list[int], index: int) -> None:
    if not indices or indices[-1] != index:
        indices.append(index)


def set_fates(versions: Sequence[Version], launches: Sequence[Launch], tape: RecordedTape) -> None:
    """Set the status of each version: see `Version.status`."""
    retention = tape.capability(Retention)
    mode = overwrite_mode(tape)
    kept = mode != "ignore" and retention is not None
    consumed: VersionStatus = "preserved" if mode in ("preserve", "error") else "lost"
    latest: dict[int, int] = {}
    for version in versions:
        latest[version.array] = version.version
    for version in versions:
        status: VersionStatus
        if version.version == latest[version.array]:
            status = "kept" if version.needed_by else "live"
        elif not version.needed_by:
            status = "harmless"
        else:
            status = consumed
            version.preserved = kept
        version.status = status
    if retention is not None:
        _set_recomputed(versions, launches, retention)


def _set_recomputed(versions: Sequence[Version], launches: Sequence[Launch], retention: Retention) -> None:
    """Mark the versions whose copies the tape released to stay within its memory budget."""
    known: dict[tuple[int | None, int | None], Version] = {}
    for index, param in retention.recomputed():
        known = known or {(v.array, v.version): v for v in versions}
        arg = launches[index].args[param]
        version = known[arg.array, arg.read_version if arg.needed else arg.write_version]
        version.preserved, version.recomputed = False, True
