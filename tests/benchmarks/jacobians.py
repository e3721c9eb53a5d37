"""Jacobians and gradchecks of stencils, ours beside warp-lang: the same text, the same values.

Warp's Jacobians are dense, so that it takes no part from 65,536 scalars on: a matrix would have 16 GB.
"""

from __future__ import annotations

import contextlib
import io
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tests.benchmarks.bound import compare
from tests.benchmarks.engines import OURS
from tests.benchmarks.timing import Run, Timed

SIZES = (1024, 4096, 65536)
LARGEST = 4096
"""The size up to which Warp's dense Jacobians are timed."""
SPARSE, ANEW, DENSE, CHECK, TAPE = (
    "jacobian, sparse", "jacobian, sparse, traced and coloured anew", "jacobian, dense", "gradcheck",
    "gradcheck_tape of 10 launches",
)  # fmt: skip


@dataclass
class Stencil:
    """A kernel on one engine, with its arrays."""

    wp: Any
    kernel: Any
    dim: Any
    inputs: list[Any]
    outputs: list[Any]

    def jacobian(self, **options: Any) -> Any:
        """Return the Jacobian by the adjoint."""
        found = self.wp.autograd.jacobian(
            self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs, **options
        )
        return found[0, 0]

    def gradcheck(self) -> Any:
        """True if its gradients are right."""
        return self.wp.autograd.gradcheck(
            self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs,
            raise_exception=False, show_summary=False,
        )  # fmt: skip

    def gradcheck_tape(self, launches: int) -> Any:
        """The same of launches one after the other."""
        arrays = [self.inputs[0], *(self.wp.zeros_like(self.outputs[0]) for _ in range(launches))]
        for a in arrays:
            a.requires_grad = True
        tape = self.wp.Tape()
        with tape:
            for before, after in itertools.pairwise(arrays):
                self.wp.launch(self.kernel, dim=self.dim, inputs=[before], outputs=[after])
        return self.wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)


def stencils(module: ModuleType, size: int) -> dict[str, Stencil]:
    """Both kernels at `size` scalars."""
    wp, side = module.wp, round(size**0.5)
    values = np.random.default_rng(7).uniform(0.0, 10.0, size=size).astype(np.float32)

    def array(shape: Any, content: np.ndarray) -> Any:
        return wp.array(content.reshape(shape), dtype=wp.float32, requires_grad=True)

    found = {}
    for name, kernel, shape in (
        ("tridiagonal", module.tridiagonal, (size,)),
        ("five-point", module.five_point, (side, side)),
    ):
        inputs, outputs = [array(shape, values)], [array(shape, np.zeros_like(values))]
        found[name] = Stencil(wp, kernel, shape, inputs, outputs)
    return found


def timed(modules: dict[str, ModuleType], size: int) -> Iterator[Timed]:
    """All that is timed at one size; first Jacobians are compared, and ours must pass its check.

    Args:
        modules: `stencils.py` on each engine.
        size: Scalars.
    """
    from tapedebug.autograd.sparse.pattern import forget

    both = {engine: stencils(module, size) for engine, module in modules.items() if _takes_part(engine, size)}
    for name, mine in both[OURS].items():
        each = {engine: found[name] for engine, found in both.items()}
        notes = checked(name, each) if size <= LARGEST else {}

        def anew(mine: Stencil = mine) -> None:
            forget(mine.kernel)
            mine.jacobian(sparse=True)

        sparse = partial(mine.jacobian, sparse=True)
        ways: list[tuple[str, Callable[[Stencil], object], dict[str, Run]]] = [
            (SPARSE, Stencil.jacobian, {OURS: Run(sparse)}),
            (ANEW, Stencil.jacobian, {OURS: Run(anew)}),
            (CHECK, Stencil.gradcheck, {}),
        ]
        if size <= LARGEST:
            ways.append((DENSE, Stencil.jacobian, {}))
        if size == SIZES[0] and name == "tridiagonal":
            ways.append((TAPE, partial(Stencil.gradcheck_tape, launches=10), {}))
        for part, run, ours in ways:
            runs = {engine: Run(_silently(run, one)) for engine, one in each.items()} | ours
            yield Timed(name, part, f"{size:,} scalars", runs, size == LARGEST, notes)


def _takes_part(engine: str, size: int) -> bool:
    return engine == OURS or size <= LARGEST


def _silently(run: Callable[[Stencil], object], stencil: Stencil) -> Callable[[], object]:
    """Warp prints what its checks find, whatever it is told."""

    def silent() -> object:
        with contextlib.redirect_stdout(io.StringIO()):
            return run(stencil)

    return silent


def checked(name: str, each: dict[str, Stencil]) -> dict[str, str]:
    """Stop if Jacobians differ or our check is wrong; returns by engine that its check is.

    Raises:
        ValueError: Our gradcheck does not say that the kernel is right.
    """
    mine = each[OURS]
    dense = {"jacobian": mine.jacobian().numpy()}
    compare(f"{name}, sparse", {"jacobian": mine.jacobian(sparse=True).toarray()}, dense, 1e-5)
    verdict = mine.gradcheck().verdict
    if verdict != "AGREE":
        raise ValueError(f"gradcheck of {name}: {verdict}, and it is right")
    notes = {}
    for engine in each.keys() - {OURS}:
        compare(f"{name}, {engine}", {"jacobian": each[engine].jacobian().numpy()}, dense, 1e-5)
        if not _silently(Stencil.gradcheck, each[engine])():
            notes[engine] = "its gradcheck fails this kernel, which is right"
    return notes
