"""The protocol of experiments: rules run them on a private replay, and user arrays stay unchanged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tapedebug.contract import Consume as Consume
from tapedebug.contract import FollowedThread, ReverseDivergence, Stack, StoredLoop
from tapedebug.contract import Values as Values
from tapedebug.trace import Location


@dataclass(slots=True, frozen=True)
class Semantics:
    """Which launches are reversed as Warp does it.

    Attributes:
        launches: Their indices.
        parts: Assigning components and fields in place is reversed so, too.
        functions: Functions lack the adjoints that they lack there; only with `parts`.
        retained: Arrays with `retain_grad` keep adjoints so, too.
    """

    launches: frozenset[int]
    parts: bool = True
    functions: bool = True
    retained: bool = False


@dataclass(slots=True, frozen=True)
class ValueChange:
    """What an overwrite did: `changed` of `elements` have another value, by up to `largest` (maybe NaN)."""

    elements: int
    changed: int
    largest: float
    place: int | None = None
    """The first element that changed, counted in elements of the flattened array."""


@dataclass(slots=True, frozen=True)
class LaunchFlow:
    """One launch with its surroundings, by parameter number.

    Attributes:
        values: Of all arrays, before it ran (for `"current"`: at the end of the forward pass).
        written: Values of the arrays that it writes, after it ran.
        incoming: Adjoints of the arrays that it writes, before its adjoint ran.
        outgoing: Adjoints of the arrays that it reads, after its adjoint ran.
    """

    values: Mapping[int, Values]
    written: Mapping[int, Values]
    incoming: Mapping[int, Values]
    outgoing: Mapping[int, Values]


@dataclass(slots=True, frozen=True)
class HostRead:
    """Values were read outside of kernels.

    Attributes:
        arrays: The arrays of the tape that share memory with what was read.
        at: How many launches the tape had; None where it had ended.
        elsewhere: Another tape recorded meanwhile.
        place: Where in the user's source.
        how: By which way: `"numpy"`, `"to_torch"`, …
        clock: When, in events of the process.
        stack: The user's frames, where this tape recorded.
        memory: Number of the memory that was read.
    """

    arrays: tuple[int, ...]
    at: int | None
    elsewhere: bool
    place: Location
    how: str = ""
    clock: int = 0
    stack: Stack = ()
    memory: int = -1


class Experiment(Protocol):
    """A tape that can be run again. Arrays and launches are named by their numbers in the trace."""

    blocked: str
    """Why gradients can not be computed; empty where they can."""
    leaves: list[int]
    """The arrays that gradients are wanted of."""
    wrong: frozenset[int]
    """Those of them whose consumed gradient is wrong, as measured end to end."""
    losses: list[int]
    """The arrays that the reverse pass begins with."""
    named: bool
    """Somebody asked for the gradients of just these."""
    like_warp: bool
    """The reverse pass of the user gave what Warp's would, as somebody asked."""

    def changes(self, overwrites: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ValueChange]:
        """For each (array, launch): what the launch did to the values of the array."""
        ...

    def writer_of(self, launch: int, array: int, param: int, element: int) -> Location | None:
        """The line of a kernel that writes an element of an array through a parameter, if it is found."""
        ...

    def gradients(
        self,
        careless: Collection[tuple[int, int]] = (),
        poisoned: Collection[int] = (),
        left: Collection[tuple[int, int]] = (),
        unrecorded: Collection[int] = (),
    ) -> dict[int, Values]:
        """Gradients of the leaves.

        Args:
            careless: (launch, parameter) pairs that see, in the reverse pass, what memory holds at the end of
                the forward pass. All others see the values that they had.
            poisoned: Arrays that are filled with NaN before the reverse pass.
            left: (launch, parameter) pairs that see what the launch itself left there.
            unrecorded: Launches whose adjoints do nothing.
        """
        ...

    def without(self, launches: Collection[int]) -> dict[int, Values]:
        """Gradients of the leaves as the user's reverse pass would give them without some launches."""
        ...

    def values_without(
        self, launches: Collection[int], arrays: Collection[int], stop: int
    ) -> dict[int, Values]:
        """What arrays would hold before launch `stop` without some launches."""
        ...

    def values_at(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Values]:
        """For each (array, launch): what the array held just before the launch ran."""
        ...

    def held(self, array: int) -> Values:
        """A copy of what the user's array holds now."""
        ...

    def warp_limits(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """For each launch with an adjoint, what in its kernel Warp may reverse wrongly, if there is any."""
        ...

    def commands(self) -> list[int]:
        """The launches that a command launched, in a program for Warp."""
        ...

    def as_warp(self, semantics: Semantics) -> dict[int, Values] | None:
        """Gradients of the leaves with Warp's reverse of some launches; None where that is not known."""
        ...

    def kept(self) -> Mapping[int, Sequence[StoredLoop]]:
        """For each launch whose adjoint keeps values of loops of known length, these loops."""
        ...

    def rewritten(self, launch: int) -> frozenset[int]:
        """The parameters that a launch stores to, and whose arrays keep their gradients."""
        ...

    def swap_arguments(self, launch: int, one: int, other: int) -> float:
        """How far what a launch writes is off, relatively, when two of its arguments change places."""
        ...

    def handed_on(self, source: int, target: int, reader: int) -> tuple[float, dict[int, Values]]:
        """The change of the loss, and the gradients, if a launch read the array `source` for `target`."""
        ...

    def changed_structs(self) -> Mapping[int, Sequence[int]]:
        """In a program for Warp: the launches whose structs were changed before the reverse pass, and where.

        For each its parameters that were something else by then.
        """
        ...

    def gradients_with_structs(self, launches: Collection[int]) -> dict[int, Values] | None:
        """Gradients of the leaves, these launches reversed with what their structs held by then.

        None where arrays in them are not on the tape.
        """
        ...

    def loss_changes(self, arrays: Sequence[int], scales: Sequence[float]) -> list[float]:
        """How much the loss changes when the initial `arrays` are displaced by each of `scales`, up or down.

        The loss is the sum of the outputs, each weighted by its seed. The last entry is its size, to compare
        with.
        """
        ...

    def host_reads(self) -> list[HostRead]:
        """When arrays of the tape were read outside of kernels, through NumPy for instance."""
        ...

    def retains(self) -> bool:
        """True if an array of the tape keeps its adjoint on purpose."""
        ...

    def given(self, array: int) -> bool:
        """True if an array was created with values that differ, and first used by this tape."""
        ...

    def used_elsewhere(self, array: int) -> bool:
        """True if another live tape uses what an array holds."""
        ...

    def loss_moved(self, array: int, writer: int | None, scale: float) -> float:
        """How much the loss changes when what `writer` left in `array` is perturbed by about `scale`."""
        ...

    def values_moved(self, source: int, array: int, writer: int | None, scale: float) -> float:
        """How much what `writer` left in `array` changes when the initial `source` is perturbed."""
        ...

    def first_bad_value(self) -> int | None:
        """The first launch that writes values that are not finite."""
        ...

    def first_bad_adjoint(self, consume: Consume) -> int | None:
        """The first launch, in reverse order, whose adjoint leaves adjoints that are not finite."""
        ...

    def dead_adjoints(self) -> list[int]:
        """Launches, in reverse order, with adjoints of what they write and only zeros for what they read."""
        ...

    def flow(self, launch: int, consume: Consume) -> LaunchFlow:
        """Values and adjoints around a launch."""
        ...

    def thread(self, launch: int, index: int, flow: LaunchFlow) -> FollowedThread:
        """One thread of a launch, to be followed step by step.

        Raises:
            CannotFollow: The operation has no threads that can be followed.
        """
        ...


def relative_errors(right: Mapping[int, Values], wrong: Mapping[int, Values]) -> dict[int, float]:
    """Return ‖wrong − right‖ / ‖right‖ of each array: 0 where equal, inf where it is not a finite number.

    Entries of `right` that are not finite are left out: they are another finding's business.
    """
    return {array: _relative_error(good, wrong[array]) for array, good in right.items()}


def _relative_error(right: Values, wrong: Values) -> float:
    if np.array_equal(right, wrong, equal_nan=True):
        return 0.0
    sound = np.isfinite(right)
    good, bad = right[sound].astype(np.float64), wrong[sound].astype(np.float64)
    size, difference = float(np.linalg.norm(good)), float(np.linalg.norm(bad - good))
    if difference == 0:
        return 0.0
    return difference / size if np.isfinite(difference) and size > 0 else float("inf")


def value_change(shape: Sequence[int], old: Values, new: Values) -> ValueChange:
    """Compare two values of an array, element by element; an element of a vec3 is three scalars."""
    same = (old == new) | ((old != old) & (new != new))
    elements = same.reshape((int(np.prod(shape)), -1)).all(axis=1)
    changed = int((~elements).sum())
    largest, place = 0.0, None
    if changed:
        place = int(np.flatnonzero(~elements)[0])
        with np.errstate(all="ignore"):
            largest = float(np.max(np.abs(new.astype(np.float64) - old.astype(np.float64))))
    return ValueChange(int(elements.size), changed, largest, place)
