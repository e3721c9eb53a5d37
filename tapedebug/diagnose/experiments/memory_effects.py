"""Measures the effect of uninitialised memory and of out-of-bounds accesses on the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.contract import Array, RunThreads, ThreadScheduling
from tapedebug.diagnose.experiments.effect import Effect, Values, beyond_rounding, loss_of, relative

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay


def uninitialised_effect(replay: Replay, arrays: Sequence[Array]) -> Effect:
    """Return the effect of the initial content of memory on loss and gradient.

    Args:
        replay: The tape.
        arrays: The arrays in that memory.
    """
    plain, found = _with_contents(replay, arrays, 0), Effect()
    shadow = replay._shadow(double=True)
    for number in (1, 2):
        loss, gradients = _with_contents(replay, arrays, number)
        gap = sum(float(np.sum(np.square(gradients[k] - plain[1][k]))) for k in gradients)
        size = sum(float(np.sum(np.square(g))) for g in plain[1].values())
        gradient = float("inf") if gap else 0.0
        if np.isfinite(gap) and size > 0:
            gradient = float(np.sqrt(gap / size))
        loss = beyond_rounding(relative(plain[0], loss), shadow)
        found = found.worst(Effect(loss=loss, gradient=beyond_rounding(gradient, shadow)))
    return found


def _with_contents(replay: Replay, arrays: Sequence[Array], number: int) -> tuple[float, dict[int, Values]]:
    """Return loss and gradients with memory filled: floats at random by seed `number`, integers by 0 or 1."""
    shadow = replay._shadow(double=True)
    shadow.forward(stop=0)
    rng = np.random.default_rng(number)
    for a in arrays:
        values = shadow.values(a)
        # Integers may be used as indices and must stay small: 0 or 1.
        content: Values = np.full(values.shape, number > 0)
        if is_float(values.dtype):
            content = np.asarray(rng.uniform(0.5, 1.5, content.shape))
        shadow.set(a, content.astype(values.dtype))
    shadow.forward()
    loss = loss_of(replay, shadow)
    shadow.backward(replay.seeds)
    return loss, {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def loss_without(replay: Replay, launch: int, threads: Collection[int]) -> float | None:
    """Return the relative change of the loss if these threads of a launch are left out.

    None without a loss, or if the engine cannot leave threads out.
    """
    scheduling: ThreadScheduling | None = replay.recorded.tape.capability(ThreadScheduling)
    if replay.blocked or scheduling is None:
        return None
    shadow = replay._shadow(double=True)
    shadow.forward()
    plain = loss_of(replay, shadow)
    out = sorted(threads)

    def partly(run: RunThreads, count: int) -> None:
        for low, high in zip([0, *(t + 1 for t in out)], [*out, count], strict=True):
            if low < high:
                run(low, high)

    scheduling.reschedule(shadow, {launch: partly})
    shadow.forward()
    return beyond_rounding(relative(plain, loss_of(replay, shadow)), shadow)
