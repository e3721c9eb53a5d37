"""`GradcheckResult`: plain data that prints as a table and counts as the boolean of Warp's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from os import PathLike
from pathlib import Path
from typing import Any

from tapedebug._atomic import write_whole
from tapedebug._dataclass import dataclass
from tapedebug._environment import environment
from tapedebug._errors import GradcheckError
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct, worst_of
from tapedebug.autograd.finite_diff.verdict import Verdict, worst
from tapedebug.autograd.results.html import fragment, page
from tapedebug.autograd.results.pair_result import Coverage as Coverage
from tapedebug.autograd.results.pair_result import Entry as Entry
from tapedebug.autograd.results.pair_result import Layout as Layout
from tapedebug.autograd.results.pair_result import PairResult as PairResult
from tapedebug.autograd.results.pair_result import PairResults as PairResults
from tapedebug.autograd.results.reproduce import portable, reproduce
from tapedebug.autograd.results.serialization import result_data, result_fields
from tapedebug.autograd.results.show_once import was_shown
from tapedebug.autograd.results.table import HEADER, format_table
from tapedebug.autograd.subjects.pairs import why_nothing


@dataclass(frozen=True, repr=False)
class GradcheckResult:
    """The result of `gradcheck` and `gradcheck_tape`: true only if there is at least one pair and all agree.

    Attributes:
        subject: What was checked: "kernel square", "tape of 3 launches".
        verdict: The worst verdict of the pairs; UNDECIDABLE if nothing was covered.
        pairs: One result for each input-output pair (of each launch).
        coverage: What was checked, what was not, and why.
        dot_products: The dot-product tests, one for each kernel or launch that was checked: the adjoint
            against the tangent. Evidence beside the verdict; a mismatch is among the notes of `coverage`.
        scripts: The scripts that `reproduce` returns, by index in `pairs`.
        settings: The arguments of the check that affect its numbers: steps, tolerances, samples, options.
        environment: Versions of Python, the packages and the platform.
    """

    subject: str
    verdict: Verdict
    pairs: PairResults
    coverage: Coverage
    dot_products: tuple[DotProduct, ...] = ()
    scripts: Mapping[int, Callable[[], str]] = field(default_factory=dict, repr=False, compare=False)
    settings: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    environment: Mapping[str, str] = field(default_factory=environment, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pairs", PairResults(self.pairs))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "scripts": portable(self)}

    def __bool__(self) -> bool:
        return self.verdict == "AGREE"

    @property
    def dot_product(self) -> DotProduct | None:
        """The dot-product test with the largest mismatch; None if none was run."""
        return worst_of(self.dot_products)

    @property
    def failing(self) -> PairResult | None:
        """The first pair with the worst verdict; None if all agree."""
        target = worst(pair.verdict for pair in self.pairs)
        return next((pair for pair in self.pairs if pair.verdict == target != "AGREE"), None)

    def summary(self) -> str:
        """Warp's summary table, the messages of the pairs that fail, the coverage and a conclusion."""
        tables: dict[tuple[int | None, str, str], list[PairResult]] = {}
        for pair in self.pairs:
            tables.setdefault((pair.launch, pair.subject, pair.check), []).append(pair)
        launches = {(launch, subject) for launch, subject, _ in tables}
        parts = []
        for (launch, subject, check), pairs in tables.items():
            title = [subject] if len(launches) > 1 or launch is not None else []
            title += [check] if check != "adjoint" else []
            parts += [": ".join(title)] if title else []
            parts += [format_table(HEADER, [pair.row() for pair in pairs]), ""]
        parts += [pair.display_text() for pair in self.pairs if pair.verdict != "AGREE"]
        parts += [str(self.coverage), self.conclusion()]
        return "\n".join(parts)

    def conclusion(self) -> str:
        """Return `Gradient check for kernel square passed`, worded as in Warp's documentation."""
        if self:
            return f"Gradient check for {self.subject} passed"
        return f"Gradient check for {self.subject} failed: {self.verdict}"

    __str__ = summary

    def __repr__(self) -> str:
        return f"<GradcheckResult of {self.subject}: {self.verdict}, {self.coverage.summary}>"

    def reproduce(self, pair: PairResult | None = None, path: str | PathLike[str] | None = None) -> str:
        """Return a script that reproduces one failure: source, values of the launch, check of one pair.

        The script prints the table and the worst entry, with AD and FD, and exits with status 1 until the
        pair agrees.

        Args:
            pair: The pair; by default the worst one, or the first one if all agree.
            path: The file to write the script to. Arrays of more than 64 numbers go into an `.npz` file of
                the same name beside it; in the returned text they are packed.

        Returns:
            The script.

        Raises:
            GradcheckError: A ValueError; the result has no such pair, or the pair cannot be reproduced alone.
                The message gives the reason.
        """
        return reproduce(self, pair, path)

    def to_dict(self, *, compared: bool = False) -> dict[str, Any]:
        """Return the whole result as JSON-compatible data; see `from_dict`.

        Args:
            compared: Include all compared entries, not only the worst of each pair.
        """
        return result_data(self, compared=compared)

    def to_json(self, *, compared: bool = False, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(compared=compared), allow_nan=False, indent=indent)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> GradcheckResult:
        """Return the result from the data of `to_dict`; it has no scripts.

        Raises:
            GradcheckError: The data is not from `to_dict`, or from a newer version.
        """
        return cls(**result_fields(data))

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return the result as an HTML page: badges, messages, heat maps, the table and the coverage.

        The page is one file for light and dark themes; it loads no other file and runs no script.

        Args:
            path: The file to write the page to.

        Returns:
            The page.
        """
        text = page(self)
        if path is not None:
            write_whole(Path(path).absolute(), text)
        return text

    def _repr_html_(self) -> str:
        return fragment(self)

    def _ipython_display_(self) -> None:
        """Display nothing if the check already displayed the result in this cell."""
        if not was_shown(self):
            raise NotImplementedError

    def raise_if_failed(self) -> None:
        """Raise an error if the check failed.

        Raises:
            GradcheckFailure: The verdict is not AGREE; the message names the failing pair.
        """
        if not self:
            raise GradcheckFailure(self)


class GradcheckFailure(GradcheckError):
    """Raised for a check whose verdict is not AGREE; `result` is the whole result."""

    def __init__(self, result: GradcheckResult) -> None:
        self.result = result
        pair = result.failing
        if pair is None:
            super().__init__(
                f"{result.conclusion()}: {result.coverage.summary}",
                notes=result.coverage.notes,
                hint=why_nothing([result.coverage.summary, *result.coverage.notes])[1],
            )
            return
        hint = {
            "WRONG": "look at the entry above; result.reproduce() gives a script that shows it alone",
            "KINK": "check beside the kink, or leave the pair out with a mask",
            "UNDECIDABLE": _undecided(pair.message),
            "NONDETERMINISTIC": "pin the random state, or make concurrent writes atomic",
        }[pair.verdict]
        super().__init__(
            f"{result.conclusion()}: {pair.subject}, {pair.output} with respect to {pair.input}: "
            f"{'' if pair.check == 'adjoint' else pair.check + ': '}{pair.message}",
            span=None if pair.written is None else pair.written.line,
            notes=[] if pair.written is None or not pair.written.called else [pair.written.call()],
            hint=hint,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.result,)


def _undecided(message: str) -> str:
    """Return the hint for an UNDECIDABLE check."""
    if "record_func" in message:
        return "compute in kernels what record_func stands for, or check launches one by one"
    if "time was up" in message:
        return "give it more time (max_seconds), or less to do: masks, max_inputs_per_var, fast_mode"
    return "rescale the problem, or widen atol and rtol to what float32 can show"
