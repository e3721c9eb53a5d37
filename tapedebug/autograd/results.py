"""What a check hands back: plain data that prints as the documents' table and counts as their boolean."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tapedebug._errors import GradcheckError
from tapedebug.autograd.table import HEADER, format_table, number
from tapedebug.autograd.transpose import DotProduct, worst_of
from tapedebug.autograd.verdict import Verdict, worst


@dataclass(frozen=True)
class Coverage:
    """How much a verdict rests on.

    Attributes:
        summary: One sentence with the numbers.
        launches: How many launches there were (1 for a kernel that was checked alone).
        checked: How many of them were checked.
        notes: What was not covered, and why; what the agreement rests on.
    """

    summary: str
    launches: int
    checked: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  - {note}" for note in self.notes)])


@dataclass(frozen=True)
class Entry:
    """One entry of a Jacobian: where it is, and what the two sides say of it.

    Attributes:
        output_index, input_index: Of the output and the input, array index followed by the component.
        ad: The gradient that is checked.
        fd, bar: The reference and its error bar.
        left, right: One-sided slopes.
    """

    output_index: tuple[int, ...]
    input_index: tuple[int, ...]
    ad: float
    fd: float
    bar: float
    left: float = math.nan
    right: float = math.nan

    def describe(self, output: str, input: str) -> str:
        """`d y[3] / d x[1, 0]: AD 2.0, FD 6.0 ± 1e-09`."""
        return (
            f"d {output}[{_indices(self.output_index)}] / d {input}[{_indices(self.input_index)}]: "
            f"AD {self.ad:.6g}, FD {self.fd:.6g} ± {self.bar:.1g}"
        )


def _indices(index: tuple[int, ...]) -> str:
    return ", ".join(map(str, index))


@dataclass(frozen=True)
class PairResult:
    """The verdict on d `output` / d `input`, of one launch or of the whole tape.

    Attributes:
        launch: Index of the launch on the tape; None for the whole tape, and for a kernel or function that
            was checked alone.
        subject: What was differentiated: "kernel square", "launch 3 (square)", "the whole tape".
        input, output: Names.
        verdict: The worst of the pair's entries.
        max_abs_error: Largest `abs(AD - FD)` (NaN where nothing was compared).
        max_rel_error: Largest `abs(AD - FD) / abs(FD)`, over entries that float32 can tell from zero.
        message: What is wrong, in a sentence or two with the numbers; empty where all agrees.
        worst: The entry that the message is about; where all agree, that of the largest absolute error.
        entries, evaluated: How many entries the Jacobian has, and how many were compared.
        by_atol: How many entries agree only thanks to `atol`.
        notes: What the verdict rests on.
        seconds: How long it took, shared evenly between the pairs that were run together.
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
    by_atol: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The pair as JSON-compatible data.

        Non-finite numbers are the strings "nan", "inf", "-inf"; errors are None where nothing was compared.
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
        data = {name: _plain(getattr(self, name)) for name in names}
        if not self.evaluated:
            data["max_abs_error"] = data["max_rel_error"] = None
        return data

    def row(self) -> tuple[str, ...]:
        """The pair's line of the summary table."""
        passed = "PASS" if self.verdict == "AGREE" else f"FAIL ({self.verdict})"
        return (self.input, self.output, number(self.max_abs_error), number(self.max_rel_error), passed)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True, repr=False)
class GradcheckResult:
    """What `gradcheck` and `gradcheck_tape` return: true only where every pair agrees, and there was one.

    Attributes:
        subject: What was checked: "kernel square", "tape of 3 launches".
        verdict: The worst of the pairs; UNDECIDABLE where nothing was covered.
        pairs: One result for each input-output pair (of each launch).
        coverage: What was checked, what was not, and why.
        dot_products: The dot-product tests, one for each kernel or launch that was checked: the adjoint
            against the tangent. Evidence beside the verdict; a mismatch is among the notes of `coverage`.
    """

    subject: str
    verdict: Verdict
    pairs: tuple[PairResult, ...]
    coverage: Coverage
    dot_products: tuple[DotProduct, ...] = ()
    scripts: Mapping[int, Callable[[], str]] = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.verdict == "AGREE"

    @property
    def dot_product(self) -> DotProduct | None:
        """The dot-product test with the largest mismatch; None where there was none."""
        return worst_of(self.dot_products)

    @property
    def failing(self) -> PairResult | None:
        """The worst pair that does not agree, the first of its kind; None where all agree."""
        target = worst(pair.verdict for pair in self.pairs)
        return next((pair for pair in self.pairs if pair.verdict == target != "AGREE"), None)

    def summary(self) -> str:
        """The documents' table, the messages of the pairs that fail, coverage and a last line."""
        launches = dict.fromkeys((pair.launch, pair.subject) for pair in self.pairs)
        parts = []
        for launch, subject in launches:
            rows = [pair.row() for pair in self.pairs if (pair.launch, pair.subject) == (launch, subject)]
            title = [subject] if len(launches) > 1 or launch is not None else []
            parts += [*title, format_table(HEADER, rows), ""]
        parts += [f"{pair.verdict}: {pair.message}" for pair in self.pairs if pair.verdict != "AGREE"]
        parts += [str(self.coverage), self.conclusion()]
        return "\n".join(parts)

    def conclusion(self) -> str:
        """`Gradient check for kernel square passed`, as the documents say it."""
        if self:
            return f"Gradient check for {self.subject} passed"
        return f"Gradient check for {self.subject} failed: {self.verdict}"

    __str__ = summary

    def __repr__(self) -> str:
        return f"<GradcheckResult of {self.subject}: {self.verdict}, {self.coverage.summary}>"

    def reproduce(self, pair: PairResult | None = None) -> str:
        """A script that shows one failure alone: the kernel's source, the values of the launch, the check.

        Args:
            pair: Which pair; the worst one where none is given, the first one where all agree.

        Raises:
            ValueError: There is no such pair in this result, or it was not a kernel's.
        """
        pair = pair or self.failing or next(iter(self.pairs), None)
        index = next((i for i, own in enumerate(self.pairs) if own is pair), None)
        if index is None or index not in self.scripts:
            raise ValueError(
                f"no script can be written for {'a check without pairs' if pair is None else pair.subject}: "
                "only launches of kernels can be shown alone"
            )
        return self.scripts[index]()

    def raise_if_failed(self) -> None:
        """Raise where the check failed.

        Raises:
            GradcheckFailure: The verdict is not AGREE; the message names the failing pair.
        """
        if not self:
            raise GradcheckFailure(self)


class GradcheckFailure(GradcheckError):
    """A check that did not agree; `result` has all of it."""

    def __init__(self, result: GradcheckResult) -> None:
        self.result = result
        pair = result.failing
        if pair is None:
            super().__init__(
                f"{result.conclusion()}: {result.coverage.summary}",
                notes=result.coverage.notes,
                mend="set requires_grad=True on the arrays whose gradients are wanted, and name them",
            )
            return
        mend = {
            "WRONG": "look at the entry above; result.reproduce() gives a script that shows it alone",
            "KINK": "check beside the kink, or leave the pair out with a mask",
            "UNDECIDABLE": "rescale the problem, or widen atol and rtol to what float32 can show",
            "NONDETERMINISTIC": "pin the random state, or make concurrent writes atomic",
        }[pair.verdict]
        super().__init__(
            f"{result.conclusion()}: {pair.subject}, {pair.output} with respect to {pair.input}: "
            f"{pair.message}",
            mend=mend,
        )
