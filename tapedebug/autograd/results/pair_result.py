"""The result for one input-output pair: verdict, errors, the worst entry, the line that writes it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import Any, SupportsIndex, overload

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.finite_diff.verdict import VERDICTS, Verdict
from tapedebug.autograd.finite_diff.wirtinger import Wirtinger
from tapedebug.autograd.results.error_patterns import ErrorPattern
from tapedebug.autograd.results.table import number
from tapedebug.autograd.subjects.probes import flat_index
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.write_sites import WriteSite


def plain(value: object) -> Any:
    """Return a number for JSON: non-finite ones as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True)
class Coverage:
    """The launches that a verdict is based on, and what was not covered.

    Attributes:
        summary: One sentence with the numbers.
        launches: How many launches there were (1 for a kernel that was checked alone).
        checked: How many of them were checked.
        notes: What was not covered, and why; conditions on which the agreement depends.
    """

    summary: str
    launches: int
    checked: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  - {note}" for note in self.notes)])


@dataclass(frozen=True)
class Entry:
    """One entry of a Jacobian: its place, the gradient and the reference.

    Attributes:
        output_index, input_index: Array index in the output and in the input, followed by the component.
        ad: The gradient that is checked.
        fd, bar: The reference and its error bar.
        left, right: One-sided slopes.
        output, input: Names of the two scalars: `y[3]`, `x[1].z`.
    """

    output_index: tuple[int, ...]
    input_index: tuple[int, ...]
    ad: float
    fd: float
    bar: float
    left: float = math.nan
    right: float = math.nan
    output: str = ""
    input: str = ""

    def describe(self) -> str:
        """Return `d y[3] / d x[1].z: AD 2.0, FD 6.0 ± 1e-09`."""
        return f"d {self.output} / d {self.input}: AD {self.ad:.6g}, FD {self.fd:.6g} ± {self.bar:.1g}"


@dataclass(frozen=True)
class Layout:
    """The shapes and components of the two arrays that rows and columns of a Jacobian belong to.

    Attributes:
        output_shape, input_shape: Shapes, components last.
        output_components, input_components: Scalars in one element.
    """

    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    output_components: int = 1
    input_components: int = 1

    @classmethod
    def of(cls, target: Port, source: Port) -> Layout:
        """Return the layout of d `target` / d `source`."""
        return cls(target.shape, source.shape, target.components, source.components)


@dataclass(frozen=True, eq=False)
class Gradient:
    """The gradient of a whole tape by one input, entry by entry; all arrays are (size,).

    Attributes:
        types: Element types of the output and of the input.
        outputs: Number of scalars in the output; if several, this is the gradient of a fixed random
            combination of them.
        consumed: The gradient from `Tape.backward`.
        reference: The float64 adjoint that reads the values of the forward pass.
        confirmed: True if finite differences of the loss confirm the reference wherever they can decide. If
            not, only the finite differences count.
        fd, bar: Finite differences along single entries and their error bars; NaN where none was taken.
        slopes: At a kink, the slopes on the left and on the right.
    """

    types: tuple[Any, Any]
    outputs: int
    consumed: Floats
    reference: Floats
    confirmed: bool
    fd: Floats
    bar: Floats
    slopes: tuple[float, float] | None = None


@dataclass(frozen=True)
class PairResult:
    """The verdict on d `output` / d `input`, of one launch or of the whole tape.

    Attributes:
        launch: Index of the launch on the tape; None for the whole tape, and for a kernel or function that
            was checked on its own.
        subject: What was differentiated: "kernel square", "launch 3 (square)", "the whole tape".
        input, output: Names.
        verdict: The worst verdict of the pair's entries.
        max_abs_error: Largest `abs(AD - FD)` (NaN if nothing was compared).
        max_rel_error: Largest `abs(AD - FD) / abs(FD)`, over entries that float32 can tell from zero.
        message: The error in a sentence or two, with the numbers; empty if all entries agree.
        worst: The entry that the message is about; if all agree, the one with the largest absolute error.
        largest: The entry with the largest absolute error.
        entries, evaluated: Number of entries of the Jacobian, and number of entries that were compared.
        zeros: Number of further entries known to be zero, from a traced sparsity pattern that random products
            verified.
        combinations: Number of random combinations of all entries that were compared, if single entries were
            not.
        groups: Number of groups of independent rows and of independent columns; None if not in groups.
        by_atol: Number of entries that agree only because of `atol`.
        notes: Conditions on which the verdict depends.
        seconds: Duration, shared evenly between the pairs that were run together.
        check: What was compared with the reference: "adjoint", "tangent", "batched adjoint" ….
        compared: The compared entries, if they are not too many.
        layout: The elements and components of rows and columns.
        signature: The pattern that all wrong entries share, if there is one.
        wirtinger: Derivatives by an input that holds complex numbers (`gradcheck(…, complex=…)`).
        written: Where the output is written, and where the launch was called.
        gradient: The gradient of the whole tape by the input, entry by entry.
    """

    launch: int | None
    subject: str
    input: str
    output: str
    verdict: Verdict
    max_abs_error: float = math.nan
    max_rel_error: float = math.nan
    message: str = ""
    worst: Entry | None = None
    entries: int = 0
    evaluated: int = 0
    zeros: int = 0
    combinations: int = 0
    groups: tuple[int, int] | None = None
    by_atol: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    check: str = "adjoint"
    compared: ComparedEntries | None = field(default=None, compare=False, repr=False)
    largest: Entry | None = field(default=None, repr=False)
    layout: Layout | None = field(default=None, compare=False, repr=False)
    signature: ErrorPattern | None = None
    wirtinger: Wirtinger | None = field(default=None, compare=False, repr=False)
    written: WriteSite | None = field(default=None, compare=False, repr=False)
    gradient: Gradient | None = field(default=None, compare=False, repr=False)

    @property
    def slopes(self) -> tuple[float, float] | None:
        """The slopes on the left and on the right if the verdict is KINK and they are known, else None."""
        if self.verdict != "KINK":
            return None
        if self.gradient is not None:
            return self.gradient.slopes
        known = self.worst is not None and not math.isnan(self.worst.left + self.worst.right)
        return (self.worst.left, self.worst.right) if self.worst is not None and known else None

    def display_text(self) -> str:
        """Return verdict and message, with the line that writes the output and the call of the launch."""
        where = "" if self.launch is None else f"{self.subject}: "
        where += "" if self.check == "adjoint" else f"{self.check}: "
        lines = [] if self.written is None else self.written.lines()
        return "\n".join([f"{self.verdict}: {where}{self.message}", *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return the pair as JSON-compatible data.

        Non-finite numbers are the strings "nan", "inf", "-inf"; errors are None if nothing was compared. At a
        kink, `left` and `right` are the slopes on both sides.
        """
        names = (
            "launch",
            "input",
            "output",
            "verdict",
            "max_abs_error",
            "max_rel_error",
            "message",
            "seconds",
        )
        data = {name: plain(getattr(self, name)) for name in names}
        if not self.is_compared:
            data["max_abs_error"] = data["max_rel_error"] = None
        if self.slopes is not None:
            data["left"], data["right"] = (plain(slope) for slope in self.slopes)
        return data

    @property
    def is_compared(self) -> bool:
        """True if anything was compared: single entries, or random combinations of all."""
        return bool(self.evaluated or self.combinations)

    def row(self) -> tuple[str, ...]:
        """Return the pair's row of the summary table."""
        passed = "PASS" if self.verdict == "AGREE" else f"FAIL ({self.verdict})"
        absolute, at = number(self.max_abs_error), self.largest
        if at is None:
            return (self.input, self.output, absolute, "", "", number(self.max_rel_error), passed)
        if self.layout is not None:
            row = flat_index(at.output_index, self.layout.output_shape)
            absolute += f" at ({row}, {flat_index(at.input_index, self.layout.input_shape)})"
        return (
            self.input, self.output, absolute, number(at.ad), number(at.fd), number(self.max_rel_error),
            passed,
        )  # fmt: skip


ANY: Any = object()
"""Whatever it is."""


class PairResults(tuple[PairResult, ...]):
    """The results of all pairs: a tuple that can be filtered."""

    __slots__ = ()

    def where(
        self,
        *,
        launch: int | Collection[int | None] | None = ANY,
        input: str | Collection[str] = ANY,
        output: str | Collection[str] = ANY,
        verdict: Verdict | Collection[Verdict] = ANY,
        check: str | Collection[str] = ANY,
    ) -> PairResults:
        """Return the results with the given values; an argument may also be a list of allowed values.

        Args:
            launch: Index of the launch; None for subjects that are not launches of a tape.
            input: Name of the input.
            output: Name of the output.
            verdict: Verdict of the pair.
            check: What was compared: "adjoint", "tangent" ….

        Raises:
            GradcheckError: `verdict` is not a verdict.
        """
        wanted: dict[str, str | int | Collection[Any] | None] = {
            "launch": launch,
            "input": input,
            "output": output,
            "verdict": verdict,
            "check": check,
        }
        sets = {name: _as_list(value) for name, value in wanted.items() if value is not ANY}
        for one in sets.get("verdict", ()):
            if one not in VERDICTS:
                raise GradcheckError(f"{one!r} is no verdict; they are {', '.join(VERDICTS)}")
        return PairResults(
            pair for pair in self if all(getattr(pair, name) in values for name, values in sets.items())
        )

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> PairResult: ...

    @overload
    def __getitem__(self, place: slice, /) -> PairResults: ...

    def __getitem__(self, place: SupportsIndex | slice, /) -> PairResult | PairResults:
        if isinstance(place, slice):
            return PairResults(super().__getitem__(place))
        return super().__getitem__(place)


def _as_list(value: str | int | Collection[Any] | None) -> list[Any]:
    return [value] if value is None or isinstance(value, str | int) else list(value)


def entries_of(pairs: Sequence[PairResult]) -> str:
    """Return `18 of 18 entries`, and the number of further entries that are zero."""
    entries, evaluated = sum(pair.entries for pair in pairs), sum(pair.evaluated for pair in pairs)
    zeros = sum(pair.zeros for pair in pairs)
    text = f"{evaluated} of {entries} entries{_groups_of(pairs)}"
    combined = [pair for pair in pairs if pair.combinations]
    if combined:
        entries, runs = sum(pair.entries for pair in combined), sum(pair.combinations for pair in combined)
        text += f" one by one, {entries} in {runs} random combinations"
    return f"{text}; {zeros} more are zero (traced, verified by random products)" if zeros else text


def _groups_of(pairs: Sequence[PairResult]) -> str:
    """Return `, by 3 groups of rows and 3 of columns`: the largest numbers of runs for a pair."""
    groups = {pair.groups for pair in pairs}
    known = [each for each in groups if each is not None]
    if not known:
        return ""
    rows, columns = (max(counts) for counts in zip(*known, strict=True))
    most = "up to " if len(groups) > 1 else ""
    return f", by {most}{rows} group{'s' * (rows != 1)} of rows and {most}{columns} of columns"
