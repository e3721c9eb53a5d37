"""The protocol of experiments, which rules run on a private replay; user arrays stay unchanged."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.subjects.long_vectors import blocks
from tapedebug.contract import Consume as Consume
from tapedebug.contract import FollowedThread, ReverseDivergence, Stack, StoredLoop
from tapedebug.contract import Values as Values
from tapedebug.trace import Location


@dataclass(slots=True, frozen=True)
class Semantics:
    """The launches that are reversed with Warp's semantics, and the constructs that this covers.

    Attributes:
        launches: Their indices.
        parts: Includes in-place assignments to components and fields.
        functions: Includes functions whose adjoints are missing in Warp; only with `parts`.
        retained: Includes arrays with `retain_grad`, which keep their adjoints.
    """

    launches: frozenset[int]
    parts: bool = True
    functions: bool = True
    retained: bool = False


@dataclass(slots=True, frozen=True)
class ValueChange:
    """The effect of an overwrite: `changed` of `elements` differ, by up to `largest` (which may be NaN)."""

    elements: int
    changed: int
    largest: float
    place: int | None = None
    """The first element that changed, counted in elements of the flattened array."""


@dataclass(slots=True, frozen=True)
class LaunchFlow:
    """Values and adjoints around one launch, by parameter number.

    Attributes:
        values: Values of all arrays, before it ran (for `"current"`: at the end of the forward pass).
        written: Values of the arrays that it writes, after it ran.
        incoming: Adjoints of the arrays that it writes, before its adjoint ran.
        outgoing: Adjoints of the arrays that it reads, after its adjoint ran.
    """

    values: Mapping[int, Values]
    written: Mapping[int, Values]
    incoming: Mapping[int, Values]
    outgoing: Mapping[int, Values]


@dataclass(slots=True, frozen=True)
class OffTapeLaunch:
    """A launch or another operation off the tape, whose results the tape took as constants.

    Attributes:
        name: The name of the kernel, `copy`, or the name of a function.
        reads: The arrays of the tape that share memory with what it read.
        writes: The arrays of the tape that share memory with what it wrote.
        at: The number of launches on the tape then.
        place: The line of the user's source.
        paused: The tape did not record then.
        kind: `"launch"`, `"copy"`, or `"call"` of a function that no tape records.
        earlier: It ran before the tape began to record.
        unset: The names of arrays beyond the tape from which it computed, and whose gradients were read
            after the reverse pass although they were all 0.
    """

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    at: int
    place: Location
    paused: bool
    kind: str
    earlier: bool = False
    unset: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class HostRead:
    """A read of values outside of kernels.

    Attributes:
        arrays: The arrays of the tape that share memory with the array that was read.
        at: The number of launches on the tape at that time; None if recording had ended.
        elsewhere: Another tape was recording at that time.
        place: The line of the user's source.
        how: The method: `"numpy"`, `"to_torch"`, …
        clock: The time, in events of the process.
        stack: The user's frames, if this tape was recording.
        memory: The number of the memory that was read.
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
    """A tape that can be replayed. Arrays and launches are identified by their numbers in the trace."""

    blocked: str
    """The reason why gradients cannot be computed; empty if they can."""
    leaves: list[int]
    """The arrays whose gradients are computed."""
    wrong: frozenset[int]
    """The leaves whose consumed gradient is wrong, as measured end to end."""
    losses: list[int]
    """The arrays that the reverse pass starts from."""
    named: bool
    """True if the caller named these leaves."""
    like_warp: bool
    is_warp: bool
    """True if NVIDIA Warp itself ran the program."""
    """True if the user's reverse pass ran with Warp's semantics, as requested."""

    def changes(self, overwrites: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ValueChange]:
        """Return for each (array, launch) the change that the launch made to the values of the array."""
        ...

    def writer_of(self, launch: int, array: int, param: int, element: int) -> Location | None:
        """Return the kernel line that writes an element of an array through a parameter, if it is found."""
        ...

    def gradients(
        self,
        unpreserved: Collection[tuple[int, int]] = (),
        poisoned: Collection[int] = (),
        left: Collection[tuple[int, int]] = (),
        unrecorded: Collection[int] = (),
    ) -> dict[int, Values]:
        """Return the gradients of the leaves.

        Args:
            unpreserved: (launch, parameter) pairs whose adjoints read the values at the end of the forward
                pass. All others read the values of their launch.
            poisoned: Arrays that are filled with NaN before the reverse pass.
            left: (launch, parameter) pairs whose adjoints read the values that the launch itself left.
            unrecorded: Launches whose adjoints are skipped.
        """
        ...

    def without(self, launches: Collection[int]) -> dict[int, Values]:
        """Return the gradients that the user's reverse pass would compute without some launches."""
        ...

    def values_without(
        self, launches: Collection[int], arrays: Collection[int], stop: int
    ) -> dict[int, Values]:
        """Return the values that arrays would have before launch `stop` without some launches."""
        ...

    def values_at(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Values]:
        """Return for each (array, launch) the values of the array just before the launch ran."""
        ...

    def current_values(self, array: int) -> Values:
        """Return a copy of the current values of the user's array."""
        ...

    def warp_limits(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """Return for each launch the constructs of its kernel that Warp may reverse wrongly."""
        ...

    def unmeasured_limits(self) -> Sequence[str]:
        """Return, as sentences, the launches that `warp_limits` did not measure."""
        ...

    def commands(self) -> list[int]:
        """Return the launches made by recorded commands, in a program for Warp."""
        ...

    def as_warp(self, semantics: Semantics) -> dict[int, Values] | None:
        """Return the gradients with some launches reversed as Warp does; None if that is not known."""
        ...

    def stored_loops(self) -> Mapping[int, Sequence[StoredLoop]]:
        """Return for each launch the loops of known length whose values its adjoint stores."""
        ...

    def rewritten(self, launch: int) -> frozenset[int]:
        """Return the parameters that a launch stores to although their arrays keep their gradients."""
        ...

    def swap_arguments(self, launch: int, one: int, other: int) -> float:
        """Return the relative change of the values that a launch writes if two arguments are swapped."""
        ...

    def handed_on(self, source: int, target: int, reader: int) -> tuple[float, dict[int, Values]]:
        """Return the change of the loss, and the gradients, if a launch read `source` instead of `target`."""
        ...

    def changed_structs(self) -> Mapping[int, Sequence[int]]:
        """Return the launches whose structs were changed before the reverse pass, in a program for Warp.

        Each comes with the parameters that had changed by then.
        """
        ...

    def gradients_with_structs(self, launches: Collection[int]) -> dict[int, Values] | None:
        """Return the gradients if these launches were reversed with the structs as of the reverse pass.

        None if arrays in these structs are not on the tape.
        """
        ...

    def loss_changes(self, arrays: Sequence[int], scales: Sequence[float]) -> list[float]:
        """Return the changes of the loss when the initial `arrays` are displaced by each of `scales`.

        The loss is the sum of the outputs, each weighted by its seed. The last entry is the size of the loss,
        for comparison.
        """
        ...

    def host_reads(self) -> list[HostRead]:
        """Return the reads of arrays of the tape outside of kernels, for instance through NumPy."""
        ...

    def off_tape_launches(self) -> list[OffTapeLaunch]:
        """Return the launches and copies off the tape whose results it took as constants."""
        ...

    def retains(self) -> bool:
        """Return True if an array of the tape keeps its adjoint on purpose (`retain_grad`)."""
        ...

    def given(self, array: int) -> bool:
        """Return True if an array was created with non-uniform values, and first used by this tape."""
        ...

    def used_elsewhere(self, array: int) -> bool:
        """Return True if another live tape uses the values of an array."""
        ...

    def loss_moved(self, array: int, writer: int | None, scale: float) -> float:
        """Return the change of the loss when the values of `array` after `writer` are perturbed."""
        ...

    def values_moved(self, source: int, array: int, writer: int | None, scale: float) -> float:
        """Return the change of the values of `array` after `writer` when initial `source` is perturbed."""
        ...

    def first_bad_value(self) -> int | None:
        """Return the first launch that writes values that are not finite."""
        ...

    def first_bad_adjoint(self, consume: Consume) -> int | None:
        """Return the first launch, in reverse order, whose adjoint leaves non-finite adjoints."""
        ...

    def dead_adjoints(self) -> list[int]:
        """Return the launches, in reverse order, with nonzero incoming and only zero outgoing adjoints."""
        ...

    def flow(self, launch: int, consume: Consume) -> LaunchFlow:
        """Return the values and adjoints around a launch."""
        ...

    def thread(self, launch: int, index: int, flow: LaunchFlow) -> FollowedThread:
        """Return one thread of a launch, to be followed step by step.

        Raises:
            CannotFollow: The operation has no threads that can be followed.
        """
        ...


def relative_errors(right: Mapping[int, Values], wrong: Mapping[int, Values]) -> dict[int, float]:
    """Return ‖wrong − right‖ / ‖right‖ of each array: 0 if they are equal, inf if the ratio is not finite.

    Entries of `right` that are not finite are left out: the rule `nonfinite` reports them.
    """
    return {array: _relative_error(good, wrong[array]) for array, good in right.items()}


def _relative_error(right: Values, wrong: Values) -> float:
    if np.array_equal(right, wrong, equal_nan=True):
        return 0.0
    sizes, differences = [], []
    for at in blocks(right.size):
        one, other = right.ravel()[at], wrong.ravel()[at]
        sound = np.isfinite(one)
        good, bad = one[sound].astype(np.float64), other[sound].astype(np.float64)
        sizes.append(float(np.linalg.norm(good)))
        differences.append(float(np.linalg.norm(bad - good)))
    size, difference = math.hypot(*sizes), math.hypot(*differences)
    if difference == 0:
        return 0.0
    return difference / size if np.isfinite(difference) and size > 0 else float("inf")


def value_change(shape: Sequence[int], old: Values, new: Values) -> ValueChange:
    """Compare two contents of an array element by element; a vec3 is one element of three scalars."""
    elements = math.prod(shape)
    before, after = old.reshape((elements, -1)), new.reshape((elements, -1))
    changed, largest, place = 0, 0.0, None
    for at in blocks(elements):
        one, other = before[at], after[at]
        differs = ~((one == other) | ((one != one) & (other != other))).all(axis=1)
        if not differs.any():
            continue
        if place is None:
            place = at.start + int(differs.argmax())
        changed += int(differs.sum())
        with np.errstate(all="ignore"):
            apart = np.abs(other.astype(np.float64) - one.astype(np.float64))
        largest = float(np.maximum(largest, apart.max()))  # a NaN stays
    return ValueChange(elements, changed, largest, place)
