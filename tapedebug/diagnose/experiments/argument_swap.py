"""The results of a tape with swapped launch arguments: experiments of the rule `unused`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._even_sample import evenly_spread
from tapedebug.contract import CannotFollow, FollowedThread
from tapedebug.diagnose.experiments.experiment import LaunchFlow, Values

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

THREADS = 24
"""Largest number of threads of a launch that are followed."""


def swap_arguments(replay: Replay, launch: int, one: int, other: int) -> float:
    """Return the relative change of the values that a launch writes if two of its arguments are swapped.

    Some threads are interpreted in Python, because other values may lead to an index out of bounds.

    Args:
        replay: The tape.
        launch: Index of the launch.
        one: The first parameter.
        other: The second, of the same type.
    """
    record = replay.records[launch]
    shadow = replay._shadow().forward(stop=launch)
    values = {p: shadow.values(record.args[p]) for p in record.touched}
    size = change = 0.0
    for index in evenly_spread(math.prod(record.dim), THREADS):
        threads = []
        for swap in (False, True):
            seen = _swapped(values, one, other) if swap else values
            thread = replay.thread(launch, index, LaunchFlow(seen, {}, {}, {}))
            thread.scalars = _swapped(thread.scalars, one, other) if swap else thread.scalars
            threads.append(thread)
        with contextlib.suppress(CannotFollow):
            stored = [_stored(thread, record.written) for thread in threads]
            size += sum(value * value for value in stored[0].values())
            places = stored[0].keys() | stored[1].keys()
            change += sum((stored[1].get(at, 0.0) - stored[0].get(at, 0.0)) ** 2 for at in places)
    return math.sqrt(change / size) if size else float(change > 0)


def _swapped(mapping: Mapping[int, Any], one: int, other: int) -> dict[int, Any]:
    places = {one: other, other: one}
    return {places.get(p, p): value for p, value in mapping.items()}


def _stored(thread: FollowedThread, params: Collection[int]) -> dict[tuple[int, int], float]:
    """Return the values that a thread writes, by parameter and place."""
    thread.run()
    return {
        (param, place): float(thread.memory[param][place])
        for param in params
        for place in thread.stores.get(param, ())
    }


def handed_on(replay: Replay, source: int, target: int, reader: int) -> tuple[float, dict[int, Values]]:
    """Measure the effect of a launch reading the array `source` instead of `target`.

    Args:
        replay: The tape.
        source: An array that was written, of the type and shape of `target`.
        target: The array that the program reads.
        reader: The first launch that reads it.

    Returns:
        The change of the loss, and the gradients of the leaves with `source`.
    """
    plain, shadow = replay._shadow().forward(), replay._shadow().forward(stop=reader)
    computed, read = replay.arrays[source], replay.arrays[target]
    shadow.set(read, shadow.values(computed))
    shadow.forward(start=reader)
    shadow.backward(replay.seeds, stop=reader)
    shadow.set_gradient(computed, shadow.gradient(computed) + shadow.gradient(read))
    shadow.set_gradient(read, np.zeros_like(shadow.gradient(read)))
    shadow.backward(None, start=reader)
    change = max(float(np.max(np.abs(shadow.values(a) - plain.values(a)))) for a in replay.seeds)
    return change, {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
