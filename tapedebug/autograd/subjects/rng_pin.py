"""Pin random number generators, so that two runs of a check draw the same numbers."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Source = tuple[Callable[[], Any], Callable[[Any], Any]]
"""The two functions that read and set the state of one source of random numbers."""


class RngPin:
    """Within the block, random numbers are those of the first block; after it, the sources are as before.

    Args:
        owners: Functions and values whose generators count beside the global ones of `random`, NumPy and
            PyTorch: what a function closes over, names or has as an attribute.
    """

    def __init__(self, owners: Iterable[Any]) -> None:
        self._sources = [*_global_sources(), *(s for g in _generators(owners) for s in _sources_of(g))]
        self._states = [read() for read, _ in self._sources]

    def __enter__(self) -> RngPin:
        self._set()
        return self

    def __exit__(self, *_: object) -> None:
        self._set()

    def _set(self) -> None:
        for (_, write), state in zip(self._sources, self._states, strict=True):
            write(state)


def _global_sources() -> list[Source]:
    sources: list[Source] = [
        (random.getstate, random.setstate),
        (np.random.get_state, np.random.set_state),
    ]
    torch = sys.modules.get("torch")
    if torch is not None:
        sources.append((torch.get_rng_state, torch.set_rng_state))
    return sources


def _sources_of(generator: np.random.Generator | np.random.RandomState | random.Random) -> list[Source]:
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return [(lambda: bits.state, lambda state: setattr(bits, "state", state))]
    if isinstance(generator, np.random.RandomState):
        return [(generator.get_state, generator.set_state)]
    return [(generator.getstate, generator.setstate)]


def _generators(owners: Iterable[Any]) -> list[Any]:
    kinds = np.random.Generator, np.random.RandomState, random.Random
    found = (value for owner in owners for value in (owner, *_reachable_by_name(owner)))
    return list({id(value): value for value in found if isinstance(value, kinds)}.values())


def _reachable_by_name(owner: object) -> list[Any]:
    """Return what a function, method or object can reach by name."""
    found = list(getattr(getattr(owner, "__self__", owner), "__dict__", {}).values())
    function: Any = getattr(owner, "__func__", owner)
    if not hasattr(function, "__code__"):  # an object that is called, or a `functools.partial`
        inner = getattr(function, "func", None) or type(function).__dict__.get("__call__")
        found += [*getattr(function, "args", ()), *getattr(function, "keywords", {}).values()]
        function = inner
    code = getattr(function, "__code__", None)
    if code is None:
        return found
    found += [function.__globals__[name] for name in code.co_names if name in function.__globals__]
    found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    return found
