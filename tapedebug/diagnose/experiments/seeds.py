"""Computes gradients from other seeds than those of the diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.diagnose.experiments.experiment import Values

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay


def seeded(replay: Replay) -> dict[int, Values]:
    """Return the seeds of the diagnosis, by array."""
    found = ((replay.recorded.id_of(a), values) for a, values in replay.seeds.items())
    return {number: values for number, values in found if number is not None}


def gradients_from(replay: Replay, seeds: Mapping[int, Values]) -> dict[int, Values]:
    """Return the gradients of the leaves for seeds given by ids of arrays."""
    shadow = replay._ready()
    shadow.backward({replay.arrays[number]: values for number, values in seeds.items()})
    return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def consumed_seeds(replay: Replay) -> dict[int, Values] | None:
    """Return the seeds of the user's last pass by array; None without a pass, or if an array is unknown."""
    calls = replay.recorded.tape.reverse_passes
    if not calls:
        return None
    seeds = {replay.recorded.id_of(a): values for a, values in calls[-1].seeds.items()}
    return None if None in seeds else {number: v for number, v in seeds.items() if number is not None}


def stale_seeds(replay: Replay) -> set[int]:
    """Return the arrays whose gradients held results of another tape's pass when the last pass began."""
    calls = replay.recorded.tape.reverse_passes
    found = (replay.recorded.id_of(a) for a in calls[-1].stale) if calls else ()
    return {number for number in found if number is not None}


def preset_seeds(replay: Replay) -> set[int]:
    """Return the arrays whose gradients held a seed when the last pass began."""
    calls = replay.recorded.tape.reverse_passes
    found = (replay.recorded.id_of(a) for a in calls[-1].preset) if calls else ()
    return {number for number in found if number is not None}


def passes_from(replay: Replay) -> set[int]:
    """Return the arrays that the user's passes started from as a loss, with 1 for every element."""
    losses = (call.objective for call in replay.recorded.tape.reverse_passes)
    return {number for a in losses if a is not None and (number := replay.recorded.id_of(a)) is not None}


def final_values(replay: Replay, array: int) -> Values:
    """Return the values of an array at the end of the forward pass."""
    return np.asarray(replay._ready().values(replay.arrays[array]))
