"""Measures the error bar of a reverse pass: the change of the gradient by float32 rounding alone.

A reverse pass is linear in its seeds: in exact arithmetic, three times the seeds give exactly three times the
gradient. In float32 each sum and product is then rounded differently, so that the gradients of scaled seeds,
scaled back, scatter as much as rounding changes them (stochastic arithmetic, Vignes, Math. Comput. Simul. 35
(1993) 233, doi:10.1016/0378-4754(93)90003-D). A wrong factor, sign or term stays equally wrong and does not
scatter, so the bar does not hide it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import Gradients, Probe
from tapedebug.autograd.thresholds import LOSS_ROUNDING_FLOAT32, ROUNDING_SPREAD

SCALES = (3.0, 0.7, 1.3, -1.1, 0.9)  # no powers of two: those round the same
NEARBY = 8  # inputs at which the gradient is rounded otherwise


@dataclass(frozen=True, eq=False)
class Float32ErrorBar:
    """The effect of float32 rounding on the gradient of one input.

    Attributes:
        bar: The possible error of each entry.
        error: The distance of each entry to the float64 adjoint.
        apart: The distance of that adjoint to the one that reads the values of the forward pass.
        share: The change of the loss by all errors together, if the input changed by 100 %, relative to
            `scale`.
        scale: The loss, or the change that the largest gradient predicts for such a change of the input.
    """

    bar: Floats
    error: Floats
    apart: Floats
    share: float
    scale: float

    def is_dust(self, probes: Sequence[Probe]) -> bool:
        """True if a gradient is off by rounding alone, and by nothing that the loss could show in float32.

        An example is a gradient of 0 from cancelling terms, for which a relative error is meaningless.
        """
        return bool(
            (self.error <= self.bar).all()
            and (self.apart <= self.bar).all()
            and self.share <= LOSS_ROUNDING_FLOAT32
            and probes
            and all(_confirms(probe, LOSS_ROUNDING_FLOAT32 * self.scale) for probe in probes)
        )

    def words(self) -> str:
        """Return the agreement of a gradient at the level of rounding, in words."""
        return (
            f"off by {self.error.max(initial=0.0):.2g} from the float64 adjoint, which float32 rounding "
            f"explains: terms that cancel, to {self.share:.0e} of the loss"
        )


def _confirms(probe: Probe, least: float) -> bool:
    """True if a difference agrees with the float64 adjoint, and its error bar is fine enough to say so."""
    return (
        probe.verdict != "KINK"
        and probe.bar <= least
        and abs(probe.exact - probe.fd) <= probe.bar + probe.allowed
    )


def scatter_nearby(program: WholeTape, port: Port) -> Floats:
    """Return the scatter of the float32 gradient's error among inputs that differ by one rounding.

    Each of them is rounded differently, also within the launches. A wrong factor is the same for all.
    """

    def run(ports: Sequence[Port]) -> dict[Port, Floats]:
        rng = np.random.default_rng(1)
        found: dict[Port, list[Floats]] = {source: [] for source in ports}
        for _ in range(NEARBY):
            at = {
                source: values * (1 + source.rounding * rng.choice([-1.0, 1.0], size=values.shape))
                for source in program.inputs
                for values in [program.values(source)]
            }
            single, double = (program.pull(program.seeds, at=at, double=double) for double in (False, True))
            for source in ports:
                found[source].append(single[source] - double[source])
        return {source: _range_of(np.stack(errors)) for source, errors in found.items()}

    return program.once("scatter nearby", port, run)


def _range_of(errors: Floats) -> Floats:
    """Return the largest distance of each column to its median."""
    scatter: Floats = np.abs(errors - np.median(errors, axis=0)).max(axis=0)
    return scatter


def float32_error_bar(program: WholeTape, gradients: Gradients, port: Port) -> Float32ErrorBar:
    """Measure the change of the consumed gradient of an input by rounding."""
    exact = gradients.exact
    error = np.abs(gradients.consumed[port] - exact[port])
    scale = gradients.scale
    moved = float(error @ np.abs(program.values(port)))
    return Float32ErrorBar(
        ROUNDING_SPREAD * program.scatter(SCALES, gradients.consumed)[port],
        error,
        np.abs(gradients.same[port] - exact[port]),
        moved / scale if scale else float("inf"),
        scale,
    )
