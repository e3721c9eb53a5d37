"""Compressed Jacobians: rows that share no column take one adjoint run together, columns one tangent run.

Two rows may share a seed if no column has entries in both: the sum of the two rows then shows each entry
separately (Curtis, Powell, Reid, J. Inst. Math. Appl. 13 (1974) 117, doi:10.1093/imamat/13.1.117). Finding
few such groups is a graph colouring; here it is greedy, in several orders. If some columns are dense, both
kinds of runs together can be fewer than either kind alone (Coleman, Verma, SIAM J. Sci. Comput. 19 (1998)
1210, doi:10.1137/S1064827595295349): an arrow matrix of any size takes three runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Floats, Indices, Values
from tapedebug.autograd.sparse._colouring_kernels import kernels
from tapedebug.autograd.sparse.pattern import Pattern
from tapedebug.runtime.launch.launch import launch

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel


By = Literal["rows", "columns", "fewest"]

WIDEST = 32
"""Words of 64 colours that a column may have; a Jacobian that needs more is not compressed."""


@dataclass(frozen=True, eq=False)
class Compression:
    """The runs that give all entries of a Jacobian, and the place of each entry in their results.

    Attributes:
        pattern: The possible entries.
        row_colours: (rows,) int64, the adjoint run of each row; -1 for none.
        column_colours: (columns,) int64, the tangent run (or difference) of each column; -1 for none.
        by_row: (entries,) bool, True for entries that are taken from an adjoint run.
    """

    pattern: Pattern
    row_colours: Indices
    column_colours: Indices
    by_row: Bools

    @cached_property
    def rows(self) -> int:
        """The number of adjoint runs."""
        return int(self.row_colours.max(initial=-1)) + 1

    @cached_property
    def columns(self) -> int:
        """The number of tangent runs, or of differences."""
        return int(self.column_colours.max(initial=-1)) + 1

    def __len__(self) -> int:
        return self.rows + self.columns

    @cached_property
    def seeds(self) -> Floats:
        """The adjoint seeds, (self.rows, rows of the Jacobian)."""
        return _indicators(self.row_colours, self.rows)

    @cached_property
    def directions(self) -> Floats:
        """The tangents, (self.columns, columns of the Jacobian)."""
        return _indicators(self.column_colours, self.columns)

    def values(self, pulled: Floats | None = None, pushed: Floats | None = None) -> Floats:
        """Return the entries from the results of the runs.

        Args:
            pulled: (self.rows, columns of the Jacobian), for `seeds`; required if there are any.
            pushed: (self.columns, rows of the Jacobian), for `directions`; likewise.

        Returns:
            (entries,) float64, in the order of `pattern`.
        """
        values = np.zeros(len(self.pattern))
        mine, in_pulled, in_pushed = self._picks
        for runs, where, places in ((pulled, mine, in_pulled), (pushed, ~mine, in_pushed)):
            if runs is None or not len(places):
                continue
            if len(places) == len(values):
                return runs.reshape(-1).take(places)
            values[where] = runs.reshape(-1).take(places)
        return values

    @cached_property
    def _picks(self) -> tuple[Bools, Indices, Indices]:
        """Return the place of each entry in the results of the runs: those by rows, and those by columns."""
        p, mine = self.pattern, self.by_row
        in_pulled = self.row_colours[p.rows[mine]] * p.shape[1] + p.columns[mine]
        return mine, in_pulled, self.column_colours[p.columns[~mine]] * p.shape[0] + p.rows[~mine]


def _indicators(colours: Indices, count: int) -> Floats:
    found = np.zeros((count, len(colours)))
    mine = np.flatnonzero(colours >= 0)
    found[colours[mine], mine] = 1.0
    return found


def compress(pattern: Pattern, by: By = "fewest") -> Compression:
    """Return the fewest runs that were found, cached with the pattern.

    Args:
        pattern: The possible entries.
        by: `"rows"`: adjoint runs alone. `"columns"`: tangent runs or differences alone. `"fewest"`: either,
            or both together, whichever are fewest; adjoint runs if all are equally many.

    Raises:
        ValueError: `by` is something else.
    """
    if by not in ("rows", "columns", "fewest"):
        raise ValueError(f"compress: by is 'rows', 'columns' or 'fewest', not {by!r}")
    if by not in pattern.cache:
        pattern.cache[by] = _compressed(pattern, by)
    found: Compression = pattern.cache[by]
    return found


def _compressed(pattern: Pattern, by: By) -> Compression:
    in_rows = np.bincount(pattern.rows, minlength=pattern.shape[0])
    in_columns = np.bincount(pattern.columns, minlength=pattern.shape[1])
    # The least that each way can take: a column needs one adjoint run for each of its entries. Of the densest
    # columns some may be left to tangent runs, so that this holds for the others only.
    least = {"rows": int(in_columns.max(initial=0)), "columns": int(in_rows.max(initial=0))}
    cut_columns, with_columns = _best_cut(in_columns)
    cut_rows, with_rows = _best_cut(in_rows)
    ways: dict[str, tuple[int, Callable[[], Compression]]] = {
        "rows": (least["rows"], lambda: _by_rows(pattern)),
        "columns": (least["columns"], lambda: _by_columns(pattern)),
        "dense columns apart": (with_columns, lambda: _mixed_colouring(pattern, columns=cut_columns)),
        "dense rows apart": (with_rows, lambda: _mixed_colouring(pattern, rows=cut_rows)),
    }
    if by != "fewest":
        return ways[by][1]()
    best: Compression | None = None
    for name, (least_runs, make) in sorted(ways.items(), key=lambda way: way[1][0]):
        # A mixture has to pay for being two: it is tried where it may save a quarter.
        if best is None or least_runs < (0.75 * len(best) if "apart" in name else len(best)):
            found = make()
            best = found if best is None or len(found) < len(best) else best
    assert best is not None
    return best


def _best_cut(counts: Indices) -> tuple[Indices, int]:
    """Return the rows (or columns) so dense that each gets its own run, and the smallest number of runs."""
    order = np.argsort(-counts, kind="stable")
    left = np.append(counts[order], 0)
    total = np.arange(len(left)) + left
    total[0] = left.max(initial=0) + 1  # to cut none is another way
    best = int(np.argmin(total))
    return np.sort(order[:best]), int(total[best])


def _by_rows(pattern: Pattern) -> Compression:
    colours = greedy_colouring(pattern.shape, pattern.rows, pattern.columns)
    none = np.full(pattern.shape[1], -1)
    return Compression(pattern, colours, none, np.ones(len(pattern), bool))


def _by_columns(pattern: Pattern) -> Compression:
    rows, columns, _ = transposed(pattern.rows, pattern.columns, pattern.shape[1])
    colours = greedy_colouring(pattern.shape[::-1], columns, rows)
    none = np.full(pattern.shape[0], -1)
    return Compression(pattern, none, colours, np.zeros(len(pattern), bool))


def _mixed_colouring(
    pattern: Pattern, *, rows: Indices | None = None, columns: Indices | None = None
) -> Compression:
    """Return a mixture: dense columns by tangent runs, the rest by adjoint runs; or dense rows vice versa."""
    by_row = np.ones(len(pattern), bool)
    if columns is not None:
        cut = np.zeros(pattern.shape[1], bool)
        cut[columns] = True
        by_row = ~cut[pattern.columns]
    elif rows is not None:
        cut = np.zeros(pattern.shape[0], bool)
        cut[rows] = True
        by_row = cut[pattern.rows]
    row_colours = greedy_colouring(pattern.shape, pattern.rows[by_row], pattern.columns[by_row])
    other_rows, other_columns, _ = transposed(
        pattern.rows[~by_row], pattern.columns[~by_row], pattern.shape[1]
    )
    column_colours = greedy_colouring(pattern.shape[::-1], other_columns, other_rows)
    return Compression(pattern, row_colours, column_colours, by_row)


def greedy_colouring(shape: tuple[int, int], rows: Indices, columns: Indices) -> Indices:
    """Return the colours of rows; rows of one colour have no column in common.

    Args:
        shape: Shape of the matrix.
        rows: Rows of its entries, sorted.
        columns: Columns of its entries.

    Returns:
        (rows,) int64; -1 for rows without entries.
    """
    counts = np.bincount(rows, minlength=shape[0])
    colours = _few(shape, rows, columns, counts)
    return np.where(counts > 0, colours, -1)


def _few(shape: tuple[int, int], rows: Indices, columns: Indices, counts: Indices) -> Indices:
    starts = np.concatenate([[0], np.cumsum(counts)])
    least = int(np.bincount(columns, minlength=1).max(initial=0))
    natural: Indices = np.maximum(np.cumsum(counts > 0) - 1, 0)
    if least > min(64 * WIDEST, shape[0] // 2):
        return natural
    best = natural
    for order in (np.arange(shape[0]), np.argsort(-counts, kind="stable")):
        colours = _painted(order, starts, columns, shape[1], least)
        if colours is not None and colours.max(initial=0) < best.max(initial=0):
            best = colours
        if best.max(initial=0) + 1 <= least:
            break
    return best


def _painted(order: Indices, starts: Indices, columns: Indices, count: int, least: int) -> Indices | None:
    """Return the greedy colouring in one order; None if it needs too many colours."""
    width = 1 + least // 48
    while width <= WIDEST:
        colours = np.full(len(starts) - 1, -1)
        used = np.zeros(max(1, count * width), np.uint64)
        _run(kernels()[0], order, starts, columns, width, used, colours)
        if not (colours < 0).any():
            return colours
        width *= 2
    return None


def transposed(rows: Indices, columns: Indices, count: int) -> tuple[Indices, Indices, Indices]:
    """Sort entries by columns that are sorted by rows.

    Returns:
        Rows, columns, and the position of each entry in the input.
    """
    sizes = np.bincount(columns, minlength=count)
    ends = np.cumsum(sizes) - sizes
    by_column, places = np.empty_like(rows), np.empty_like(rows)
    _run(kernels()[1], rows, columns, ends, by_column, places)
    return by_column, np.repeat(np.arange(count), sizes), places


def _run(kernel: Kernel, *args: int | Values) -> None:
    launch(kernel, dim=1, inputs=args, record_tape=False)
