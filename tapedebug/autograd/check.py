"""Compare the adjoint of a program with differences of its float64 twin, pair by pair."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from tapedebug.autograd.differences import Bools, Floats
from tapedebug.autograd.explain import explain_suspects
from tapedebug.autograd.matrix import Checkpoint, adjoints, differences, fine_for
from tapedebug.autograd.messages import describe
from tapedebug.autograd.probes import Probes, random_directions, seeds_of_all_kinds
from tapedebug.autograd.program import Pairs, Port, Program
from tapedebug.autograd.results import PairResult
from tapedebug.autograd.verdict import AGREE, SUSPECT, WRONG, Reference, Tolerance, judge

LARGEST = 1 << 23  # entries of one Jacobian that is evaluated whole (64 MiB as float64, several times)
SAMPLE = 256  # entries of a variable that are evaluated of a larger one
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
            result = _verdict(pair, random.get(target, 0.0), notes[source, target], plan, checkpoint)
            if result is None:
                whole = replace(plan, max_inputs=-1, max_outputs=-1, dense=0)
                [result] = check_pairs_of(program, Pairs([(source, target)]), whole, checkpoint)
            results[source, target] = result
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
    sampled = replace(plan, max_inputs=SAMPLE, max_outputs=SAMPLE, dense=max(2, plan.dense))
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
        difference = float(np.nanmax(np.abs(a - b), initial=0.0))
        size = float(np.nanmax(np.abs(a), initial=0.0))
        if difference > NOISE * size or not np.array_equal(np.isnan(a), np.isnan(b)):
            found[target] = difference / size if size else float("inf")
    return found


def _verdict(
    pair: Comparison, random: float, notes: tuple[str, ...], plan: Plan, checkpoint: Checkpoint | None
) -> PairResult | None:
    """The verdict; None where a random combination misses and no entry that was evaluated does."""
    codes = judge(pair.ad, pair.reference, pair.tolerance)
    if random:
        return describe(pair, codes, random=random, notes=notes)
    single = _singles(pair)
    # Strict where a miss can be followed up entry by entry.
    strict = plan.dense > 0 and pair.source.size * pair.target.size <= LARGEST
    codes[~single] = np.where(_missed(pair, strict=strict), SUSPECT, AGREE)[~single]
    rounding = np.zeros(codes.shape, dtype=bool)
    if (codes == SUSPECT).any():
        rounding = explain_suspects(pair, codes, checkpoint)
    wrong = codes == WRONG
    if strict and wrong.any() and not wrong[single].any():
        return None
    return describe(pair, codes, rounding=rounding, notes=notes)


def _singles(pair: Comparison) -> Bools:
    """Which entries of the compared matrix are single entries of the Jacobian."""
    single = np.zeros((len(pair.rows), len(pair.columns)), dtype=bool)
    single[: len(pair.rows.units), : len(pair.columns.units)] = True
    return single


def _missed(pair: Comparison, *, strict: bool) -> Bools:
    """Where AD misses FD by more than the entries in a combination are allowed.

    In the worst case their errors add up; `strict` expects them to be as random as the directions are.
    """
    left = _weights(pair.rows, strict)[:, None]
    right = _weights(pair.columns, strict)[None, :]
    with np.errstate(all="ignore"):
        error = np.abs(pair.ad - pair.reference.value) - pair.reference.bar
        size = pair.sizes[:, None] * right
        if not strict:
            size = np.maximum(size, np.abs(pair.reference.value))
        missed: Bools = (
            error > pair.tolerance.atol * left * right + pair.tolerance.rtol * size
        ) & ~pair.reference.kink
    return missed | np.isnan(pair.ad)


def _weights(probes: Probes, strict: bool) -> Floats:
    norm = np.linalg.norm(probes.dense, axis=1) if strict else np.abs(probes.dense).sum(axis=1)
    return np.concatenate([np.ones(len(probes.units)), norm])
