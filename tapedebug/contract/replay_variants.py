"""Capabilities: replays in float64, with tangents, of one operation, or with other adjoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tapedebug._dataclass import dataclass
from tapedebug.contract.program import A, Array, Operation, RecordedTape, Replay, Values


class Float64(Protocol):
    """The same program in float64. It is a property of the whole tape."""

    def obstacle(self) -> str:
        """Return why a float64 replay is not possible or not entirely float64; empty if it is."""

    def narrow(self) -> Collection[int]:
        """Return the indices of the operations that compute in float32 in a float64 replay."""


class Tangents(Protocol):
    """Forward-mode derivatives: replays have `push` and `tangent`, see `TangentReplay`."""

    def tangent_replay(self, *, float64: bool = False) -> TangentReplay:
        """Return a new replay that can push tangents."""


class TangentReplay(Replay, Protocol):
    """A replay that runs forward with tangents."""

    lost: list[str]
    """Operations without a tangent that a tangent reached in the last `push`; their results are unknown."""

    def push(
        self,
        tangents: Mapping[A, Values] | None,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Operation], Any] | None = None,
        detached: bool = False,
    ) -> TangentReplay:
        """Run the operations `start … stop-1` with tangents; None goes on with those of the last call."""

    def tangent(self, array: Array, /) -> Values:
        """Return a copy of the tangent of an array now."""


class SecondOrder(Protocol):
    """Second derivatives: the reverse pass has tangents, see `SecondOrderReplay`."""

    def second_order_replay(self, *, float64: bool = False) -> SecondOrderReplay:
        """Return a new replay whose reverse pass has tangents; raises if float64 is not possible."""


class SecondOrderReplay(TangentReplay, Protocol):
    """A replay whose reverse pass carries the tangents of the forward pass along."""

    uncovered: list[str]
    """The operations without a replay or an adjoint; no second derivative is known if there are any."""

    def pull(self, seeds: Mapping[A, Any]) -> SecondOrderReplay:
        """Run the reverse pass with the tangents of the last `push`."""

    def gradient_tangent(self, array: Array, /) -> Values:
        """Return a copy of the tangent of the adjoint of an array."""


class NoTangents(Protocol):
    """An operation that does not propagate tangents: the tangents of its results are unknown."""

    def reason(self) -> str:
        """Return why, as a clause: `record 3 is a Python operation without jvp (solve)`."""


class Irreplayable(Protocol):
    """An operation that has no forward, such as the closure of a `record_func`."""

    def reason(self) -> str:
        """Return why it cannot be run again, as a clause: `record 3 is a custom function (clip), …`."""


class SingleReplay(Protocol):
    """An operation that can be replayed alone, without those before it."""

    def new_replay(self, args: Sequence[Any] | None = None, /, *, float64: bool = False) -> Replay:
        """Return a replay of this operation only, which has not run.

        Args:
            args: Arrays and values in place of `Operation.args`; arrays hold what it starts from.
            float64: Compute in float64; raises if that is not possible.
        """


class LocalReplays(Protocol):
    """Replays of single operations of a tape, from any values."""

    def new_replay(self, index: int, values: Mapping[A, Values], /, *, float64: bool = False) -> Replay:
        """Return a replay of one operation, which is operation 0 there, on the tape's own arrays.

        Args:
            index: The index of the operation on the tape.
            values: The values that it starts from, of each array that it accesses.
            float64: Compute in float64; raises if that is not possible.
        """


class ReplayReuse(Protocol):
    """Memory of replays that have ended, for later ones: an engine whose replays are expensive to make."""

    def reused(self) -> AbstractContextManager[None]:
        """Return a context in which new replays of the tape may use the memory of ones that have ended."""


class Recording(Protocol):
    """The operations of a tape up to now, which can be replayed also after the program resets the tape."""

    @property
    def operations(self) -> Sequence[Operation]:
        """The operations in order."""

    def new_replay(self, *, float64: bool = False) -> Replay:
        """Return a new replay, as `RecordedTape.new_replay` does."""

    def weak(self) -> Callable[[], Recording | None]:
        """Return a weak reference; called, it returns None once the recording is gone."""


class StaleReads(Protocol):
    """Reverse passes in which some adjoints read other values than their operations had."""

    def new_replay(self) -> Replay:
        """Return a new replay that `see` can be used with."""

    def see(
        self, replay: Replay, now: Collection[tuple[int, int]], left: Collection[tuple[int, int]], /
    ) -> None:
        """Set what the next reverse passes read, by (operation, parameter).

        Args:
            replay: One of `new_replay` that has run forward.
            now: These read the values at the end of the forward pass.
            left: These read the values just after the operation. All others read the values that it had.
        """


class Rerecording(Protocol):
    """The same operations once more, on a private tape, with other adjoints."""

    def rerecorded(
        self, revived: Callable[[Any], frozenset[int]], stop: int | None = None, /
    ) -> RecordedTape:
        """Return a tape of the same operations, of which some arrays have a gradient that they did not have.

        Args:
            revived: Gives the parameters of an operation that are such arrays.
            stop: The number of operations; by default all.
        """


class Confinement(Protocol):
    """The range of indices that operations use."""

    def is_confined(self) -> bool:
        """True if no operation can reach out of the memory of a replay, whatever values it is given."""


class Repeatability(Protocol):
    """The differences between two runs of a tape on the same values."""

    def is_repeatable(self) -> bool:
        """True if there are none, whatever the values are: nothing depends on time or on thread schedules."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A step that copies the values of one array to another of the same shape."""

    dest: Array
    src: Array


class Resequencing(Protocol):
    """Operations of a tape in another order, some of them more than once, as in a longer loop."""

    def new_replay(self, steps: Sequence[Operation | Copy], /, *, float64: bool = False) -> Replay:
        """Return a replay of other steps. It starts from the current memory; `set` gives other inputs.

        Args:
            steps: Operations of the tape, and copies between its arrays.
            float64: Compute in float64; raises if that is not possible.
        """
