"""Entries of Jacobians: columns from finite differences of the float64 twin, rows from the adjoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float32_slope import STEPS, fitted_slopes
from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.finite_diff.richardson import DerivativeEstimate, slopes
from tapedebug.autograd.finite_diff.verdict import Reference, Tolerance
from tapedebug.autograd.options import ReferenceKind
from tapedebug.autograd.subjects.probes import Probes
from tapedebug.autograd.subjects.program import Port, Program

AT_ONCE = 1 << 18
"""Number of matrix entries that one run works on: small enough for several matrices to fit in the cache."""


def sharp(values: Floats) -> Floats:
    """Return the target error bars of a Jacobian without tolerance: 1e-8 relative.

    Args:
        values: Derivatives, (…, m), one direction in each row.
    """
    finite = np.where(np.isfinite(values), np.abs(values), 0.0)
    bars: Floats = 1e-8 * np.abs(values) + 1e-10 * finite.max(axis=-1, keepdims=True, initial=0.0)
    return bars


def fine_for(tolerance: Tolerance) -> Callable[[Floats], Floats]:
    """Return the error bars that decide a check with `tolerance`: a twentieth of it."""

    def enough(values: Floats) -> Floats:
        sizes = np.abs(values)
        finite = np.where(np.isfinite(sizes), sizes, 0.0)
        largest = finite.max(axis=-1, keepdims=True, initial=0.0)
        return 0.05 * tolerance.of(values) + np.minimum(sharp(values), 0.1 * tolerance.of(largest))

    return enough


def references(
    program: Program,
    source: Port,
    targets: Sequence[Port],
    columns: Probes,
    rows: Mapping[Port, Probes],
    *,
    kind: ReferenceKind,
    eps: float,
    enough: Callable[[Floats], Floats] = sharp,
    checkpoint: Checkpoint | None = None,
) -> dict[Port, Reference]:
    """Return `differences`, or one central difference of the program itself if `kind` is "float32"."""
    if kind == "float64":
        return differences(
            program, source, targets, columns, rows, eps=eps, enough=enough, checkpoint=checkpoint
        )
    found: dict[Port, list[tuple[Floats, ...]]] = {target: [] for target in targets}
    for chosen in in_chunks(len(columns), source.size + sum(target.size for target in targets)):
        parts = plainly(program, source, columns.vectors(chosen), targets, eps, checkpoint)
        for target in targets:
            found[target].append(_columns(rows[target], parts[target]))
    return {target: _reference(found[target], rows[target], columns) for target in targets}


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
    """Return the Jacobians of `targets` with respect to `source`, from finite differences in float64.

    Args:
        program: The program to differentiate.
        source: The input that is displaced.
        targets: The outputs.
        columns: Directions in the input.
        rows: Directions in each output.
        eps: The largest step.
        enough: See `slope`.
        checkpoint: Called after each run.

    Returns:
        For each target, matrices of shape (len(rows), len(columns)).
    """
    found: dict[Port, list[tuple[Floats, ...]]] = {target: [] for target in targets}
    start = program.evaluate({})
    for chosen in in_chunks(len(columns), source.size + sum(target.size for target in targets)):
        directions = columns.vectors(chosen)
        parts = along(program, {source: directions}, targets, start, eps=eps, enough=enough, pulse=checkpoint)
        for target in targets:
            found[target].append(_columns(rows[target], parts[target]))
    return {target: _reference(found[target], rows[target], columns) for target in targets}


def along(
    program: Program,
    directions: Mapping[Port, Floats],
    targets: Sequence[Port],
    start: Mapping[Port, Floats],
    *,
    eps: float,
    enough: Callable[[Floats], Floats] = sharp,
    pulse: Checkpoint | None = None,
) -> dict[Port, DerivativeEstimate]:
    """Return derivatives along k directions from float64 differences; one run has all directions and signs.

    Args:
        program: The program to differentiate.
        directions: Directions in the inputs that are displaced together, (k, size) each.
        targets: The outputs.
        start: The outputs without displacement.
        eps: The largest step.
        enough: See `slope`.
        pulse: Called after each run.

    Returns:
        For each target, slopes of shape (k, size).
    """
    values = {port: program.values(port) for port in directions}

    def both(which: Indices, steps: Floats) -> tuple[Floats, Floats]:
        moved = {}
        for port, vectors in directions.items():
            offset = vectors[which] * steps[:, None]
            moved[port] = np.concatenate([values[port] + offset, values[port] - offset])
        found = program.evaluate_many(moved)
        if pulse is not None:
            pulse()
        joined = found[targets[0]] if len(targets) == 1 else np.concatenate([found[t] for t in targets], 1)
        return joined[: len(which)], joined[len(which) :]

    with np.errstate(all="ignore"):
        sizes = [
            np.where(vectors != 0, np.abs(values[port] / vectors), 0.0).max(axis=1, initial=0.0)
            for port, vectors in directions.items()
        ]
    at_zero = np.concatenate([start[target] for target in targets])
    if program.is_narrow:
        found = _of_float32(both, np.max(sizes, axis=0), len(at_zero))
    else:
        found = slopes(both, at_zero, eps=eps, magnitudes=np.max(sizes, axis=0), enough=enough)
    bounds = np.cumsum([0, *(target.size for target in targets)])
    return {
        target: DerivativeEstimate(
            found.value[:, low:high], found.bar[:, low:high],
            found.left[:, low:high], found.right[:, low:high], found.kink[:, low:high], found.evaluations,
        )
        for target, low, high in zip(targets, bounds[:-1], bounds[1:], strict=True)
    }  # fmt: skip


def _of_float32(
    both: Callable[[Indices, Floats], tuple[Floats, Floats]], magnitudes: Floats, width: int
) -> DerivativeEstimate:
    """Return derivatives of results that are rounded to float32 on their way; see `fitted_slopes`."""
    several = np.full((4, len(magnitudes), width), np.nan)
    kink = np.zeros((len(magnitudes), width), bool)
    for row, magnitude in enumerate(magnitudes):

        def at(step: float, row: int = row) -> Floats:
            found: Floats = both(np.array([row]), np.array([step]))[0][0]
            return found

        each = fitted_slopes(at, float(magnitude) or 1.0)
        several[:, row] = np.array([(f.value, f.error, f.left, f.right) for f in each]).T.reshape(4, width)
        kink[row] = [f.kink for f in each]
    value, bar, left, right = several
    return DerivativeEstimate(value, bar, left, right, kink, evaluations=7 * len(STEPS) * len(magnitudes))


def plainly(
    program: Program,
    source: Port,
    directions: Floats,
    targets: Sequence[Port],
    eps: float,
    pulse: Checkpoint | None = None,
) -> dict[Port, DerivativeEstimate]:
    """Return central differences of the program itself at one step: `(f(x + eps) - f(x - eps)) / (2 eps)`.

    Returns:
        For each target, slopes of shape (k, size), with an error bar of 0: none is known.
    """
    values, count = program.values(source), len(directions)
    moved = np.concatenate([values + eps * directions, values - eps * directions])
    found = program.evaluate_many({source: moved}, single=True)
    if pulse is not None:
        pulse()
    slopes = {}
    with np.errstate(all="ignore"):
        for target in targets:
            value = (found[target][:count] - found[target][count:]) / (2 * eps)
            none = np.zeros(value.shape)
            slopes[target] = DerivativeEstimate(value, none, value, value, none.astype(bool), 2 * count)
    return slopes


def in_chunks(count: int, width: int) -> Iterator[Indices]:
    """The numbers up to `count` in runs whose matrices of `width` columns are of bearable size."""
    step = max(1, AT_ONCE // max(1, width))
    for first in range(0, count, step):
        yield np.arange(first, min(first + step, count))


def _columns(rows: Probes, found: DerivativeEstimate) -> tuple[Floats, ...]:
    value, bar = rows.apply(found.value), rows.spread(found.bar)
    if not found.kink.any():
        return value, bar, value, value, np.zeros(value.shape)
    kink = rows.spread(found.kink.astype(np.float64))
    return value, bar, rows.apply(found.left), rows.apply(found.right), kink


def _reference(chunks: list[tuple[Floats, ...]], rows: Probes, columns: Probes) -> Reference:
    if not chunks:
        empty = np.zeros((len(rows), 0))
        return Reference(empty, empty, empty, empty, empty.astype(bool))
    value, bar, left, right, kink = (
        np.ascontiguousarray(np.concatenate(part).T) for part in zip(*chunks, strict=True)
    )
    if not kink.any():  # the usual case: one-sided slopes add nothing, and large Jacobians should fit
        left = right = value
    singles = np.abs(value[: len(rows.units), : len(columns.units)])
    largest = float(singles[np.isfinite(singles)].max(initial=0.0)) if singles.size else None
    return Reference(value, bar, left, right, kink > 0, largest)


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
        checkpoint: Called after each run.

    Returns:
        The rows for each source.
    """
    wanted = np.arange(len(rows)) if positions is None else np.asarray(positions)
    probes = {source: Probes.of(source) for source in sources} if columns is None else columns
    found = {
        source: Rows(np.empty((len(wanted), len(probes[source]))), np.empty(len(wanted)))
        for source in sources
    }
    for lines in in_chunks(len(wanted), target.size + sum(source.size for source in sources)):
        pulled = _pulled(program, target, rows.vectors(wanted[lines]), double, at)
        for source in sources:
            found[source].values[lines] = probes[source].apply(pulled[source])
            found[source].sizes[lines] = np.sqrt(np.mean(pulled[source] ** 2, axis=1))
        if checkpoint is not None:
            checkpoint()
    return found


def _pulled(
    program: Program, target: Port, seeds: Floats, double: bool, at: Mapping[Port, Floats] | None
) -> Mapping[Port, Floats]:
    if at is None:
        return program.pull_many({target: seeds}, double=double)
    each = [program.pull({target: seed}, at=at, double=double) for seed in seeds]
    return {port: np.stack([pulled[port] for pulled in each]) for port in program.inputs}
