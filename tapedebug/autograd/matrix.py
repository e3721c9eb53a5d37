"""Jacobians entry by entry: columns by differences of the float64 twin, rows by the adjoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tapedebug.autograd.differences import Floats, Slope, slope
from tapedebug.autograd.probes import Probes
from tapedebug.autograd.program import Port, Program
from tapedebug.autograd.verdict import Reference, Tolerance

Checkpoint = Callable[[], None]
"""Called between evaluations: may raise to cancel, may report progress."""


def sharp(values: Floats) -> Floats:
    """Error bars that a Jacobian by differences aims at where no tolerance was given: 1e-8 relative."""
    finite = np.abs(values[np.isfinite(values)])
    return 1e-8 * np.abs(values) + 1e-10 * float(finite.max(initial=0.0))


def fine_for(tolerance: Tolerance) -> Callable[[Floats], Floats]:
    """Error bars that decide a check with `tolerance`: a twentieth of it."""

    def enough(values: Floats) -> Floats:
        return 0.05 * tolerance.of(values) + sharp(values)

    return enough


def differences(
    program: Program,
    source: Port,
    targets: Sequence[Port],
    columns: Probes,
    rows: Mapping[Port, Probes],
    *,
    eps: float,
    enough: Callable[[Floats], Floats] = sharp,
    checkpoint: Checkpoint | None = None,
) -> dict[Port, Reference]:
    """The Jacobians of `targets` with respect to `source`, by differences in float64.

    Args:
        program: What to differentiate.
        source: The input that is displaced.
        targets: The outputs.
        columns: Directions in the input.
        rows: Directions in each output.
        eps: The largest step.
        enough: See `slope`.
        checkpoint: Called after each column.

    Returns:
        For each target, matrices of shape (len(rows), len(columns)).
    """
    values = program.values(source)
    start = _joined(program.evaluate({}), targets)
    found: dict[Port, list[list[Floats]]] = {target: [] for target in targets}
    bounds = np.cumsum([0, *(target.size for target in targets)])
    for position in range(len(columns)):
        direction = columns.vector(position)
        along = direction != 0

        def displaced(step: float, direction: Floats = direction) -> Floats:
            return _joined(program.evaluate({source: values + step * direction}), targets)

        magnitude = float(np.abs(values[along] / direction[along]).max(initial=0.0))
        found_slope = slope(displaced, start, eps=eps, magnitude=magnitude, enough=enough)
        for target, low, high in zip(targets, bounds[:-1], bounds[1:], strict=True):
            found[target].append(_column(rows[target], found_slope, slice(low, high)))
        if checkpoint is not None:
            checkpoint()
    return {target: _reference(found[target], len(rows[target])) for target in targets}


def _joined(values: Mapping[Port, Floats], ports: Sequence[Port]) -> Floats:
    return np.concatenate([values[port] for port in ports]) if ports else np.zeros(0)


def _column(rows: Probes, found: Slope, part: slice) -> list[Floats]:
    value, bar = rows.apply(found.value[part]), rows.spread(found.bar[part])
    if not found.kink[part].any():
        return [value, bar, value, value, np.zeros(len(rows))]
    kink = rows.spread(found.kink[part].astype(np.float64))
    return [value, bar, rows.apply(found.left[part]), rows.apply(found.right[part]), kink]


def _reference(columns: list[list[Floats]], rows: int) -> Reference:
    if not columns:
        empty = np.zeros((rows, 0))
        return Reference(empty, empty, empty, empty, empty.astype(bool))
    parts = list(zip(*columns, strict=True))
    value, bar = np.stack(parts[0], axis=1), np.stack(parts[1], axis=1)
    kink = np.stack(parts[4], axis=1) > 0
    if not kink.any():  # the usual case: one-sided slopes add nothing, and large Jacobians should fit
        return Reference(value, bar, value, value, kink)
    return Reference(value, bar, np.stack(parts[2], axis=1), np.stack(parts[3], axis=1), kink)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a Jacobian, perhaps of combinations of its columns only.

    Attributes:
        values: (rows, columns) float64.
        sizes: (rows,), the root mean square of each whole row.
    """

    values: Floats
    sizes: Floats


def adjoints(
    program: Program,
    target: Port,
    rows: Probes,
    sources: Sequence[Port],
    *,
    columns: Mapping[Port, Probes] | None = None,
    positions: Sequence[int] | None = None,
    double: bool = False,
    at: Mapping[Port, Floats] | None = None,
    checkpoint: Checkpoint | None = None,
) -> dict[Port, Rows]:
    """Rows of the Jacobians of `target`, by the adjoint.

    Args:
        program: What to differentiate.
        target: The output.
        rows: Adjoint seeds.
        sources: The inputs.
        columns: Directions in each input; its entries where None.
        positions: Which of `rows`; all of them where None.
        double: By the float64 twin of the adjoint.
        at: Inputs to replace before.
        checkpoint: Called after each row.

    Returns:
        The rows for each source.
    """
    chosen = range(len(rows)) if positions is None else positions
    probes = {source: Probes.of(source.size) for source in sources} if columns is None else columns
    found = {
        source: Rows(np.empty((len(chosen), len(probes[source]))), np.empty(len(chosen)))
        for source in sources
    }
    for line, position in enumerate(chosen):
        pulled = program.pull({target: rows.vector(position)}, at=at, double=double)
        for source in sources:
            found[source].values[line] = probes[source].apply(pulled[source])
            found[source].sizes[line] = np.sqrt(np.mean(pulled[source] ** 2))
        if checkpoint is not None:
            checkpoint()
    return found
