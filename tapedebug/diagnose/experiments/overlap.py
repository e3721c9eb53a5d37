"""Determines exactly the elements that one launch read and another one overwrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass
from tapedebug.contract import ElementQuery, ElementTracking

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

MOST_PAIRS = 16
"""Largest number of pairs of launches that are compared."""


@dataclass(slots=True, frozen=True)
class SharedElements:
    """Numbers of elements of an array that a launch read, that another wrote, and that are in both sets.

    For several such pairs, the sums.
    """

    read: int
    written: int
    both: int


def shared_elements(replay: Replay, pairs: Sequence[tuple[int, int, int]]) -> SharedElements | None:
    """Count the elements that readers read and overwriting launches wrote.

    Args:
        replay: The tape.
        pairs: (reader, overwriting launch, array).

    Returns:
        The numbers; None if there are too many pairs, or accesses cannot be tracked.
    """
    tracking: ElementTracking | None = replay.recorded.tape.capability(ElementTracking)
    if len(pairs) > MOST_PAIRS or tracking is None:
        return None
    keys: list[tuple[ElementQuery, ElementQuery]] = [
        ((reader, replay.arrays[array], "read"), (clobberer, replay.arrays[array], "write"))
        for reader, clobberer, array in pairs
    ]
    masks = tracking.accessed(replay._shadow(), dict.fromkeys(key for pair in keys for key in pair))
    if masks is None:
        return None
    found = [(masks[seen], masks[over]) for seen, over in keys]
    return SharedElements(
        sum(int(seen.sum()) for seen, _ in found),
        sum(int(over.sum()) for _, over in found),
        sum(int((seen & over).sum()) for seen, over in found),
    )
