"""Is a difference a wrong derivative, or what float32 does to a right one?

The adjoint's float64 twin is the same code with more digits. Where it agrees with the differences the
derivative is right, and the gradient in float32 is off by rounding, which the conditioning of the kernel
amplifies (at x = 1, one float32 step of x moves sin(1e4 x) by 1e-3). How much rounding can do is measured:
the twin's adjoint is evaluated at inputs that differ by one float32 rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.differences import Bools, Floats
from tapedebug.autograd.matrix import Checkpoint, adjoints
from tapedebug.autograd.program import Port
from tapedebug.autograd.verdict import AGREE, KINK, SUSPECT, UNDECIDABLE, WRONG, Codes

if TYPE_CHECKING:
    from tapedebug.autograd.check import Comparison

SAMPLES = 4
MARGIN = 4.0
MINOR = 0.01  # of the largest entry: rounding that is smaller is no reason to doubt a gradient
LOST = 1e-3  # relative error of a float32 forward value that tells of rounding inside the kernel


def explain_suspects(pair: Comparison, codes: Codes, checkpoint: Checkpoint | None = None) -> Bools:
    """Turn each SUSPECT of `codes` into AGREE, KINK, UNDECIDABLE or WRONG, in place.

    Returns:
        Where an entry agrees but for float32 rounding.
    """
    ad = pair.ad
    forgiven = np.zeros(codes.shape, dtype=bool)
    moved = _moved_inputs(pair)
    lost = _lost_digits(pair)
    excess = np.where(codes == SUSPECT, np.abs(ad - pair.reference.value), 0.0).max(axis=1)
    for line in np.argsort(-excess):
        suspect = codes[line] == SUSPECT
        if not suspect.any():
            continue
        verdict, rounding = _explain_row(pair, ad[line], int(line), moved, bool(lost[line]), checkpoint)
        codes[line] = np.where(suspect, verdict, codes[line])
        forgiven[line] = suspect & rounding
        if (codes[line] == WRONG).any():
            codes[codes == SUSPECT] = WRONG  # one wrong row is proof; the others are not worth the time
    return forgiven


def _explain_row(
    pair: Comparison,
    ad: Floats,
    line: int,
    moved: list[dict[Port, Floats]],
    lost: bool,
    checkpoint: Checkpoint | None,
) -> tuple[Codes, Bools]:
    def twin(at: dict[Port, Floats] | None) -> Floats:
        rows = adjoints(
            pair.program, pair.target, pair.rows, [pair.source], columns={pair.source: pair.columns},
            positions=[line], double=True, at=at, checkpoint=checkpoint,
        )  # fmt: skip
        values: Floats = rows[pair.source].values[0]
        return values

    with np.errstate(all="ignore"):
        value, bar = pair.reference.value[line], pair.reference.bar[line]
        allowed = pair.tolerance.of(value) + bar
        exact = twin(None)
        samples = np.stack([twin(at) for at in moved])
        floor = MARGIN * np.abs(samples - exact).max(axis=0)
        error = np.abs(ad - value)
        right = np.abs(exact - value) <= allowed
        explained = right & (error <= allowed + floor)
        minor = floor <= MINOR * pair.reference.scale
        crossed = (np.abs(samples - ad).min(axis=0) <= allowed) & ~minor
    verdict = np.full(ad.shape, WRONG, dtype=np.int8)
    verdict[explained] = UNDECIDABLE
    verdict[explained & crossed] = KINK
    verdict[explained & minor] = AGREE
    if lost:
        verdict[right & ~explained] = UNDECIDABLE
    return verdict, explained & minor


def _moved_inputs(pair: Comparison) -> list[dict[Port, Floats]]:
    """Inputs that differ from the recorded ones by one float32 rounding, at random."""
    rng = np.random.default_rng(0)
    return [
        {
            port: values * (1.0 + port.rounding * rng.choice([-1.0, 1.0], size=values.shape))
            for port in pair.program.inputs
            for values in [pair.program.values(port)]
        }
        for _ in range(SAMPLES)
    ]


def _lost_digits(pair: Comparison) -> Bools:
    """For each row: has the float32 forward value lost more digits than rounding of a sound kernel costs?"""
    single = pair.program.evaluate({}, single=True)[pair.target]
    double = pair.program.evaluate({})[pair.target]
    with np.errstate(all="ignore"):
        lost = ~(np.abs(single - double) <= LOST * np.abs(double))
    return pair.rows.spread(lost.astype(np.float64)) > 0
