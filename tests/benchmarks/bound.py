"""A case at one size, ready to run on each engine: forward, backward of a tape, adjoint alone, tangent."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tests.benchmarks import by_hand
from tests.benchmarks.cases import Floats, Setup
from tests.benchmarks.engines import NUMBA
from tests.benchmarks.timing import Run, nothing

FORWARD, BACKWARD, ADJOINT, TANGENT = PARTS = ("forward", "backward", "adjoint", "tangent")
Results = dict[str, Floats]


def number_of_threads(count: int | None) -> Callable[[], object]:
    """Sets `config.num_threads`; None is what it is by default."""
    import tapedebug

    return lambda: setattr(tapedebug.config, "num_threads", count)


class Launched:
    """A launch on an engine with `launch` and `Tape`: ours, or Warp.

    Args:
        wp: The engine.
        kernel: Its kernel.
        setup: What it gets.
    """

    def __init__(self, wp: ModuleType, kernel: Any, setup: Setup) -> None:
        self.wp, self.kernel, self.setup = wp, kernel, setup
        self.arguments = [self._argument(name, value) for name, value in setup.arguments.items()]
        self.by_name = dict(zip(setup.arguments, self.arguments, strict=True))
        self.out = self.by_name[setup.writes]
        self.seed = wp.array(setup.seed, dtype=self.out.dtype)
        self.adjoints = {
            name: self.seed if a is self.out else wp.zeros_like(a, requires_grad=False)
            for name, a in self.by_name.items()
            if name in setup.arrays
        }
        self.tape: Any = None

    def _argument(self, name: str, value: Any) -> Any:
        wp = self.wp
        if isinstance(value, np.ndarray):
            vectors = {2: wp.vec2, 3: wp.vec3}
            dtype = vectors[value.shape[-1]] if name in self.setup.vectors else float
            return wp.array(value, dtype=dtype, requires_grad=True)
        return wp.vec3(*value) if isinstance(value, tuple) else value

    def clear(self) -> None:
        """Zero what a launch adds to."""
        if self.setup.adds:
            self.out.zero_()

    def forward(self) -> None:
        """The launch, off any tape."""
        self.wp.launch(self.kernel, dim=self.setup.dim, inputs=self.arguments)

    def record(self) -> None:
        """Put it on a tape."""
        self.clear()
        self.tape = self.wp.Tape()
        with self.tape:
            self.forward()

    def backward(self) -> None:
        """The reverse pass of that tape, from the seed."""
        self.tape.backward(grads={self.out: self.seed})

    def adjoint(self) -> None:
        """The adjoint alone, between arrays of the caller's, which it does not use up."""
        adjoints = [self.adjoints.get(name) for name in self.by_name]
        self.wp.launch(
            self.kernel, dim=self.setup.dim, inputs=self.arguments, adj_inputs=adjoints, adjoint=True
        )

    def outputs(self) -> Results:
        """Return what the launch writes."""
        self.clear()
        self.forward()
        return {self.setup.writes: self.out.numpy()}

    def pulled(self, part: str) -> Results:
        """Gradients of what it reads, from zero."""
        if part == BACKWARD:
            found = {name: self.by_name[name].grad for name in self.adjoints}
        else:
            found = {name: a for name, a in self.adjoints.items() if a is not self.seed}
        for a in found.values():
            a.zero_()
        if part == BACKWARD:
            self.record()
            self.backward()
            self.tape = None
        else:
            self.adjoint()
        return {name: found[name].numpy().copy() for name in self.setup.reads}

    def run(self, part: str) -> Run | None:
        """Return a function that runs a part, or None; only backward has a tape, which costs time."""
        self.tape = None
        if part == BACKWARD:
            self.record()
        runs = {
            FORWARD: Run(self.forward, before=self.clear),
            BACKWARD: Run(self.backward),
            ADJOINT: Run(self.adjoint),
        }
        return runs.get(part)


class Ours(Launched):
    """With a tangent, too."""

    shadow: Any = None

    def push(self) -> None:
        """Values and tangents in one sweep, on a copy of the arrays."""
        self.shadow.push({self.by_name[name]: values for name, values in self.setup.tangents.items()})

    def pushed(self) -> Results:
        """The tangent of what it writes."""
        self.run(TANGENT)
        self.shadow.reset()
        self.push()
        return {self.setup.writes: self.shadow.tangent(self.out)}

    def run(self, part: str) -> Run | None:
        """Return a function that runs a part."""
        self.shadow = None
        if part != TANGENT:
            return super().run(part)
        self.record()
        self.shadow = self.tape.replay()
        return Run(self.push, before=self.shadow.reset)


class ByHand:
    """One way in Numba, on its own arrays."""

    def __init__(self, way: by_hand.Way, setup: Setup, part: str) -> None:
        self.way, self.setup = way, setup
        self.arguments = {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in setup.arguments.items()
        }
        self.out = self.arguments[setup.writes]
        self.adjoints = {}
        if part == BACKWARD:
            self.adjoints = {name: np.zeros_like(self.arguments[name]) for name in setup.arrays}
            self.adjoints[setup.writes][...] = setup.seed

    def clear(self) -> None:
        """Zero what it adds to."""
        if self.setup.adds:
            self.out[...] = 0.0

    def call(self) -> None:
        """Run it."""
        self.way.call(*self.arguments.values(), *self.adjoints.values())

    def results(self) -> Results:
        """Return what it writes, or the gradients of what it reads."""
        self.clear()
        for name in self.adjoints:
            if name != self.setup.writes:
                self.adjoints[name][...] = 0.0
        self.call()
        if self.adjoints:
            return {name: self.adjoints[name].copy() for name in self.setup.reads}
        return {self.setup.writes: self.out.copy()}

    def run(self) -> Run:
        """It, with nothing left over of the run before."""
        return Run(self.call, before=self.clear if not self.adjoints else nothing)


def by_hands(setup: Setup, *, parallel: bool = True) -> dict[str, dict[str, ByHand]]:
    """All ways in Numba, by part and by what they are called."""
    return {
        part: {
            f"{NUMBA}, {way.name}": ByHand(way, setup, part)
            for way in by_hand.ways(setup.kernel, part, parallel=parallel)
        }
        for part in (FORWARD, BACKWARD)
    }


class Different(Exception):
    """Two engines do not agree: a fast wrong answer is no answer."""


def compare(what: str, found: Results, reference: Results, tolerance: float) -> None:
    """Compare what two engines say.

    Raises:
        Different: They differ by more than `tolerance` of the largest value.
    """
    for name, theirs in reference.items():
        scale = max(float(np.abs(theirs).max()), 1e-30)
        worst = float(np.abs(found[name].astype(np.float64) - theirs).max()) / scale
        if not worst <= tolerance:
            raise Different(f"{what}: {name} differs by {worst:.1e} of its largest value")


def dot_products(setup: Setup, tangent: Results, gradients: Results) -> tuple[float, float, float]:
    """`seed · J t`, `Jᵀ seed · t`, and the size of the terms of these sums."""
    out = tangent[setup.writes].astype(np.float64) * setup.seed
    terms = [gradients[name].astype(np.float64) * setup.tangents[name] for name in setup.reads]
    size = np.sqrt(sum(float((t * t).sum()) for t in terms) + float((out * out).sum()))
    return float(out.sum()), sum(float(t.sum()) for t in terms), float(size)


@contextlib.contextmanager
def named(what: str) -> Any:
    """Errors say of what they are."""
    try:
        yield
    except Exception as error:
        error.add_note(f"in {what}")
        raise
