"""Compare the adjoint of a program with differences of its float64 twin, pair by pair."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from tapedebug.autograd.differences import Bools, Floats
from tapedebug.autograd.explain import explain_suspects
from tapedebug.autograd.hunt import hunt
from tapedebug.autograd.matrix import Checkpoint, adjoints, differences, fine_for
from tapedebug.autograd.messages import describe
from tapedebug.autograd.probes import Probes, random_directions, seeds_of_all_kinds
from tapedebug.autograd.program import Pairs, Port, Program
from tapedebug.autograd.results import PairResult
from tapedebug.autograd.verdict import AGREE, SUSPECT, WRONG, Reference, Tolerance, judge

LARGEST = 1 << 23  # entries of one Jacobian that is evaluated whole (64 MiB as float64, several times)
SAMPLE = 256  # entries of a variable that are evaluated of a larger one
FEWEST = 16  # of one so large that each evaluation takes its time
ROUNDING = 1e-4  # relative difference of a combination of entries from which on it is looked into
NOISE = 1e-5  # relative difference between two runs that rounding in another order does not explain


@dataclass(frozen=True)
class Plan:
    """How to check: see `gradcheck`."""

    eps: float
    tolerance: Tolerance
    max_inputs: int = -1
    max_outputs: int = -1
    dense: int = (
        0  # random directions in each input and output; where one of them misses, all entries are evaluated
    )


def check_pairs_of(
    program: Program,
    pairs: Pairs,
    plan: Plan,
    checkpoint: Checkpoint | None = None,
    kept: list[Comparison] | None = None,
) -> list[PairResult]:
    """Check each of `pairs`; see `Plan` for how. The compared matrices are appended to `kept`, for plots."""
    began = time.perf_counter()
    rows = {port: _rows(port, plan) for port in pairs.outputs()}
    columns = {port: _columns(program, port, plan) for port in pairs.inputs()}
    notes = {pair: _shrink(program, pair, plan, rows, columns) for pair in pairs.chosen}
    random = _random_outputs(program, pairs.outputs())
    references: dict[tuple[Port, Port], Reference] = {}
    for source in pairs.inputs():
        targets = pairs.outputs(source)
        found = differences(
            program, source, targets, columns[source], rows,
            eps=plan.eps, enough=fine_for(plan.tolerance), checkpoint=checkpoint,
        )  # fmt: skip
        references.update({(source, target): reference for target, reference in found.items()})
    results: dict[tuple[Port, Port], PairResult] = {}
    for target in pairs.outputs():
        sources = [i for i, o in pairs.chosen if o is target]
        pulled = adjoints(program, target, rows[target], sources, columns=columns, checkpoint=checkpoint)
        for source in sources:
            pair = Comparison(
                program, source, target, rows[target], columns[source],
                pulled[source].values, pulled[source].sizes, references[source, target], plan.tolerance,
            )  # fmt: skip
            if kept is not None:
                kept.append(pair)
            noise, note = random.get(target, 0.0), notes[source, target]
            results[source, target] = _verdict(pair, noise, note, plan, checkpoint)
    each = (time.perf_counter() - began) / max(1, len(results))
    return [replace(results[pair], seconds=each) for pair in pairs.chosen]


@dataclass(frozen=True)
class Comparison:
    """One pair of an input and an output.

    Attributes:
        program: What is differentiated.
        source: The input.
        target: The output.
        rows: Directions in the output.
        columns: Directions in the input.
        ad: The adjoint's side of the compared matrix, (rows, columns).
        sizes: (rows,), the root mean square of whole rows of the adjoint's side.
        reference: The differences' side.
        tolerance: What was given.
    """

    program: Program
    source: Port
    target: Port
    rows: Probes
    columns: Probes
    ad: Floats
    sizes: Floats
    reference: Reference
    tolerance: Tolerance


def _rows(port: Port, plan: Plan) -> Probes:
    # Seeds that are not unit vectors find adjoints that are wrong for negative or for large seeds only.
    dense = [seeds_of_all_kinds(port.size)] if port.size else []
    if plan.dense and port.size > 1:
        dense.append(random_directions(port.size, plan.dense))
    return Probes.of(port.size, plan.max_outputs, np.concatenate(dense) if dense else None)


def _columns(program: Program, port: Port, plan: Plan) -> Probes:
    if not plan.dense or port.size < 2:
        return Probes.of(port.size, plan.max_inputs)
    size = np.abs(program.values(port))
    typical = float(np.sqrt(np.mean(size**2))) or 1.0
    return Probes.of(
        port.size, plan.max_inputs, random_directions(port.size, plan.dense, np.maximum(size, 0.01 * typical))
    )


def _shrink(
    program: Program,
    pair: tuple[Port, Port],
    plan: Plan,
    rows: dict[Port, Probes],
    columns: dict[Port, Probes],
) -> tuple[str, ...]:
    """Sample where a Jacobian would not fit, with combinations of all entries beside; say so."""
    source, target = pair
    if len(rows[target]) * len(columns[source]) <= LARGEST:
        return ()
    limit = max(FEWEST, min(SAMPLE, LARGEST // max(source.size, target.size)))
    sampled = replace(plan, max_inputs=limit, max_outputs=limit, dense=max(2, plan.dense))
    rows[target], columns[source] = _rows(target, sampled), _columns(program, source, sampled)
    return (
        f"{source.name} → {target.name}: the Jacobian of {target.size} × {source.size} entries is too large "
        f"to evaluate whole; {len(rows[target].units)} × {len(columns[source].units)} of them were, "
        "and random combinations of all",
    )


def _random_outputs(program: Program, targets: list[Port]) -> dict[Port, float]:
    """Outputs that differ between two runs on the same values, with their largest relative difference."""
    first, second = program.evaluate({}, single=True), program.evaluate({}, single=True)
    found = {}
    for target in targets:
        a, b = first[target], second[target]
        differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
        if not differ.any():
            continue
        with np.errstate(all="ignore"):
            difference = float(np.abs(a - b)[differ].max())
        size = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
        if not difference <= NOISE * size:
            found[target] = difference / size if size else float("inf")
    return found


def _verdict(
    pair: Comparison, random: float, notes: tuple[str, ...], plan: Plan, checkpoint: Checkpoint | None
) -> PairResult:
    codes = judge(pair.ad, pair.reference, pair.tolerance)
    if random:
        return describe(pair, codes, random=random, notes=notes)
    single = _singles(pair)
    codes[~single] = np.where(_missed(pair), SUSPECT, AGREE)[~single]
    rounding = np.zeros(codes.shape, dtype=bool)
    if (codes == SUSPECT).any():
        rounding = explain_suspects(pair, codes, checkpoint)
    result = describe(pair, codes, rounding=rounding, notes=notes)
    if len(pair.columns.dense) and not (codes[single] == WRONG).any() and _differ(pair).any():
        return _follow_up(pair, plan, result, checkpoint)
    return result


def _follow_up(
    pair: Comparison, plan: Plan, sampled: PairResult, checkpoint: Checkpoint | None
) -> PairResult:
    """Combinations differ, single entries do not: evaluate all or, of too many, the one that differs most."""
    program, source, target = pair.program, pair.source, pair.target
    if source.size * target.size <= LARGEST:
        whole = replace(plan, max_inputs=-1, max_outputs=-1, dense=0)
        return check_pairs_of(program, Pairs([(source, target)]), whole, checkpoint)[0]
    first_row, first_column = len(pair.rows.units), len(pair.columns.units)
    excess = np.where(_differ(pair), np.abs(pair.ad - pair.reference.value), -1.0)[first_row:, first_column:]
    row, column = np.unravel_index(int(np.argmax(excess)), excess.shape)
    output, input = hunt(pair, first_row + int(row), first_column + int(column), plan.eps, checkpoint)
    rows, columns = Probes.single(target.size, output), Probes.single(source.size, input)
    found = differences(
        program, source, [target], columns, {target: rows}, eps=plan.eps, enough=fine_for(plan.tolerance)
    )[target]
    ad = adjoints(program, target, rows, [source], columns={source: columns})[source]
    entry = replace(pair, rows=rows, columns=columns, ad=ad.values, sizes=ad.sizes, reference=found)
    codes = judge(entry.ad, found, plan.tolerance)
    if (codes == SUSPECT).any():
        explain_suspects(entry, codes, checkpoint)
    if (codes != WRONG).all():
        return sampled
    result = describe(entry, codes, notes=sampled.notes)
    return replace(result, evaluated=sampled.evaluated + 1)


def _singles(pair: Comparison) -> Bools:
    """Which entries of the compared matrix are single entries of the Jacobian."""
    single = np.zeros((len(pair.rows), len(pair.columns)), dtype=bool)
    single[: len(pair.rows.units), : len(pair.columns.units)] = True
    return single


def _missed(pair: Comparison) -> Bools:
    """Where AD misses FD by more than entries that are all within tolerance can add up to."""
    left = _weights(pair.rows, 1)[:, None]
    right = _weights(pair.columns, 1)[None, :]
    with np.errstate(all="ignore"):
        error = np.abs(pair.ad - pair.reference.value) - pair.reference.bar
        size = np.maximum(pair.sizes[:, None] * right, np.abs(pair.reference.value))
        missed: Bools = error > pair.tolerance.atol * left * right + pair.tolerance.rtol * size
    return (missed & ~pair.reference.kink) | np.isnan(pair.ad)


def _differ(pair: Comparison) -> Bools:
    """Combinations of inputs in which AD differs from FD by more than float32 rounding."""
    right = _weights(pair.columns, 2)[None, :]
    with np.errstate(all="ignore"):
        error = np.abs(pair.ad - pair.reference.value) - pair.reference.bar
        differ: Bools = (error > ROUNDING * pair.sizes[:, None] * right) & ~pair.reference.kink
    differ[: len(pair.rows.units)] = False
    differ[:, : len(pair.columns.units)] = False
    return differ


def _weights(probes: Probes, order: int) -> Floats:
    norms = np.linalg.norm(probes.dense, ord=order, axis=1) if len(probes.dense) else np.zeros(0)
    return np.concatenate([np.ones(len(probes.units)), norms])
