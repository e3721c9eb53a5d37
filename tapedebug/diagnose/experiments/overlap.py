"""The elements that one launch read and another one overwrote, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.compiler.ir import Custom, walk
from tapedebug.runtime.launch.access_tags import epoch_of
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.tape.element_tracking import Tracking, run_private

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

MOST = 16
"""How many pairs of launches are looked at; of more, nothing is said."""
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(slots=True, frozen=True)
class SharedElements:
    """Elements of an array: how many a launch read, how many another wrote, how many of them are the same.

    Of several such pairs, the sums.
    """

    read: int
    written: int
    both: int


def shared_elements(replay: Replay, pairs: Sequence[tuple[int, int, int]]) -> SharedElements | None:
    """What readers read and clobberers wrote.

    Args:
        replay: The tape.
        pairs: (reader, clobberer, array).

    Returns:
        The elements; None where there are too many pairs, or where accesses can not be tracked.
    """
    launches = {index for reader, clobberer, _ in pairs for index in (reader, clobberer)}
    records = replay.engine_records
    kernels = [records[index].kernel for index in launches if records[index].kind == "kernel"]
    if len(pairs) > MOST or not all(map(_is_plain, kernels)):
        return None
    wanted: dict[int, list[tuple[int, int]]] = {}
    for reader, clobberer, array in pairs:
        wanted.setdefault(reader, []).append((array, 1))
        wanted.setdefault(clobberer, []).append((array, 0))
    masks = _masks(replay, wanted)
    read = written = both = 0
    for reader, clobberer, array in pairs:
        seen, over = masks[reader, array, 1], masks[clobberer, array, 0]
        read, written, both = (
            read + int(seen.sum()),
            written + int(over.sum()),
            both + int((seen & over).sum()),
        )
    return SharedElements(read, written, both)


def _is_plain(kernel: Any) -> bool:
    """Whether its accesses are seen, and its adjoint reads no other elements than it does."""
    own = any(isinstance(node, Custom) for node in walk(kernel._lowered.custom.body))
    return not (own or kernel.analysis.native)


def _masks(replay: Replay, wanted: dict[int, list[tuple[int, int]]]) -> dict[tuple[int, int, int], Mask]:
    """For (launch, array, 0 for writes and 1 for reads) the elements, each launch with stamps of its own."""
    shadow, journal = replay._shadow(), PrintBuffer()
    found: dict[tuple[int, int, int], Mask] = {}
    shadow.forward(stop=0)
    for index in sorted(wanted):
        record = replay.engine_records[index]
        shadow.forward(start=shadow.position, stop=index)
        tracking = Tracking(replay.recorded.tape.tracker)
        if record.kind == "kernel":
            variant = tracking.variant(record, frozenset())
            run_private(tracking, shadow, record, variant, journal)
            tracking.ran[index] = variant
        for array, which in wanted[index]:
            a = replay.arrays[array]
            stamps = tracking.settle(a, index + 1).view(a, which).max(axis=-1)
            found[index, array, which] = epoch_of(stamps) == index
    return found
