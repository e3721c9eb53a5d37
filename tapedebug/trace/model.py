"""The trace: everything known about one recorded tape, as plain data.

A `Trace` holds numbers, text and lists, no arrays, kernels or tapes. All views of a tape (`diagnose`,
`visualize`, the panel, a report) read a trace, so that a trace from a file is displayed exactly like one that
was just recorded.

Numbers that index something (`Launch.index`, `ArrayInfo.id`, `KernelInfo.id`, `Scope.id`) are positions in
the trace's lists. The JSON form (`Trace.to_json`) has the same names and is described in ``docs/trace.md``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._display import renderer
from tapedebug._errors import TapedebugError

if TYPE_CHECKING:
    import os

FORMAT = "tapedebug-trace"
SCHEMA = 1

Verdict = Literal["AGREE", "WRONG", "UNDECIDABLE", "KINK", "NONDETERMINISTIC", "NOT CHECKED"]
Severity = Literal["error", "warning", "info"]
LaunchKind = Literal["kernel", "copy", "fill", "python", "func"]
AccessKind = Literal["read", "write", "atomic"]
Role = Literal["input", "intermediate", "output", "constant"]
EventKind = Literal["backward", "zero", "read", "write", "reset"]
ContentKind = Literal["value", "adjoint"]
VersionStatus = Literal["kept", "preserved", "lost", "harmless", "live"]


@dataclass(slots=True, kw_only=True)
class Location:
    """A place in source code. `line` and `column` count from 1 and 0, as Python's own tracebacks do.

    Also a mapping of the same names, as in files: `place["line"]`, `dict(place)`.
    """

    file: str
    line: int
    column: int = 0
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return ("file", "line", "column", "function")

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)


@dataclass(slots=True, kw_only=True)
class Histogram:
    """Counts of finite values in 16 bins of equal width from `low` to `high`."""

    low: float
    high: float
    counts: list[int]


@dataclass(slots=True, kw_only=True)
class Summary:
    """Statistics of one version of an array. `min` to `norm` are over finite values (None: none)."""

    count: int
    nan: int = 0
    inf: int = 0
    min: float | None = None
    max: float | None = None
    mean: float | None = None
    norm: float | None = None
    histogram: Histogram | None = None


_HEAD = struct.Struct("<IIIddddc")
"""The start of a packed summary: `count`, `nan`, `inf`, `min` to `norm`, type of the counts after it."""
_COUNTS = {"B": 1, "H": 2, "I": 4}
"""Bytes of the counts of a histogram, by type."""


def pack_summary(summary: Summary) -> Summary:
    """Return a summary as the value of a field of `Version`, which unpacks it whenever it is read.

    Packed it takes a quarter of the memory: a diagnosis makes four for each launch of a time loop. A summary
    whose histogram does not range from `min` to `max`, or of 2³² values and more, is returned as it is.
    """
    ends = (summary.min, summary.max, summary.mean, summary.norm)
    histogram = summary.histogram
    if histogram is None or None in ends or (histogram.low, histogram.high) != ends[:2]:
        return summary
    counts, most = histogram.counts, max(summary.count, *histogram.counts)
    kind = next((kind for kind, size in _COUNTS.items() if most < 256**size), None)
    if kind is None:
        return summary
    head = _HEAD.pack(summary.count, summary.nan, summary.inf, *ends, kind.encode())
    return cast("Summary", head + struct.pack(f"<{len(counts)}{kind}", *counts))


def _unpacked(data: bytes) -> Summary:
    count, nan, inf, low, high, mean, norm, kind = _HEAD.unpack_from(data)
    bins = (len(data) - _HEAD.size) // _COUNTS[kind.decode()]
    counts = list(struct.unpack_from(f"<{bins}{kind.decode()}", data, _HEAD.size))
    histogram = Histogram(low=low, high=high, counts=counts)
    return Summary(
        count=count, nan=nan, inf=inf, min=low, max=high, mean=mean, norm=norm, histogram=histogram
    )


@dataclass(slots=True, kw_only=True)
class ParamInfo:
    """One parameter of a kernel."""

    name: str
    type: str
    array: bool


@dataclass(slots=True, kw_only=True)
class Access:
    """One place in the source that reads or writes an array parameter of a kernel.

    `needed`: the adjoint uses the value that is read there, so that it must not be overwritten
    before the reverse pass. `file` and `function` name the called function that contains the place; they are
    empty if it is in the kernel itself.
    """

    param: int
    kind: AccessKind
    line: int
    column: int
    end_column: int
    needed: bool = False
    file: str = field(default="", metadata={"sparse": True})
    function: str = field(default="", metadata={"sparse": True})


@dataclass(slots=True, kw_only=True)
class FunctionInfo:
    """A function that a kernel calls: its source, which starts at line `line` of `file`."""

    name: str
    file: str
    line: int
    lines: list[str]


@dataclass(slots=True, kw_only=True)
class KernelInfo:
    """A kernel: its source (`lines`, starting at line `line` of `file`), parameters and accesses.

    `functions` are the functions that it calls, directly or indirectly.
    """

    id: int
    name: str
    file: str
    line: int
    lines: list[str]
    params: list[ParamInfo]
    accesses: list[Access] = field(default_factory=list)
    adjoint: str | None = None
    enable_backward: bool = True
    functions: list[FunctionInfo] = field(default_factory=list, metadata={"sparse": True})

    def place_of(self, access: Access) -> Location:
        """Return the place of one of the accesses in the user's source."""
        return Location(
            file=access.file or self.file,
            line=access.line,
            column=access.column,
            function=access.function or self.name,
        )

    @property
    def parts(self) -> list[KernelInfo | FunctionInfo]:
        """Return the kernel and the functions that it calls: all parts with source."""
        return [self, *self.functions]

    def text_at(self, file: str, line: int) -> str | None:
        """Return a line of the kernel, or of a function that it calls, as recorded; None for other lines."""
        for part in self.parts:
            if part.file == file and 0 <= line - part.line < len(part.lines):
                return part.lines[line - part.line]
        return None


class Slot(Protocol):
    """The descriptor of a slot."""

    def __get__(self, instance: object, owner: type, /) -> object:
        """Return what the slot holds."""

    def __set__(self, instance: object, value: object, /) -> None:
        """Store something in the slot."""


class _Deferred:
    """A field of a dataclass with slots in which a function may stand for the text that it returns.

    The function is called when the field is read for the first time.

    Args:
        slot: The descriptor of the slot.
    """

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        found = self._slot.__get__(instance, owner)
        if callable(found):
            try:
                found = found()
            except TapedebugError:
                found = None  # the kernel was changed after it was recorded
            self._slot.__set__(instance, found)
        return found

    def __set__(self, instance: object, value: object) -> None:
        self._slot.__set__(instance, value)


def deferred(text: Callable[[], str | None]) -> str | None:
    """Return a function as the value of a field that calls it when it is read; see `KernelInfo.adjoint`."""
    return cast("str | None", text)


setattr(KernelInfo, "adjoint", _Deferred(vars(KernelInfo)["adjoint"]))  # noqa: B010
"""The generated adjoint: it can be printed later, because that takes seconds for a large kernel."""


@dataclass(slots=True, kw_only=True)
class ArrayInfo:
    """An array argument of a launch: bytes `start` to `stop` of the memory `buffer`.

    `parent` is the array that it is a view of.
    """

    id: int
    label: str
    dtype: str
    shape: list[int]
    requires_grad: bool
    buffer: int
    start: int
    stop: int
    parent: int | None = None
    role: Role = "intermediate"


@dataclass(slots=True, kw_only=True)
class Argument:
    """The argument of one parameter in a launch.

    Either `array` (an array's id) or `value` is set. `read_version` and `write_version` are the numbers of
    the versions (`Version.version`) that this launch read and wrote. `needed`: the adjoint of this launch
    uses the values.
    """

    name: str
    array: int | None = None
    value: Any = None
    reads: bool = False
    writes: bool = False
    read_version: int | None = None
    write_version: int | None = None
    needed: bool = False


@dataclass(slots=True, kw_only=True)
class Launch:
    """One entry of the tape. `seconds`, `backward_seconds`: wall times, None if not measured."""

    index: int
    kind: LaunchKind
    kernel: int | None
    name: str
    dim: list[int]
    args: list[Argument]
    scope: int | None = None
    seconds: float | None = None
    backward_seconds: float | None = None
    call_site: Location | None = None


@dataclass(slots=True, kw_only=True)
class Scope:
    """A named group of launches, `first` to `last` inclusive."""

    id: int
    name: str
    parent: int | None
    first: int
    last: int


@dataclass(slots=True, kw_only=True)
class Version:
    """The content of an array, from the launch that wrote it to the launch that overwrote it.

    Attributes:
        array: Id of the array.
        version: Number of the version, counted for each array from 0 (its content when the tape began).
        written_by: Launch that wrote it, None for version 0.
        reads: Launches that read it.
        needed_by: Those of `reads` whose adjoint uses the values, and the launch that wrote them if its own
            adjoint does (a custom replay or gradient reads the values after the launch).
        overwritten_by: First launch that overwrote any of it, None if it is still valid.
        preserved: A copy was kept for the reverse pass.
        recomputed: The copy was released to stay within a `memory_budget`: `backward` recomputes it.
        status: ``live``: never overwritten and needed by no adjoint. ``kept``: needed and never overwritten.
            ``harmless``: overwritten, but no adjoint needs it. ``preserved``: needed, overwritten, and the
            reverse pass reads the copy, or recomputed values. ``lost``: needed, overwritten, and the reverse
            pass reads wrong values (with `preserved`, a copy exists as evidence: `on_overwrite="warn"`).
        value: Summary of the values, if it was requested. It may be a copy: to change a summary, assign it.
        adjoint: The same of the adjoint of this version, if it was requested and a reverse pass ran.
    """

    array: int
    version: int
    written_by: int | None
    reads: list[int] = field(default_factory=list)
    needed_by: list[int] = field(default_factory=list)
    overwritten_by: int | None = None
    preserved: bool = False
    recomputed: bool = False
    status: VersionStatus = "live"
    value: Summary | None = None
    adjoint: Summary | None = None


class _Packed(_Deferred):
    """A field of a dataclass with slots that may hold a packed summary; each read returns a new `Summary`."""

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        found = self._slot.__get__(instance, owner)
        return _unpacked(found) if type(found) is bytes else found


for _name in ("value", "adjoint"):
    setattr(Version, _name, _Packed(vars(Version)[_name]))


@dataclass(slots=True, kw_only=True)
class Event:
    """An event around a tape that is not a launch on it.

    Attributes:
        kind: ``backward``: a reverse pass began. ``zero``: a gradient was set to one value, mostly 0.
            ``read``: the program read a gradient, or a result of one number. ``write``: memory of the tape
            was written by something that is not on the tape. ``reset``: the tape dropped its records.
        clock: Position in the order of all events of the process, for all tapes.
        at: Number of launches that the tape had then.
        of: Subject of the event: the ``values`` or the ``gradient`` of `array`, or the ``tape``.
        array: Id of the array; None for events of the tape.
        how: ``launch``, ``numpy``, ``copy``, ``assign``, ``optimiser``, … ``unseen``: found by comparing,
            when the next pass began.
        call_site: Place in the user's source, if it is known.
        tape: Number of the tape that ran backward, or that recorded meanwhile; 0 for none.
        again: The pass began from the same loss and seeds as the previous one on that tape.
        settled: The write came after a reverse pass of the tape: most likely an optimiser's step.
        numbers: `pass` (its number on its tape, from 1 on); `norm` of the gradient that was read;
            `norm_before` and `norm_after` of the gradient of an input that was not 0 when the pass began;
            `arrays`, the number of arrays of this memory that the event represents, if more than one;
            `viewed` is 1 if a NumPy view of the gradient existed when a pass had ended. `gap`: earlier
            events of this memory (1), or of all (2), are not stored.
    """

    kind: EventKind
    clock: int
    at: int = 0
    of: Literal["values", "gradient", "tape"] = "tape"
    array: int | None = None
    how: str = ""
    call_site: Location | None = None
    tape: int = 0
    again: bool = False
    settled: bool = False
    numbers: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Sequence:
    """`length` launches from `first` on occur `count` times in a row: same kernels, dims and data flow."""

    first: int
    length: int
    count: int


@dataclass(slots=True, kw_only=True)
class Coverage:
    """The part of the tape that was checked: `checked` of `launches`, and `notes` on the rest.

    `partial`: a rule did not finish, for lack of time or because of an error; the notes name it.
    """

    summary: str = "nothing was checked"
    launches: int = 0
    checked: int = 0
    notes: list[str] = field(default_factory=list)
    partial: bool = field(default=False, metadata={"sparse": True})

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  - {note}" for note in self.notes)])


@dataclass(slots=True, kw_only=True)
class Finding:
    """One finding of `diagnose` about a tape.

    Attributes:
        rule: Id of the rule: ``"overwrite"``, ``"disconnected"``, ``"nonfinite"``.
        severity: ``"error"``: the consumed gradient is wrong or not finite. ``"warning"``: it is probably
            not what was intended. ``"info"``: the engine handled it, or it is harmless.
        message: The description, in sentences, with the numbers.
        launches: Indices of the launches concerned.
        arrays: Labels of the arrays concerned.
        location: The line of kernel source.
        call_site: The line that launched it.
        evidence: The measured numbers by name.
        fix: The suggested change, in one sentence; empty if nothing needs to change.
        id: Position in `Diagnosis.findings`.
        tape: Position in `Diagnosis.traces`, if several tapes were diagnosed together.
    """

    rule: str
    severity: Severity
    message: str
    launches: list[int] = field(default_factory=list)
    arrays: list[str] = field(default_factory=list)
    location: Location | None = None
    call_site: Location | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    fix: str = ""
    id: int = 0
    tape: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON-compatible data."""
        from tapedebug.trace.json_codec import encode

        data: dict[str, Any] = encode(self)
        return data


@dataclass(slots=True, kw_only=True)
class Check:
    """One cell of the mask matrix: the comparison of d `output` / d `input` with the reference.

    `launch` is None for the whole tape. `verdict` is None for a check that was not run. `left` and `right`
    are the slopes on both sides of a kink.
    """

    launch: int | None
    input: str
    output: str
    verdict: Verdict | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    message: str = ""
    seconds: float | None = None
    left: float | None = None
    right: float | None = None


@dataclass(slots=True, kw_only=True)
class Timing:
    """The duration of one step of a diagnosis.

    Attributes:
        step: The code of a rule, such as ``"overwrite"``, or another step in a few words.
        estimate: The seconds that it was expected to take before it ran; None if unknown.
        seconds: The seconds that it took, without the time of other steps that ran inside it.
        completed: It ran to its end, and was not ended by the time limit or an error.
    """

    step: str
    estimate: float | None = None
    seconds: float = 0.0
    completed: bool = True


@dataclass(slots=True, kw_only=True)
class Backward:
    """The reverse pass: if it ran, the array that it started from (`loss`, an id), the order of launches."""

    ran: bool = False
    loss: int | None = None
    order: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TapeInfo:
    """Statistics of the tape as a whole.

    `preserved_bytes`: size of the copies for adjoints. `livein_bytes`: size of the copies for replays.
    `began` and `ended`: start and end of recording, on the clock of `Event`. `engine`: the engine that ran
    the launches, if it is not that of tapedebug, such as ``"NVIDIA Warp 1.19.0, cpu"``.
    """

    id: int
    on_overwrite: str
    launches: int
    backward_runs: int = 0
    preserved_bytes: int = 0
    livein_bytes: int = 0
    began: int = 0
    ended: int = 0
    engine: str = field(default="", metadata={"sparse": True})


@dataclass(slots=True, kw_only=True)
class Content:
    """All values of a version, which the trace holds in addition to their summary: see `Trace.values`.

    Attributes:
        array: Id of the array.
        version: Number of the version.
        kind: The values themselves, or their adjoints.
        dtype: Type of the scalars, with the byte order, as NumPy writes it: ``"<f4"``.
        shape: Shape of the array plus, for vectors and matrices, that of one element.
        member: Name of the zip member with the bytes, in a file.
    """

    array: int
    version: int
    kind: ContentKind
    dtype: str
    shape: list[int]
    member: str


@dataclass(slots=True, kw_only=True)
class Trace:
    """A recorded tape as data. `diagnose` fills `verdict`, `coverage`, `findings`, `checks` and `timings`.

    `events` are the last events around the tape, `events_dropped` counts the earlier ones. `notes` describe
    what was left out of the trace, and why.
    """

    name: str
    tape: TapeInfo
    kernels: list[KernelInfo] = field(default_factory=list)
    arrays: list[ArrayInfo] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    sequences: list[Sequence] = field(default_factory=list)
    verdict: Verdict = "NOT CHECKED"
    coverage: Coverage = field(default_factory=Coverage)
    findings: list[Finding] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    backward: Backward = field(default_factory=Backward)
    events: list[Event] = field(default_factory=list)
    events_dropped: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    contents: list[Content] = field(default_factory=list, metadata={"sparse": True})
    notes: list[str] = field(default_factory=list, metadata={"sparse": True})
    timings: list[Timing] = field(default_factory=list, metadata={"sparse": True})
    data: dict[str, np.ndarray[Any, Any]] = field(
        default_factory=dict, repr=False, compare=False, metadata={"json": False}
    )
    """The arrays that `contents` describes, by member."""
    recording: str = field(default="", repr=False, compare=False, metadata={"json": False})
    """Id of the recording in this process that the trace was made from; empty for a trace from a file."""
    _by_array: tuple[list[Version], int, dict[int, list[Version]]] | None = field(
        default=None, init=False, repr=False, compare=False, metadata={"json": False}
    )
    """The versions by array, with the list that they were taken from and its length."""

    def array(self, label: str) -> ArrayInfo:
        """Return the array with this label.

        Raises:
            KeyError: No array has this label; the message lists the labels.
        """
        for info in self.arrays:
            if info.label == label:
                return info
        labels = ", ".join(info.label for info in self.arrays) or "none"
        raise KeyError(f"no array is labelled {label!r}; the labels are: {labels}")

    def versions_of(self, array: int) -> list[Version]:
        """Return the versions of the array with id `array`, oldest first."""
        known = self._by_array
        if known is None or known[0] is not self.versions or known[1] != len(self.versions):
            by_array: dict[int, list[Version]] = {}
            for version in self.versions:
                by_array.setdefault(version.array, []).append(version)
            known = self._by_array = self.versions, len(self.versions), by_array
        return list(known[2].get(array, ()))

    def values(self, array: int | str, version: int | None = None) -> np.ndarray[Any, Any]:
        """Return all values of a version, which `tape.trace(values="arrays")` keeps.

        Args:
            array: The array's id or label.
            version: Number of the version; by default the last that is kept.

        Returns:
            A read-only NumPy array of the array's shape plus, for vectors and matrices, that of one element.

        Raises:
            KeyError: There is no such array, or the trace does not hold the values; the message lists what it
                holds.
        """
        return _content(self, "value", array, version)

    def adjoints(self, array: int | str, version: int | None = None) -> np.ndarray[Any, Any]:
        """Return the adjoints of all values of a version; arguments and errors are those of `values`."""
        return _content(self, "adjoint", array, version)

    def to_json(self) -> dict[str, Any]:
        """Return the trace as JSON-compatible data (schema: ``docs/trace.md``)."""
        from tapedebug.trace.json_codec import encode

        return {"format": FORMAT, "schema": SCHEMA, **encode(self)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file that `load_trace` reads: a zip of ``trace.json`` and arrays.

        Raises:
            OSError: The file cannot be written.
        """
        from tapedebug.trace._file import save_trace

        save_trace(self, path)

    def __repr__(self) -> str:
        return (
            f"<Trace {self.name!r}: {len(self.launches)} launches, {len(self.arrays)} arrays, "
            f"{len(self.findings)} findings, verdict {self.verdict}>"
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        return renderer().panel(self)

    def _display_(self) -> Any:
        return renderer().marimo(self)


def _content(trace: Trace, kind: ContentKind, array: int | str, version: int | None) -> np.ndarray[Any, Any]:
    """Return the content that a trace holds of a version, by default of the last one that it holds.

    Raises:
        KeyError: There is no such array, or the trace does not hold it; the message lists what it holds.
    """
    number = trace.array(array).id if isinstance(array, str) else array
    own = [item for item in trace.contents if item.array == number and item.kind == kind]
    own.sort(key=lambda item: item.version)
    for item in reversed(own):
        if version in (None, item.version) and item.member in trace.data:
            return trace.data[item.member]
    what = "values" if kind == "value" else "adjoints"
    label = trace.arrays[number].label if 0 <= number < len(trace.arrays) else f"array {number}"
    wanted = "" if version is None else f"version {version} of "
    if own and not trace.data:
        there = "this copy of the trace came without arrays, as JSON does"
    elif own:
        there = f"it has version {', '.join(str(item.version) for item in own)}"
    else:
        there = 'make it with tape.trace(values="arrays")'
    raise KeyError(f"the trace does not hold the {what} of {wanted}{label}: {there}")
