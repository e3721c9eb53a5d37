"""Launches and copies that ran while no tape recorded, and that computed what a later tape starts from."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from tapedebug._clock import clock
from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.watch.hooks import WarpObject
from tapedebug.watch.memory import WarpArray, base_of, is_on_host
from tapedebug.watch.unwritten_memory import sample

REMEMBERED = 1000
"""Largest number of addresses of which launches are stored."""

HELD = 1 << 24
"""Largest number of bytes of arrays that are kept alive: temporary ones between two such launches."""

AT_EACH = 8
"""Largest number of launches that are stored of one address."""


@dataclass(slots=True, eq=False)
class EarlierLaunch:
    """A launch or a copy that no tape recorded.

    Attributes:
        kind: `"launch"` or `"copy"`.
        kernel: The kernel; None for a copy.
        name: The name of the kernel, or `copy`.
        place: The place in the program.
        clock: The time.
        threads: The number of threads; 0 for a copy.
        is_reversed: The program has run the adjoint kernel itself since then.
    """

    kind: Literal["launch", "copy"]
    kernel: WarpObject
    name: str
    place: Span
    clock: int
    threads: int
    _values: list[Any]
    _arrays: list[weakref.ref[WarpArray] | None]
    is_reversed: bool = False

    def values(self) -> list[Any] | None:
        """Return the arguments, those of a copy being destination and source; None if an array is gone."""
        values = [
            value if array is None else array()
            for value, array in zip(self._values, self._arrays, strict=True)
        ]
        gone = any(
            array is not None and value is None for value, array in zip(values, self._arrays, strict=True)
        )
        return None if gone else values


class EarlierLaunches:
    """The last launches and copies off all tapes that got arrays with a gradient, by address of an array.

    Later ones that get one of these arrays are among them, as they may overwrite it. Of their arrays the last
    ones are kept alive, up to `HELD` bytes.

    Args:
        array: The class of Warp's arrays. Arrays in structs are not looked at.
    """

    def __init__(self, array: type[WarpObject]) -> None:
        self._array = array
        self._at: dict[int, list[EarlierLaunch]] = {}
        self._held: dict[int, WarpArray] = {}
        self._held_bytes = 0
        self._viewed: dict[int, tuple[int, weakref.ref[WarpArray], bytes]] = {}
        """By address: when an array that has views was last seen, its memory, and a sample of that then."""

    def note(
        self,
        kind: Literal["launch", "copy"],
        kernel: WarpObject,
        name: str,
        place: Span,
        values: Sequence[Any],
        threads: int = 0,
    ) -> None:
        """Note a launch or a copy, with its arguments as `EarlierLaunch.values` describes them."""
        kept, arrays = list(values), []
        for position, value in enumerate(values):
            is_array = type(value) is self._array
            arrays.append(weakref.ref(value) if is_array else None)
            if is_array:
                kept[position] = None
                self._hold(value)
        launch = EarlierLaunch(kind, kernel, name, place, clock.tick(), threads, kept, arrays)
        for value in self._with_gradient(values):
            self._forget_overwritten(value.ptr)
            known = self._at.get(value.ptr)
            if known is None:
                if len(self._at) >= REMEMBERED:
                    self._forget()
                known = self._at[value.ptr] = []
            known[:] = [each for each in known if (each.kernel, each.place) != (kernel, place)]
            known.append(launch)
            del known[:-AT_EACH]

    def _hold(self, array: WarpArray) -> None:
        """Keep an array alive, and release the oldest ones beyond the limit."""
        if id(array) in self._held or array.capacity > HELD:
            return
        self._held[id(array)] = array
        self._held_bytes += array.capacity
        while self._held_bytes > HELD:
            self._held_bytes -= self._held.pop(next(iter(self._held))).capacity

    def wants(self, values: Sequence[Any]) -> bool:
        """True if a launch may carry a gradient between arrays, or overwrite the result of a noted one."""
        found = None
        for value in self._with_gradient(values):
            if (found is not None and value.ptr != found) or value.ptr in self._at:
                return True
            found = value.ptr
        return False

    def _with_gradient(self, values: Iterable[Any]) -> Iterator[WarpArray]:
        return (value for value in values if type(value) is self._array and value.requires_grad and value.ptr)

    def written(self, array: WarpObject) -> None:
        """Forget what wrote an array, because something else writes it now."""
        if self._at:
            self._at.pop(getattr(array, "ptr", None) or 0, None)

    def viewed(self, array: WarpObject) -> None:
        """Note that the program may write an array through a view of NumPy or PyTorch from now on."""
        if type(array) is self._array and array.requires_grad and array.ptr and is_on_host(array.device):
            self._forget_overwritten(array.ptr)
            if array.ptr not in self._viewed and len(self._viewed) >= REMEMBERED:
                del self._viewed[next(iter(self._viewed))]
            self._sample(array)

    def ran(self, values: Iterable[Any]) -> None:
        """Note that a launch has run with some arguments: it may have written what there are views of."""
        for value in self._with_gradient(values) if self._viewed else ():
            if value.ptr in self._viewed:
                self._sample(value)

    def _sample(self, array: WarpArray) -> None:
        base = base_of(array)
        self._viewed[array.ptr] = clock.tick(), weakref.ref(base), sample(base)

    def reversed(self, kernel: WarpObject) -> None:
        """Note that the program runs the adjoint of a kernel itself."""
        for launches in self._at.values():
            for each in launches:
                each.is_reversed |= each.kernel is kernel

    def at(self, address: int) -> list[EarlierLaunch]:
        """Return the launches that got an array at an address, the last first.

        Those before a change through a view are not among them.
        """
        self._forget_overwritten(address)
        return self._at.get(address, [])[::-1]

    def _forget_overwritten(self, address: int) -> None:
        """Forget the launches after which the program has changed an array through a view."""
        time, ref, before = self._viewed.get(address, (0, None, b""))
        if ref is not None and address in self._at:
            base = ref()
            if base is None or sample(base) != before:
                self._at[address] = [each for each in self._at[address] if each.clock > time]

    def _forget(self) -> None:
        """Forget the older half of the addresses."""
        for address in list(self._at)[: REMEMBERED // 2]:
            del self._at[address]
