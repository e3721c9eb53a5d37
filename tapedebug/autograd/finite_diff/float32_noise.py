"""Distinguishes a wrong derivative from the float32 rounding of a right one.

The adjoint's float64 twin is the same code with more digits. If it agrees with the finite differences, the
derivative is right, and the float32 gradient is off by rounding that the conditioning of the kernel amplifies
(at x = 1, one float32 step of x moves sin(1e4 x) by 1e-3). The effect of rounding is measured in four ways:
the twin's adjoint is evaluated at inputs that differ by one float32 rounding; it is evaluated with each
result rounded as much as in float32; the gradient is computed with scaled seeds (a reverse pass is linear in
them, so only rounding scatters, while a wrong factor or term stays equally wrong); and the float32 gradient
is evaluated at the displaced inputs, where it is rounded differently.

A few samples of rounding may all lie on one side by chance, and among thousands of entries of a chaotic map,
some do. Therefore no entry is called WRONG before `MORE` further samples: a chance of one in two each time is
then one in a million.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Bools, Checkpoint, Floats
from tapedebug.autograd.finite_diff.comparison import EntryGrid
from tapedebug.autograd.finite_diff.jacobian_entries import adjoints
from tapedebug.autograd.finite_diff.verdict import (
    AGREE,
    KINK,
    SUSPECT,
    UNDECIDABLE,
    WRONG,
    Codes,
    Reference,
    Tolerance,
)
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.thresholds import (
    FORWARD_DIGITS_LOST,
    ROUNDED_PER_WRONG,
    ROUNDING_MARGIN,
    ROUNDING_MINOR,
    ROUNDING_SPREAD,
)

SAMPLES = 4
MORE = 16  # further samples before an entry is called WRONG
SCALES = (3.0, 0.7, 1.3)  # no powers of two: those round the same


@dataclass(frozen=True)
class RoundingEvidence:
    """The evidence from the float64 twin on some entries; arrays have the entries' shape, (s, …) or (…).

    Attributes:
        exact: The twin's adjoint.
        moved: (samples, …), the twin's adjoint at inputs that differ by one rounding.
        single: (samples, …), the float32 gradient at those inputs.
        scaled: (len(SCALES), …), the float32 gradient with scaled seeds, scaled back.
        rounded: (len(SCALES), …), the twin's adjoint with rounded results and scaled seeds, scaled back.
        lost: bool, True if the forward value has lost more digits than rounding costs a sound kernel.
        rounding: The relative spacing of the gradient's floating-point numbers.
    """

    exact: Floats
    moved: Floats
    single: Floats
    scaled: Floats
    rounded: Floats
    lost: Bools
    rounding: float

    def beside(self, moved: Floats, single: Floats) -> RoundingEvidence:
        """Return the evidence with further samples."""
        return replace(
            self,
            moved=np.concatenate([self.moved, moved]),
            single=np.concatenate([self.single, single]),
        )


def minor_of(tolerance: Tolerance, scale: float) -> float:
    """Return the error that rounding may cause in an entry that agrees, given the largest entry.

    An optimiser uses only sums of a Jacobian's entries, and a sum is as exact as its largest entries, so much
    smaller entries need not be as exact. Rounding may therefore cause an error up to the tolerance of the
    largest entry, and no more. An `rtol` finer than the default (`ROUNDING_MINOR`) requires digits that
    float32 has only in well-conditioned kernels; lacking them is not an error of the adjoint.
    """
    return tolerance.atol + max(tolerance.rtol, ROUNDING_MINOR) * scale


def classify(
    ad: Floats, reference: Reference, tolerance: Tolerance, found: RoundingEvidence, scale: float
) -> tuple[Codes, Bools]:
    """Judge entries that miss their tolerance: AGREE, KINK, UNDECIDABLE or WRONG.

    Args:
        ad: The float32 gradient.
        reference: The reference of the same entries.
        tolerance: The tolerances of the check.
        found: The evidence from the float64 twin.
        scale: The largest entry of the Jacobian.

    Returns:
        The verdicts, and True for entries that agree except for float32 rounding.
    """
    with np.errstate(all="ignore"):
        value = reference.value
        allowed = tolerance.of(value) + reference.bar
        moved = np.abs(found.moved - found.exact).max(axis=0)
        alike = np.abs(found.single - ad).max(axis=0)
        scatter = np.abs(found.scaled - ad).max(axis=0) + np.abs(found.rounded - found.exact).max(axis=0)
        floor = (
            ROUNDING_MARGIN * np.maximum(moved, alike)
            + ROUNDING_SPREAD * scatter
            + ROUNDING_MARGIN * found.rounding * np.abs(found.exact)
        )
        error = np.abs(ad - value)
        right = np.abs(found.exact - value) <= allowed
        explained = right & (error <= allowed + floor)
        minor = error <= minor_of(tolerance, scale)
        chaotic = _chaotic(np.abs(found.exact), np.abs(found.exact - value), moved, ~right)
        crossed = (np.abs(found.moved - ad).min(axis=0) <= allowed) & ~minor
    verdict = np.full(ad.shape, WRONG, dtype=np.int8)
    verdict[explained] = UNDECIDABLE
    verdict[explained & crossed] = KINK
    verdict[explained & minor] = AGREE
    verdict[right & ~explained & found.lost] = UNDECIDABLE
    beyond, within = right & ~explained & np.isfinite(ad), explained & (error > allowed)
    if (
        ROUNDED_PER_WRONG * beyond.sum() <= within.sum()
    ):  # all are sums of the same roundings: some lie at the end
        verdict[beyond] = UNDECIDABLE
    verdict[chaotic & np.isfinite(ad)] = UNDECIDABLE
    return verdict, explained & minor


def _chaotic(exact: Floats, off: Floats, moved: Floats, among: Bools) -> Bools:
    """True where the derivative changes completely within one rounding: no difference can resolve it."""
    chaotic: Bools = among & (moved > 0.1 * exact) & (off <= 20 * moved)
    if 2 * chaotic.sum() > among.sum():  # the others are so by chance: there is one map
        chaotic |= among & (moved > 0.001 * exact)
    return chaotic


def explain_suspects(pair: EntryGrid, codes: Codes, checkpoint: Checkpoint | None = None) -> Bools:
    """Turn each SUSPECT of `codes` into AGREE, KINK, UNDECIDABLE or WRONG, in place.

    Returns:
        True for entries that agree except for float32 rounding.
    """
    forgiven = np.zeros(codes.shape, dtype=bool)
    moved = moved_inputs(pair.program)
    lost = pair.rows.spread(lost_digits(pair.program, pair.target).astype(np.float64)) > 0
    excess = np.where(codes == SUSPECT, np.abs(pair.ad - pair.reference.value), 0.0).max(axis=1)
    scale = pair.reference.scale
    for line in np.argsort(-excess):
        suspect = codes[line] == SUSPECT
        if not suspect.any():
            continue
        found = _row(pair, int(line), moved, bool(lost[line]), checkpoint)
        given = pair.ad[line], pair.reference.part(line), pair.tolerance
        verdict, rounding = classify(*given, found, scale)
        if (verdict[suspect] == WRONG).any():
            found = found.beside(*_samples(pair, int(line), further_inputs(pair.program), checkpoint))
            verdict, rounding = classify(*given, found, scale)
        codes[line] = np.where(suspect, verdict, codes[line])
        forgiven[line] = suspect & rounding
        if (codes[line] == WRONG).any():
            codes[codes == SUSPECT] = WRONG  # one wrong row is proof; the others are not worth the time
    return forgiven


def _adjoint(
    pair: EntryGrid, line: int, at: dict[Port, Floats] | None, double: bool, checkpoint: Checkpoint | None
) -> Floats:
    rows = adjoints(
        pair.program, pair.target, pair.rows, [pair.source], columns={pair.source: pair.columns},
        positions=[line], double=double, at=at, checkpoint=checkpoint,
    )  # fmt: skip
    values: Floats = rows[pair.source].values[0]
    return values


def _samples(
    pair: EntryGrid, line: int, moved: list[dict[Port, Floats]], checkpoint: Checkpoint | None
) -> tuple[Floats, Floats]:
    """Return a row at inputs that differ by one rounding, from the twin and in float32."""
    both = [
        np.stack([_adjoint(pair, line, at, double, checkpoint) for at in moved]) for double in (True, False)
    ]
    return both[0], both[1]


def _row(
    pair: EntryGrid, line: int, moved: list[dict[Port, Floats]], lost: bool, checkpoint: Checkpoint | None
) -> RoundingEvidence:
    exact = _adjoint(pair, line, None, True, checkpoint)
    samples, single = _samples(pair, line, moved, checkpoint)
    scaled, rounded = (
        pair.columns.apply(pulls[pair.source])
        for pulls in scaled_pulls(pair.program, pair.target, pair.rows.vector(line))
    )
    return RoundingEvidence(
        exact, samples, single, scaled, rounded, np.full(exact.shape, lost), pair.source.rounding
    )


def scaled_pulls(program: Program, target: Port, seed: Floats) -> tuple[dict[Port, Floats], ...]:
    """Return gradients for a scaled seed, scaled back: (len(SCALES), size) for each input.

    Returns:
        The float32 gradients, and those of the twin with rounded results.
    """
    factors = np.array(SCALES)[:, None]
    pulled = program.pull_many({target: factors * seed})
    rounded = [program.pull_rounded({target: factor * seed}) for factor in SCALES]
    stacked = {port: np.stack([each[port] for each in rounded]) for port in pulled}
    return tuple({port: found[port] / factors for port in pulled} for found in (pulled, stacked))


def further_inputs(program: Program) -> list[dict[Port, Floats]]:
    """Return further `moved_inputs`, for entries that would be called WRONG."""
    return moved_inputs(program, MORE, 1)


def moved_inputs(program: Program, count: int = SAMPLES, seed: int = 0) -> list[dict[Port, Floats]]:
    """Return inputs that differ from the recorded ones by one random float32 rounding."""
    rng = np.random.default_rng(seed)
    return [
        {
            port: values * (1.0 + port.rounding * signs * rng.uniform(0.5, 1.0, size=values.shape))
            for port in program.inputs
            for values in [program.values(port)]
            for signs in [rng.choice([-1.0, 1.0], size=values.shape)]
        }
        for _ in range(count)
    ]


def lost_digits(program: Program, target: Port) -> Bools:
    """True for outputs whose float32 value has lost more digits than rounding costs a sound kernel."""
    single, double = program.evaluate({}, single=True)[target], program.evaluate({})[target]
    with np.errstate(all="ignore"):
        lost: Bools = ~(np.abs(single - double) <= FORWARD_DIGITS_LOST * np.abs(double))
    return lost
