"""Create a result from the judged entries of a sparse Jacobian; doubtful entries are checked again alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.array_types import Bools, Checkpoint, Floats, Indices
from tapedebug.autograd.checks.bias import systematic_note
from tapedebug.autograd.checks.entry_recheck import RecheckedEntries, recheck_entries
from tapedebug.autograd.checks.sparse_check import JudgedEntries
from tapedebug.autograd.finite_diff.bisect import bisect_entry
from tapedebug.autograd.finite_diff.comparison import SparseEntries
from tapedebug.autograd.finite_diff.verdict import AGREE, UNDECIDABLE, WRONG, Codes, Reference
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.results.messages import describe
from tapedebug.autograd.thresholds import (
    PATTERN_TOLERATED,
    ROUNDING_SPREAD,
    SUM_ROUNDING_FLOAT32,
    SUM_ROUNDING_FLOAT64,
)

if TYPE_CHECKING:
    from tapedebug.autograd.checks.adjoint_check import CheckPlan

AT_ONCE = 16  # doubtful entries whose rows and columns are evaluated in one go
BUDGET = 1 << 18  # outputs of that many columns, at most
ROUNDS = 8  # how often, until all of them turn out as they looked
LOOKS = 3  # columns that are looked into


def sparse_result(
    judged: JudgedEntries, plan: CheckPlan, checkpoint: Checkpoint | None, nondeterministic: str
) -> tuple[SparseEntries, PairResult]:
    """Return the comparison of one pair, and its result."""
    work = _Closer(judged, plan, checkpoint)
    if not nondeterministic:
        work.doubts()
        if not plan.options.masked:
            work.seeds()
    pair, codes = work.pair, work.codes
    notes = (*work.notes, *_left_out(judged)) if plan.options.masked else work.notes
    if (codes == AGREE).all() and not nondeterministic and plan.options.reference == "float64":
        notes += systematic_note(pair, codes, work.rounding, checkpoint)
    result = describe(pair, codes, nondeterministic=nondeterministic, rounding=work.rounding, notes=notes)
    zeros = len(pair.source.positions) * len(pair.target.positions) - int(pair.singles.sum()) - work.unknown
    return pair, replace(result, zeros=0 if plan.options.masked else zeros, groups=judged.groups)


def _left_out(judged: JudgedEntries) -> tuple[str, ...]:
    pair = judged.comparison
    left = len(pair.source.positions) * len(pair.target.positions) - len(pair.rows)
    return (
        f"{pair.source.label} → {pair.target.label}: {left} entries outside of the traced sparsity were left "
        "out (masked=True)",
    )


def _worst_of(excess: Floats) -> list[int]:
    """Return the columns with the largest excess, of those that have any."""
    order = np.argsort(-excess, kind="stable")[:LOOKS]
    return [int(column) for column in order if excess[column] > 0]


class _Closer:
    """The entries of a pair; entries that were evaluated again alone replace the others."""

    def __init__(self, judged: JudgedEntries, plan: CheckPlan, checkpoint: Checkpoint | None) -> None:
        self.judged = judged
        self.pair = judged.comparison
        self.codes = judged.codes.copy()
        self.rounding = judged.rounding
        self.check_plan = plan
        self.checkpoint = checkpoint
        self.notes: tuple[str, ...] = ()
        self.unknown = 0  # entries that were dropped
        self.left_out = np.zeros(self.pair.source.size, dtype=bool)  # columns with entries that were dropped

    def doubts(self) -> None:
        """Evaluate entries that do not agree alone, worst first, until no verdict improves."""
        seen = np.zeros(len(self.codes), dtype=bool)
        for _ in range(ROUNDS):
            chosen = self._worst(~seen)
            if not len(chosen):
                return
            before, gradients = self.codes[chosen], self.pair.ad[chosen]
            self._take(
                self._recheck(np.unique(self.pair.rows[chosen]), np.unique(self.pair.columns[chosen])), chosen
            )
            seen = np.concatenate([seen, np.ones(len(self.codes) - len(seen), dtype=bool)])
            seen[chosen] = True
            self._as_among_all(chosen, before, gradients)
            if (self.codes[chosen] >= before).all():
                if not np.allclose(self.pair.ad[chosen], gradients, rtol=1e-3, atol=0.0, equal_nan=True):
                    self._leave_out((self.codes != AGREE) & ~seen)
                return
        self.codes[(self.codes != AGREE) & ~seen] = UNDECIDABLE

    def _as_among_all(self, chosen: Indices, before: Codes, gradients: Floats) -> None:
        """Judge rounding and chaos from all entries together, which are more conclusive than single ones."""
        same = np.isclose(self.pair.ad[chosen], gradients, rtol=1e-3, atol=0.0)
        self.codes[chosen[same & (before == UNDECIDABLE) & (self.codes[chosen] == WRONG)]] = UNDECIDABLE

    def _leave_out(self, entries: Bools) -> None:
        """Drop entries known only in sums with others, to which the adjoint adds foreign terms."""
        if not entries.any():
            return
        pair, keep, count = self.pair, ~entries, int(entries.sum())
        self.notes += (
            f"{pair.source.label} → {pair.target.label}: {count} more entries are off in sums of "
            "several rows; they were not evaluated one by one",
        )
        self.pair = replace(
            pair, rows=pair.rows[keep], columns=pair.columns[keep], ad=pair.ad[keep],
            reference=pair.reference.part(keep),
        )  # fmt: skip
        self.codes, self.rounding = self.codes[keep], self.rounding[keep]
        self.left_out[pair.columns[entries]] = True
        self.unknown += count

    def _worst(self, among: Bools) -> Indices:
        with np.errstate(all="ignore"):
            error = np.abs(self.pair.ad - self.pair.reference.value)
        error = np.where(np.isnan(error), np.inf, error)
        doubtful = np.flatnonzero((self.codes != AGREE) & among)
        order = np.lexsort((-error[doubtful], -self.codes[doubtful]))
        most = max(4, min(AT_ONCE, BUDGET // self.pair.target.size))
        return doubtful[order[:most]]

    def _recheck(self, rows: Indices, columns: Indices) -> RecheckedEntries:
        pair = self.pair
        return recheck_entries(
            pair.program, pair.source, pair.target, rows, columns, self.check_plan, self.checkpoint
        )

    def _take(self, found: RecheckedEntries, chosen: Indices) -> None:
        """Replace the entries of `chosen`, and add wrong entries outside of the pattern."""
        grid, pair = found.grid, self.pair
        line = np.searchsorted(grid.rows.units, pair.rows[chosen])
        column = np.searchsorted(grid.columns.units, pair.columns[chosen])
        keys = pair.rows * np.int64(pair.source.size) + pair.columns
        lines, across = np.nonzero(found.codes == WRONG)
        places = grid.rows.units[lines] * np.int64(pair.source.size) + grid.columns.units[across]
        stray = ~np.isin(places, keys)
        if self.check_plan.options.masked:
            stray[:] = False
        where = np.concatenate([line, lines[stray]]), np.concatenate([column, across[stray]])
        slots = np.concatenate([chosen, len(keys) + np.arange(int(stray.sum()))])
        self._grow(grid.rows.units[lines[stray]], grid.columns.units[across[stray]])
        self._set(
            slots, grid.ad[where], grid.reference.part(where), found.codes[where], found.rounding[where]
        )

    def _grow(self, rows: Indices, columns: Indices) -> None:
        more = len(rows)
        if not more:
            return
        reference = self.pair.reference
        none = np.zeros(more)
        empty = Reference(none, none, none, none, none.astype(bool))
        self.pair = replace(
            self.pair,
            rows=np.concatenate([self.pair.rows, rows]),
            columns=np.concatenate([self.pair.columns, columns]),
            ad=np.concatenate([self.pair.ad, np.zeros(more)]),
            reference=reference.beside(empty),
        )
        self.codes = np.concatenate([self.codes, np.full(more, AGREE, dtype=np.int8)])
        self.rounding = np.concatenate([self.rounding, np.zeros(more, dtype=bool)])

    def _set(self, slots: Indices, ad: Floats, reference: Reference, codes: Codes, rounding: Bools) -> None:
        gradients, own, forgiven = self.pair.ad.copy(), self.pair.reference.copy(), self.rounding.copy()
        gradients[slots], self.codes[slots], forgiven[slots] = ad, codes, rounding
        own.put(slots, reference)
        self.pair = replace(self.pair, ad=gradients, reference=own)
        self.rounding = forgiven

    # -- seeds ----------------------------------------------------------------------------------------

    def seeds(self) -> None:
        """Check that adjoints of negative, large and small seeds are the sums of the entries."""
        judged, pair, known = self.judged, self.pair, self._agreeing_columns()
        exact = judged.exact
        for seed, pulled in zip(judged.seeds, judged.pulled_exact, strict=True):
            beside = self._excess(
                judged.comparison, seed, pulled, exact, SUM_ROUNDING_FLOAT64 * np.abs(exact), 0.0
            )
            for column in _worst_of(np.where(known, beside, -1.0)):
                if self._locate_wrong_row(seed, column):
                    return
        value = pair.reference.value
        stray = PATTERN_TOLERATED * pair.tolerance.atol
        with np.errstate(all="ignore"):
            margin = pair.tolerance.of(value) + pair.reference.bar
            # What rounding does to single entries it does to their sums.
            rounding = ROUNDING_SPREAD * np.abs(pair.ad - value) + SUM_ROUNDING_FLOAT32 * np.abs(value)
        for several, allowed in ((judged.pulled_exact, margin), (judged.pulled, margin + rounding)):
            for seed, pulled in zip(judged.seeds, several, strict=True):
                beyond = self._excess(pair, seed, pulled, value, allowed, stray)
                for column in _worst_of(np.where(known, beyond, -1.0))[:1]:
                    mine = pair.columns == column
                    expected = float(seed[pair.rows[mine]] @ value[mine])
                    self._combination(float(pulled[column]), expected)
                    return

    def _agreeing_columns(self) -> Bools:
        """Return the requested columns without an entry that already has a finding."""
        size = self.pair.source.size
        known = ~self.left_out
        known[self.pair.columns[self.codes != AGREE]] = False
        if self.pair.source.only is not None:
            inside = np.zeros(size, dtype=bool)
            inside[self.pair.source.only] = True
            known &= inside
        return known

    @staticmethod
    def _excess(
        pair: SparseEntries, seed: Floats, pulled: Floats, entries: Floats, margin: Floats, stray: float
    ) -> Floats:
        """Return for each column how far a seed's adjoint exceeds what `entries` and margins allow."""
        size = pair.source.size
        weights = seed[pair.rows]
        with np.errstate(all="ignore"):
            expected = np.bincount(pair.columns, weights=entries * weights, minlength=size)
            allowed = np.bincount(pair.columns, weights=margin * np.abs(weights), minlength=size)
            least = float(np.abs(seed[seed != 0]).min(initial=np.inf)) if stray else 0.0
            error = np.abs(pulled - expected) - stray * least
        missed = ~(error <= allowed) & np.isfinite(expected)
        return np.where(missed, np.where(np.isnan(error), np.inf, error), -1.0)

    def _locate_wrong_row(self, seed: Floats, column: int) -> bool:
        """Find the row that makes the adjoint of a seed wrong in a column; True if its entry is wrong too."""
        judged, pair = self.judged, self.judged.comparison
        mine = pair.columns == column
        exact = np.zeros(pair.target.size)
        exact[pair.rows[mine]] = judged.exact[mine]

        def misses(parts: Floats) -> Floats:
            if self.checkpoint is not None:
                self.checkpoint()
            pulled = pair.program.pull_many({pair.target: parts}, double=True)[pair.source]
            return np.abs(pulled[:, column] - parts @ exact)

        row = bisect_entry(seed, misses)
        found = self._recheck(np.array([row]), np.array([column]))
        if (found.codes == AGREE).all():
            return False
        self._take(found, np.flatnonzero((self.pair.columns == column) & (self.pair.rows == row)))
        return True

    def _combination(self, pulled: float, expected: float) -> None:
        """Add a pseudo-entry for seeds whose adjoint is wrong although all single entries agree."""
        nowhere = np.array([-1])
        self._grow(nowhere, nowhere)
        slots = np.array([len(self.codes) - 1])
        one = np.array([expected])
        value = Reference(one, np.zeros(1), one, one, np.zeros(1, dtype=bool))
        self._set(slots, np.array([pulled]), value, np.array([WRONG], dtype=np.int8), np.zeros(1, dtype=bool))
