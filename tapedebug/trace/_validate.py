"""Validate that the parts of a trace are consistent, so that readers need not check again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapedebug.trace._decode import TraceError
from tapedebug.trace.model import ArrayInfo, Launch, Summary, Trace, Version

MOST_DIMENSIONS = 8
MOST_BINS = 1024


def validate(trace: Trace) -> None:
    """Check every index, order and count of a trace.

    Raises:
        TraceError: An index is out of range, or two parts are inconsistent; the message names the place.
    """
    check = _Check(trace)
    check.numbered("kernels", trace.kernels)
    check.numbered("arrays", trace.arrays)
    check.numbered("launches", trace.launches, "index")
    check.numbered("scopes", trace.scopes)
    check.kernels()
    for info in trace.arrays:
        check.array(info)
    check.no_cycle()
    check.scopes()
    check.versions()
    for launch in trace.launches:
        check.launch(launch)
    check.sequences()
    check.diagnosis()
    check.contents()


class _Check:
    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sizes = {
            "kernel": len(trace.kernels),
            "array": len(trace.arrays),
            "launch": len(trace.launches),
            "scope": len(trace.scopes),
        }
        self.known: set[tuple[int, int]] = set()

    def one(self, kind: str, index: int | None, path: str) -> None:
        if index is not None and not 0 <= index < self.sizes[kind]:
            raise TraceError(f"{path}: there is no {kind} {index} ({self.sizes[kind]} in the trace)")

    def numbered(self, name: str, items: Iterable[Any], attribute: str = "id") -> None:
        for position, item in enumerate(items):
            found = getattr(item, attribute)
            if found != position:
                raise TraceError(f"{name}[{position}].{attribute}: expected {position}, found {found}")

    # ------------------------------------------------------------------ kernels, arrays, versions

    def kernels(self) -> None:
        for kernel in self.trace.kernels:
            for number, access in enumerate(kernel.accesses):
                if not 0 <= access.param < len(kernel.params):
                    path = f"kernels[{kernel.id}].accesses[{number}].param"
                    raise TraceError(f"{path}: there is no parameter {access.param}")

    def array(self, info: ArrayInfo) -> None:
        path = f"arrays[{info.id}]"
        self.one("array", info.parent, f"{path}.parent")
        _sizes(info.shape, f"{path}.shape")
        if info.buffer < 0 or not 0 <= info.start <= info.stop:
            raise TraceError(
                f"{path}: bytes {info.start} to {info.stop} of buffer {info.buffer} are no range of memory"
            )

    def no_cycle(self) -> None:
        """Check that no array is a view of itself, directly or indirectly."""
        sound: set[int] = set()
        for info in self.trace.arrays:
            path: set[int] = set()
            at: int | None = info.id
            while at is not None and at not in sound:
                if at in path:
                    raise TraceError(f"arrays[{at}].parent: the array is a view of itself")
                path.add(at)
                at = self.trace.arrays[at].parent
            sound |= path

    def scopes(self) -> None:
        for scope in self.trace.scopes:
            path = f"scopes[{scope.id}]"
            if scope.parent is not None and not 0 <= scope.parent < scope.id:
                raise TraceError(f"{path}.parent: {scope.parent} is not an earlier scope")
            self.one("launch", scope.first, f"{path}.first")
            self.one("launch", scope.last, f"{path}.last")
            around = scope if scope.parent is None else self.trace.scopes[scope.parent]
            if not around.first <= scope.first <= scope.last <= around.last:
                where = "empty" if scope.first > scope.last else f"not within its parent, scope {around.id}"
                raise TraceError(f"{path}: launches {scope.first} to {scope.last} are {where}")

    def versions(self) -> None:
        latest = [-1] * len(self.trace.arrays)
        for number, version in enumerate(self.trace.versions):
            path = f"versions[{number}]"
            self.one("array", version.array, f"{path}.array")
            if version.version != latest[version.array] + 1:
                raise TraceError(
                    f"{path}.version: expected {latest[version.array] + 1} of array {version.array}, "
                    f"found {version.version}"
                )
            latest[version.array] = version.version
            self.known.add((version.array, version.version))
            self._users(version, path)
            _summary(version.value, f"{path}.value")
            _summary(version.adjoint, f"{path}.adjoint")

    def _users(self, version: Version, path: str) -> None:
        self.one("launch", version.written_by, f"{path}.written_by")
        self.one("launch", version.overwritten_by, f"{path}.overwritten_by")
        count = self.sizes["launch"]
        for name in ("reads", "needed_by"):
            launches: list[int] = getattr(version, name)
            for index in launches:
                if not 0 <= index < count:
                    self.one("launch", index, f"{path}.{name}")

    # -------------------------------------------------------------------- launches

    def launch(self, launch: Launch) -> None:
        path = f"launches[{launch.index}]"
        self.one("kernel", launch.kernel, f"{path}.kernel")
        self.one("scope", launch.scope, f"{path}.scope")
        _sizes(launch.dim, f"{path}.dim")
        if launch.scope is not None:
            scope = self.trace.scopes[launch.scope]
            if not scope.first <= launch.index <= scope.last:
                raise TraceError(
                    f"{path}.scope: scope {scope.id} holds launches {scope.first} to {scope.last}"
                )
        for number, arg in enumerate(launch.args):
            if arg.array is None:
                continue
            self.one("array", arg.array, f"{path}.args[{number}].array")
            for name, version in (("read_version", arg.read_version), ("write_version", arg.write_version)):
                if version is not None and (arg.array, version) not in self.known:
                    raise TraceError(
                        f"{path}.args[{number}].{name}: there is no version {version} of array {arg.array}"
                    )

    def sequences(self) -> None:
        end = 0
        for number, run in enumerate(self.trace.sequences):
            sound = run.first >= 0 and run.length > 0 and run.count > 0
            if not sound or run.first + run.length * run.count > self.sizes["launch"]:
                raise TraceError(
                    f"sequences[{number}]: it does not lie within the {self.sizes['launch']} launches"
                )
            if run.first < end:
                raise TraceError(f"sequences[{number}]: it begins before the one before it ends")
            end = run.first + run.length * run.count
            for index in range(run.first + run.length, end):
                one, other = self.trace.launches[index - run.length], self.trace.launches[index]
                if (one.kind, one.name, len(one.args)) != (other.kind, other.name, len(other.args)):
                    raise TraceError(
                        f"sequences[{number}]: launch {index} is not what launch {index - run.length} is"
                    )

    # ------------------------------------------------------------- diagnosis and contents

    def diagnosis(self) -> None:
        trace = self.trace
        for number, finding in enumerate(trace.findings):
            for index in finding.launches:
                self.one("launch", index, f"findings[{number}].launches")
        for number, check in enumerate(trace.checks):
            self.one("launch", check.launch, f"checks[{number}].launch")
        for number, event in enumerate(trace.events):
            self.one("array", event.array, f"events[{number}].array")
        self.one("array", trace.backward.loss, "backward.loss")
        for index in trace.backward.order:
            self.one("launch", index, "backward.order")

    def contents(self) -> None:
        seen: set[Any] = set()
        for number, content in enumerate(self.trace.contents):
            path = f"contents[{number}]"
            self.one("array", content.array, f"{path}.array")
            if (content.array, content.version) not in self.known:
                raise TraceError(
                    f"{path}.version: there is no version {content.version} of array {content.array}"
                )
            _sizes(content.shape, f"{path}.shape")
            whole = self.trace.arrays[content.array].shape
            if content.shape[: len(whole)] != whole:
                raise TraceError(f"{path}.shape: {content.shape} does not begin with the array's, {whole}")
            for key in ((content.array, content.version, content.kind), content.member):
                if key in seen:
                    raise TraceError(f"{path}: it is listed twice")
                seen.add(key)


def _sizes(sizes: list[int], path: str) -> None:
    if len(sizes) > MOST_DIMENSIONS:
        raise TraceError(f"{path}: {len(sizes)} dimensions; there are at most {MOST_DIMENSIONS}")
    for size in sizes:
        if size < 0:
            raise TraceError(f"{path}: {size} is no size")


def _summary(summary: Summary | None, path: str) -> None:
    if summary is None:
        return
    if min(summary.count, summary.nan, summary.inf) < 0 or summary.nan + summary.inf > summary.count:
        raise TraceError(f"{path}: {summary.nan} nan and {summary.inf} inf of {summary.count} values")
    histogram = summary.histogram
    if histogram is None:
        return
    if not 0 < len(histogram.counts) <= MOST_BINS:
        raise TraceError(f"{path}.histogram.counts: {len(histogram.counts)} bins; there are 1 to {MOST_BINS}")
    if min(histogram.counts) < 0:
        raise TraceError(f"{path}.histogram.counts: {min(histogram.counts)} is no count")
