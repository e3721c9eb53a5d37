"""Detect programs with different results for the same values; their finite differences mean nothing."""

from __future__ import annotations

import numpy as np

from tapedebug.autograd.array_types import Checkpoint, Floats
from tapedebug.autograd.subjects.probes import random_directions
from tapedebug.autograd.subjects.program import Pairs, Port, Program


def nondeterministic_pairs(
    program: Program, pairs: Pairs, tolerance: float, checkpoint: Checkpoint | None = None
) -> dict[tuple[Port, Port], str]:
    """Run forward and backward twice, and return the pairs that differ, each with a description.

    Args:
        program: The program under check.
        pairs: The pairs whose outputs and gradients are compared.
        tolerance: The largest absolute difference that is ignored; `nondet_tol`.
        checkpoint: Called after each run.
    """
    found: dict[tuple[Port, Port], str] = {}
    first, second = program.evaluate({}, single=True), program.evaluate({}, single=True)
    for target in pairs.outputs():
        sources = [source for source, output in pairs.chosen if output is target]
        words = _differ(first[target], second[target], tolerance)
        if words:
            difference = f"two forward runs on the same values differ by {words} in {target.name}: "
            found.update({(s, target): f"{difference}no difference quotient means anything" for s in sources})
            continue
        seed = {target: random_directions(target.size, 1)[0]} if target.size else {}
        one, two = program.pull(seed), program.pull(seed)
        for source in sources:
            words = _differ(one[source], two[source], tolerance)
            if words:
                found[source, target] = (
                    f"two reverse passes on the same values differ by {words} "
                    f"in the gradient of {source.name}"
                )
        if checkpoint is not None:
            checkpoint()
    return found


def _differ(a: Floats, b: Floats, tolerance: float) -> str:
    """Return how far two runs differ, in words, relative to the largest value; empty if they do not."""
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= tolerance)
        if same.all():
            return ""
        difference = float(np.nan_to_num(np.abs(a - b), nan=np.inf)[~same].max())
    size = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return f"{difference / size:.1e} relative" if size else f"{difference:.1e}"
