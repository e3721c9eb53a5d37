"""Values that leave Warp through NumPy, lists or PyTorch, and arrays that are made of values from outside."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Hashable
from types import FrameType
from typing import Any

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug._source import site_span
from tapedebug.contract import Array, ArrivedArray, OutsideRead, Place, Stack, memory_key
from tapedebug.watch.call_site import is_user, user_frame
from tapedebug.watch.memory import WarpArray

MOST = 1000
"""Largest number of reads, and of arrays, that a tape stores."""
FRAMES = 16
"""Largest number of frames that are stored of a place."""


@dataclass(frozen=True, slots=True)
class HostPlace:
    """A place in the program that reads or makes an array.

    Attributes:
        span: The innermost place that is not in an installed library.
        stack: The frames of the program, innermost first.
    """

    span: Place
    stack: Stack


def host_place() -> HostPlace:
    """Return the place of the call in the program."""
    frame: FrameType | None = user_frame(2)
    found: Stack = ()
    while frame is not None and len(found) < FRAMES:
        if is_user(frame):
            found = (*found, (frame.f_code, frame.f_lasti, id(frame)))
        frame = frame.f_back
    own = [site for site in found if "site-packages" not in site[0].co_filename]
    code, instruction, _ = (own or found)[0]
    return HostPlace(site_span((code, instruction)), found)


class HostTransfers:
    """The capabilities `contract.OutsideReads` and `contract.Arrivals` of a watched tape."""

    def __init__(self) -> None:
        self._reads: dict[Hashable, OutsideRead] = {}
        self._arrivals: list[ArrivedArray] = []
        self._made: list[tuple[weakref.ref[WarpArray], int, str, HostPlace, int, Any]] = []

    def reads(self) -> list[OutsideRead]:
        """Return the last read of each range of memory from each place."""
        return list(self._reads.values())

    def arrivals(self) -> list[ArrivedArray]:
        """Return the arrays that were made of values from outside, in order."""
        return self._arrivals

    def note_read(self, array: Array, how: str, place: HostPlace, at: int | None, elsewhere: bool) -> None:
        """Note that the program has read an array.

        Args:
            array: The array.
            how: The way it was read.
            place: The place in the program.
            at: The number of operations of the tape if it recorded then; else None.
            elsewhere: Another tape recorded.
        """
        key = memory_key(array), at is None, place.span
        if key in self._reads or len(self._reads) < MOST:
            self._reads[key] = OutsideRead(
                array.region,
                array.start,
                array.stop,
                at,
                elsewhere,
                place.span,
                how,
                clock.tick(),
                () if at is None else place.stack,
                array=array,
            )

    def note_arrival(
        self, array: WarpArray, how: str, place: HostPlace, at: int, tensor: object = None
    ) -> None:
        """Note that an array was made of values from outside while the tape recorded.

        Args:
            array: The array.
            how: The function that made it.
            place: The place in the program.
            at: The number of operations of the tape.
            tensor: The tensor that it was made of, if PyTorch has recorded how that was computed.
        """
        if len(self._made) < MOST:
            self._made.append((weakref.ref(array), clock.tick(), how, place, at, tensor))

    def tape_ends(self, regions: Collection[Hashable], array_of: Callable[[WarpArray], Array]) -> None:
        """Forget what concerns memory that the tape does not use, so that it is not kept alive.

        Args:
            regions: The regions that the tape uses.
            array_of: Function that returns the array of the contract for an array of Warp.
        """
        self._reads = {key: read for key, read in self._reads.items() if read.region in regions}
        for made, now, how, place, at, tensor in self._made:
            source = made()
            array = None if source is None else array_of(source)
            if array is not None and array.region in regions:
                self._arrivals.append(
                    ArrivedArray(
                        array.region,
                        array.start,
                        array.stop,
                        at,
                        now,
                        how,
                        place.stack,
                        tensor=tensor,
                        call_site=place.span,
                    )
                )
        self._made.clear()
