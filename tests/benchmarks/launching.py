"""The cost of a launch whose kernel takes no time: alone, on a tape, and back through a long tape."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tests.benchmarks.timing import Run, Timed

LONG = 10_000
"""Launches of the long tape."""
FEW = 500
"""Launches in a measurement of a single one."""
LAUNCH, TAPED, RECORDED, FIRST, ALIKE, AGAIN = (
    "launch", "taped launch", "recording", "backward, first", "backward, like the last", "backward, again"
)  # fmt: skip
BESIDE, KEPT = "recording beside a kept tape", "backward of a kept tape"
STEP = "step of a loop"
STEPS = (2, 10, 100)
"""Launches of a step, each of which has a tape of its own."""


class Chain:
    """Launches of one thread each, each on an array of its own.

    Args:
        module: `kernels.py` on an engine.
        count: How many launches.
    """

    def __init__(self, module: ModuleType, count: int) -> None:
        self.wp, self.kernel, self.count = module.wp, module.relax, count
        self.seed = self.wp.ones(1, dtype=float)
        self.tape: Any = None
        self.kept: Any = None
        self.held: list[Any] = []
        self.renew()

    def renew(self) -> None:
        """Take new arrays."""
        wp = self.wp
        self.arrays = [wp.zeros(1, dtype=float, requires_grad=True) for _ in range(self.count + 1)]
        self.seeds = {self.arrays[-1]: self.seed}

    def launch(self) -> None:
        """All of them."""
        wp, kernel, arrays = self.wp, self.kernel, self.arrays
        for number in range(self.count):
            wp.launch(kernel, dim=1, inputs=[arrays[number], 1e-4], outputs=[arrays[number + 1]])

    def record(self) -> None:
        """All of them, on a new tape."""
        self.tape = self.wp.Tape()
        with self.tape:
            self.launch()

    def backward(self) -> None:
        """The reverse pass."""
        self.tape.backward(grads=self.seeds)

    def step(self) -> None:
        """Run one step of a training loop without its optimiser: a tape, its reverse pass, zeros."""
        with self.wp.Tape() as tape:
            self.launch()
        tape.backward(grads=self.seeds)
        tape.zero()

    def keep(self) -> None:
        """Keep a tape that has run backward."""
        self.release()
        self.record()
        self.backward()
        self.kept, self.tape = self.tape, None

    def keep_beside(self) -> None:
        """Record the same again, and run it backward, beside a tape that is kept."""
        self.keep()
        self.record()
        self.backward()

    def backward_of_kept(self) -> None:
        """The reverse pass of the tape that was kept."""
        self.kept.backward(grads=self.seeds)

    def first(self) -> None:
        """A tape of which there was none like it, of arrays that have their gradients."""
        self.renew()
        self.held = [a.grad for a in self.arrays]
        self.record()

    def gradient(self) -> float:
        """Return the gradient of the first array."""
        self.record()
        self.backward()
        found = float(self.arrays[0].grad.numpy()[0])
        self.tape.zero()
        return found

    def release(self) -> None:
        """Let the tapes go untimed."""
        self.tape = self.kept = None


def timed(modules: dict[str, ModuleType], long: int = LONG, few: int = FEW) -> Iterator[Timed]:
    """Return the cases to time, per launch.

    Raises:
        ValueError: Engines differ.
    """
    for count in STEPS:
        loops = {engine: Chain(module, count) for engine, module in modules.items()}
        runs = {e: Run(c.step) for e, c in loops.items()}
        yield Timed("launching", STEP, f"{count} launches", runs, True)
    short = {engine: Chain(module, few) for engine, module in modules.items()}
    chains = {engine: Chain(module, long) for engine, module in modules.items()}
    wanted = (1.0 - 1e-4) ** long
    for engine, chain in chains.items():
        if abs(chain.gradient() - wanted) > 1e-3:
            raise ValueError(f"long tape, {engine}: {chain.gradient()}; {wanted} is right")

    def of(part: str, count: int, runs: dict[str, Run]) -> Timed:
        return Timed("launching", part, f"{count:,} launches, each", runs, True)

    yield of(LAUNCH, few, {e: Run(c.launch, per=few) for e, c in short.items()})
    yield of(TAPED, few, {e: Run(c.record, before=c.release, per=few) for e, c in short.items()})
    yield of(RECORDED, long, {e: Run(c.record, before=c.release, per=long) for e, c in chains.items()})
    yield of(FIRST, long, {e: Run(c.backward, before=c.first, per=long) for e, c in chains.items()})
    yield of(ALIKE, long, {e: Run(c.backward, before=c.record, per=long) for e, c in chains.items()})
    yield of(BESIDE, long, {e: Run(c.record, before=c.keep, per=long) for e, c in chains.items()})
    kept = {e: Run(c.backward_of_kept, before=c.keep_beside, per=long) for e, c in chains.items()}
    yield of(KEPT, long, kept)
    for chain in chains.values():
        chain.kept = None
    yield of(AGAIN, long, {e: Run(c.backward, per=long) for e, c in chains.items()})
