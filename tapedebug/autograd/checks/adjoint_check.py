"""Compares the adjoint of a program with finite differences of its float64 twin, pair by pair.

The cost determines how a Jacobian is evaluated: a small one completely, a sparse one by groups of rows and
columns without common entries (all entries, in a few runs), any other by random combinations of all entries,
with a search for the entry if a combination is wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field, fields, replace
from typing import Any, Literal

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Checkpoint
from tapedebug.autograd.checks.grids import columns_of, compare_grids, grid_result, rows_of
from tapedebug.autograd.checks.large import check_large
from tapedebug.autograd.checks.sparse_check import SparseCheck, compressible
from tapedebug.autograd.checks.sparse_result import sparse_result
from tapedebug.autograd.finite_diff.comparison import Comparison as Comparison
from tapedebug.autograd.finite_diff.nondeterminism import nondeterministic_pairs
from tapedebug.autograd.finite_diff.verdict import Tolerance
from tapedebug.autograd.options import Options, masked_of, positive, whole_number
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.messages import note_swaps
from tapedebug.autograd.sparse.pattern import Pattern, traced
from tapedebug.autograd.subjects.program import Pairs, Port, Program

LARGEST = 1 << 23  # entries of one Jacobian that is evaluated whole (64 MiB as float64, several times)
SAMPLE = 256  # entries of a variable that are evaluated of a larger one
SMALL = 1 << 12  # entries up to which a Jacobian is evaluated whole, whatever is known of it
WHOLE = 1 << 18  # entries up to which it is where no sparsity is known
WORK = 1 << 26  # values that its runs compute, at most

Pair = tuple[Port, Port]
Route = Literal["grid", "sparse", "large"]


@dataclass(frozen=True)
class CheckPlan:
    """The steps, tolerances, samples and options of a check; see `gradcheck`.

    Attributes:
        eps: The largest step.
        tolerance: The tolerances, as in Warp's documentation.
        max_inputs, max_outputs: Number of scalars of each input and output to evaluate; all if <= 0.
        dense: Number of random directions (at least 3) of all entries that are also compared if only some
            entries are evaluated one by one.
        options: The other options of the check.
    """

    eps: float
    tolerance: Tolerance
    max_inputs: int = -1
    max_outputs: int = -1
    dense: int = 0
    options: Options = field(default_factory=Options)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> CheckPlan:
        """Return the plan of a check from the arguments of `gradcheck`, by name; others are ignored.

        Raises:
            GradcheckError: An argument is invalid, or two do not fit together.
        """
        chosen = {each.name: arguments[each.name] for each in fields(Options) if each.name in arguments}
        masked = masked_of(arguments["masked"], arguments.get("check_sparse_nnz"))
        options = Options(**chosen | {"masked": masked}).checked()
        return cls(
            arguments["eps"],
            Tolerance(arguments["atol"], arguments["rtol"]),
            arguments["max_inputs_per_var"],
            arguments["max_outputs_per_var"],
            options=options,
        ).checked()

    def checked(self) -> CheckPlan:
        """Return this plan if it is valid.

        Raises:
            GradcheckError: The step, a tolerance or a limit is invalid.
        """
        positive(self.eps)
        self.tolerance.checked()
        whole_number("gradcheck", "max_inputs_per_var", self.max_inputs)
        whole_number("gradcheck", "max_outputs_per_var", self.max_outputs)
        return self

    def settings(self) -> dict[str, Any]:
        """Return the plan as arguments of `gradcheck`."""
        return {
            "eps": self.eps,
            "atol": self.tolerance.atol,
            "rtol": self.tolerance.rtol,
            "max_inputs_per_var": self.max_inputs,
            "max_outputs_per_var": self.max_outputs,
            **asdict(self.options),
        }


def check_pairs_of(
    program: Program,
    pairs: Pairs,
    plan: CheckPlan,
    checkpoint: Checkpoint | None = None,
    compared: list[Comparison] | None = None,
    *,
    each: Callable[[PairResult], Any] | None = None,
) -> list[PairResult]:
    """Check each of `pairs`; see `CheckPlan` for how.

    The compared entries are appended to `compared`, for plots. `each` is called with every result as soon as
    it is available; the returned results may have more details, from comparison with each other.
    """
    if not pairs.chosen:
        return []
    began = time.perf_counter()
    work = _Check(program, pairs, plan, checkpoint)
    work.each = each
    work.run()
    if compared is not None:
        compared.extend(work.compared[pair] for pair in pairs.chosen if pair in work.compared)
    shared = (time.perf_counter() - began) / len(pairs.chosen)
    return note_swaps([replace(work.results[pair], seconds=shared) for pair in pairs.chosen])


class _Check:
    """The results of all pairs of one program, found by three routes."""

    def __init__(
        self, program: Program, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None
    ) -> None:
        self.program = program
        self.pairs = pairs
        self.check_plan = plan
        self.checkpoint = checkpoint
        self.nondeterministic = nondeterministic_pairs(program, pairs, plan.options.nondet_tol, checkpoint)
        self.patterns = self._patterns()
        self.results: dict[Pair, PairResult] = {}
        self.compared: dict[Pair, Comparison] = {}
        self.notes: dict[Pair, tuple[str, ...]] = {}
        self.each: Callable[[PairResult], Any] | None = None
        self.began = time.perf_counter()

    def run(self) -> None:
        """Check all pairs."""
        routes: dict[Route, list[Pair]] = {"sparse": [], "grid": [], "large": []}
        sparse = set(compressible(self.patterns, [p for p in self.pairs.chosen if p in self.patterns]))
        for pair in self.pairs.chosen:
            routes[self._route(pair, pair in sparse)].append(pair)
        for pair in self._sparse(routes["sparse"]):
            routes[self._route(pair, False)].append(pair)
        self._grids(routes["grid"])
        for pair in routes["large"]:
            self._keep(
                pair,
                *check_large(
                    self.program, *pair, self.check_plan, self.checkpoint, self.nondeterministic.get(pair, "")
                ),
            )

    def _patterns(self) -> dict[Pair, Pattern]:
        """Return the sparsity patterns of the pairs for which they matter."""
        options = self.check_plan.options
        if options.fast_mode or not (options.masked or any(self._is_big(p) for p in self.pairs.chosen)):
            return {}
        found = traced(self.program)
        if found is None:
            return {}
        return {pair: _restricted(found[pair], *pair) for pair in self.pairs.chosen if pair in found}

    def _is_big(self, pair: Pair) -> bool:
        source, target = pair
        return not self._is_limited and len(source.positions) * len(target.positions) > SMALL

    @property
    def _is_limited(self) -> bool:
        """True if only some entries were requested, and no combinations of all."""
        return not self.check_plan.dense and (
            self.check_plan.max_inputs > 0 or self.check_plan.max_outputs > 0
        )

    def _route(self, pair: Pair, is_sparse: bool) -> Route:
        options = self.check_plan.options
        rows, columns = len(pair[1].positions), len(pair[0].positions)
        if options.fast_mode:
            return "large"
        if is_sparse and not self._is_limited and (options.masked or rows * columns > SMALL):
            return "sparse"
        if self._is_limited:
            return "grid"
        runs, values = rows + 4 * columns, pair[0].size + pair[1].size
        if rows * columns <= SMALL or (rows * columns <= WHOLE and runs * values <= WORK):
            return "grid"
        return "large" if options.reference == "float64" else "grid"

    # -- routes ---------------------------------------------------------------------------------------

    def _sparse(self, chosen: list[Pair]) -> list[Pair]:
        """Check pairs by groups; return those of which the sparsity turned out to be incomplete."""
        if not chosen:
            return []
        work = SparseCheck(
            self.program, {pair: self.patterns[pair] for pair in chosen}, self.check_plan, self.checkpoint
        )
        for pair, judged in work.judged().items():
            difference = self.nondeterministic.get(pair, "")
            self._keep(pair, *sparse_result(judged, self.check_plan, self.checkpoint, difference))
        for pair, row in work.incomplete.items():
            del self.patterns[pair]
            source, target = pair
            self.notes[pair] = (
                f"{source.label} → {target.label}: {target.name} depends on more than was traced "
                f"(at flat index {row}), so the traced sparsity was not used",
            )
        return list(work.incomplete)

    def _grids(self, chosen: list[Pair]) -> None:
        pairs = Pairs(chosen)
        rows = {port: rows_of(port, self.check_plan) for port in pairs.outputs()}
        columns = {port: columns_of(port, self.check_plan) for port in pairs.inputs()}
        grids = compare_grids(self.program, pairs, rows, columns, self.check_plan, self.checkpoint)
        for pair, grid in zip(chosen, grids, strict=True):
            masked = self.check_plan.options.masked
            notes = self.notes.get(pair, ())
            if masked and pair not in self.patterns:
                notes += (f"{pair[0].label} → {pair[1].label}: masked=True left nothing out: "
                          "no sparsity could be traced",)  # fmt: skip
            found = grid_result(
                grid, self.check_plan, self.checkpoint,
                nondeterministic=self.nondeterministic.get(pair, ""), notes=notes,
                pattern=self.patterns.get(pair) if masked else None,
            )  # fmt: skip
            self._keep(pair, *found)

    def _keep(self, pair: Pair, compared: Comparison | None, result: PairResult) -> None:
        if compared is not None:
            self.compared[pair] = compared
        notes = (*self.notes.get(pair, ()), *result.notes)
        if self.check_plan.options.reference == "float32":
            notes += (
                f"{pair[0].label} → {pair[1].label}: compared with one float32 difference at "
                f"eps={self.check_plan.eps:g}, which has no error bar",
            )
        seconds = time.perf_counter() - self.began
        self.results[pair] = replace(result, notes=tuple(dict.fromkeys(notes)), seconds=seconds)
        if self.each is not None:
            self.each(self.results[pair])


def _restricted(pattern: Pattern, source: Port, target: Port) -> Pattern:
    if target.only is not None:
        pattern = pattern.only_rows(target.only)
    return pattern if source.only is None else pattern.only_columns(source.only)
