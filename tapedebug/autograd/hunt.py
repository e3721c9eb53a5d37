"""Find the entry that is wrong in a Jacobian too large to look at: by halving.

A random combination of all entries misses; so does that of one half of the columns, and of one half of that,
down to
one column, and then to one row of it: 2 · log2(size) combinations instead of size entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.differences import Floats, slope
from tapedebug.autograd.matrix import Checkpoint, sharp
from tapedebug.autograd.probes import Indices

if TYPE_CHECKING:
    from tapedebug.autograd.check import Comparison


def hunt(
    pair: Comparison, row: int, column: int, eps: float, checkpoint: Checkpoint | None = None
) -> tuple[int, int]:
    """The entry (in the output, in the input) that contributes most to the miss of a combination.

    Args:
        pair: The pair.
        row: Which of `pair.rows`, a dense one.
        column: Which of `pair.columns`, a dense one.
        eps: The largest step.
        checkpoint: Called after each evaluation.
    """
    program, source, target = pair.program, pair.source, pair.target
    seed, direction = pair.rows.vector(row), pair.columns.vector(column)
    values = program.values(source)
    at_zero = program.evaluate({})[target]
    gradient = program.pull({target: seed})[source]

    def difference(along: Floats) -> Floats:
        moved = np.abs(values[along != 0] / along[along != 0]).max(initial=0.0)
        found = slope(
            lambda step: program.evaluate({source: values + step * along})[target],
            at_zero, eps=eps, magnitude=float(moved), enough=sharp,
        )  # fmt: skip
        if checkpoint is not None:
            checkpoint()
        return np.nan_to_num(found.value)

    def miss_of_columns(chosen: Indices) -> float:
        part = _part(direction, chosen)
        return abs(float(gradient @ part - seed @ difference(part)))

    worst_column = _halve(source.size, miss_of_columns)
    exact = difference(_part(np.ones(source.size), np.array([worst_column])))

    def miss_of_rows(chosen: Indices) -> float:
        part = _part(seed, chosen)
        if checkpoint is not None:
            checkpoint()
        return abs(float(program.pull({target: part})[source][worst_column] - part @ exact))

    return _halve(target.size, miss_of_rows), worst_column


def _part(vector: Floats, chosen: Indices) -> Floats:
    part = np.zeros(len(vector))
    part[chosen] = vector[chosen]
    return part


def _halve(size: int, miss: Callable[[Indices], float]) -> int:
    """The index whose half misses more, down to one."""
    chosen = np.arange(size)
    while len(chosen) > 1:
        left, right = np.array_split(chosen, 2)
        chosen = left if miss(left) >= miss(right) else right
    return int(chosen[0])
