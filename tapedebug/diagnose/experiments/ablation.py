"""The results of a tape without some of its launches."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tapedebug.contract import Replay as TapeReplay
from tapedebug.diagnose.experiments.experiment import Consume, Values

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay


def consumed_by(replay: Replay) -> Consume:
    """Return which values the adjoints of the user's reverse pass read: final ones or versions."""
    return "current" if replay.recorded.trace.tape.on_overwrite in ("ignore", "warn") else "versions"


def gradients_without(replay: Replay, launches: Collection[int]) -> dict[int, Values]:
    """Return the gradients of the leaves as the user's reverse pass computes them, without some launches."""
    shadow = _ran_without(replay, launches)
    shadow.backward(replay.seeds, consume=consumed_by(replay), skip=launches)
    return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def values_without(
    replay: Replay, launches: Collection[int], arrays: Collection[int], stop: int
) -> dict[int, Values]:
    """Return the values of arrays before launch `stop`, with some launches left out."""
    shadow = _ran_without(replay, launches, stop)
    return {number: shadow.values(replay.arrays[number]) for number in arrays}


def values_at(replay: Replay, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Values]:
    """Return the values of arrays just before launches ran, for (array, launch), from one run of the tape.

    They include writes from outside the tape just before the launch.
    """
    shadow = replay._shadow()
    found: dict[tuple[int, int], Values] = {}
    for array, launch in sorted(wanted, key=lambda item: item[1]):
        shadow.forward(start=shadow.position, stop=launch) if launch else shadow.forward(stop=0)
        shadow.inject()
        found[array, launch] = shadow.values(replay.arrays[array])
    return found


def _ran_without(replay: Replay, launches: Collection[int], stop: int | None = None) -> TapeReplay:
    skip = frozenset(launches)
    return replay._shadow().forward(stop=stop, skip=skip)
