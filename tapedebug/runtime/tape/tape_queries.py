"""Queries on a recorded tape: versions, replays, past states, last writers, drawings.

They read the records and the copies kept for them; none of them records, or runs backward on the user's
arrays. Modules of replays are loaded when a query needs them: training loops need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tapedebug import contract
from tapedebug._display import renderer
from tapedebug._errors import TapeError
from tapedebug._tape_functions import tape_function
from tapedebug.lang import types
from tapedebug.runtime.capabilities import tape_capability
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.reverse.preset_seeds import pending_seeds
from tapedebug.runtime.tape.buffer_versions import BufferVersions, UntrackedWrite
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.scopes import BackwardCall
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.contract import Array, Engine, Seeds
    from tapedebug.runtime.replay.shadow import Shadow
    from tapedebug.runtime.replay.tape_snapshot import TapeSnapshot
    from tapedebug.runtime.tape.timeline import Version
    from tapedebug.runtime.tape.touched import Touched

T = TypeVar("T")


class TapeQueries:
    """The queries of a tape, valid in any state.

    Attributes:
        records: The records, in order.
        tracker: The tracker of the memory that they use.
        backward_calls: The reverse passes that ran.
    """

    __slots__ = ()

    records: list[Record]
    tracker: Tracker
    backward_calls: list[BackwardCall]

    # -- the debugger's contract ------------------------------------------------------------------------

    @property
    def operations(self) -> list[Record]:
        """The records in order."""
        return self.records

    @property
    def engine(self) -> Engine:
        """The name and version of this engine, for reports."""
        from tapedebug import __version__

        return contract.Engine("tapedebug", __version__, "cpu")

    @property
    def preserves_values(self) -> bool:
        """True if adjoints read the values that each launch had in the forward pass."""
        return self.tracker.mode in ("preserve", "error")

    @property
    def outside_writes(self) -> Sequence[UntrackedWrite]:
        """Writes to the tape's memory that are not on the tape."""
        return self.tracker.outside

    @property
    def reverse_passes(self) -> list[BackwardCall]:
        """The reverse passes that ran, in order."""
        return self.backward_calls

    def uses(self, a: Array, /) -> bool:
        """Return True if a record accesses the memory of an array."""
        return a.region in self.tracker.ledgers

    def new_replay(self, *, float64: bool = False) -> Shadow:
        """Return a private replay that stands before the first record."""
        from tapedebug.runtime.replay.shadow import Shadow

        self.tracker.catch_up_everywhere()
        return Shadow(self.tracker, types.float64 if float64 else None)

    def capability(self, kind: type[T]) -> T | None:
        """Return the implementation of a capability of the debugger's contract, or None."""
        return tape_capability(self, kind)

    # -- queries ----------------------------------------------------------------------------------------

    @property
    def preserved_bytes(self) -> int:
        """Memory of overwritten values that are kept for adjoints, and of checkpoints."""
        return self.tracker.preserved_bytes

    @property
    def livein_bytes(self) -> int:
        """Memory of overwritten values that are kept for replays only."""
        return self.tracker.livein_bytes

    @property
    def outside(self) -> Sequence[UntrackedWrite]:
        """Writes to the tape's memory that are not on the tape."""
        return self.tracker.outside

    @property
    def seeds(self) -> Seeds:
        """The seeds of the last reverse pass: of its loss, of `grads`, and of gradients that held values.

        Before the first pass: the present gradients of the arrays that the tape writes.
        """
        return (
            self.backward_calls[-1].seeds
            if self.backward_calls
            else dict(pending_seeds(self.tracker).items())
        )

    def array_named(self, label: str) -> array:
        """Return the array with a label of traces, findings and diagrams: `tape.array_named("net.x")`.

        Raises:
            TapeError: No array has that label.
        """
        recorded = tape_function("record_with_arrays")(self)
        labels = [info.label for info in recorded.trace.arrays]
        if label not in labels:
            raise TapeError(
                f"the tape has no array {label!r}; it has {', '.join(labels) or 'none'}",
                hint="use one of these, or the array itself",
            )
        found: array = recorded.arrays[labels.index(label)]
        return found

    def replay(
        self, inputs: Mapping[Any, Any] | None = None, dtype: Any = None, stop: int | None = None
    ) -> Shadow:
        """Replay the recorded forward pass on a private copy, from the values that the tape found.

        Args:
            inputs: By array, or its label, values that replace its own before the first record.
            dtype: `float64` runs the kernels' float64 twins.
            stop: Run only the records before this one.

        Returns:
            The shadow, standing before record `stop`; it can run on, and backward.

        Raises:
            TapeError: An input is not on the tape or its values have another shape.
        """
        from tapedebug.runtime.replay.shadow import Shadow

        self.tracker.catch_up_everywhere()
        shadow = Shadow(self.tracker, dtype)
        for a, values in (inputs or {}).items():
            shadow.set(self.array_named(a) if isinstance(a, str) else a, values)
        return shadow.forward(0, stop)

    def at(
        self,
        launch: int | Record,
        when: str = "before",
        backward: bool = False,
        *,
        loss: array | None = None,
        grads: Mapping[array, Any] | None = None,
    ) -> TapeSnapshot:
        """Show the arrays at a moment of the tape: `with tape.at(12, "after") as moment:`.

        Within the block the arrays of the tape hold the values that they had at that moment, and with
        `backward` their `.grad` holds the adjoints of these values. At the end of the block everything is
        restored to the last bit, also after an exception or Ctrl-C.

        Args:
            launch: A record of this tape, or its index; negative ones count from the end.
            when: `"before"` or `"after"` the launch.
            backward: Also show adjoints: `"after"` a launch the adjoints that its reverse starts from,
                `"before"` it those that its reverse produces.
            loss: The loss of these adjoints, as for `backward`; by default that of the last call of
                `backward`.
            grads: The incoming gradients, as for `backward`; by default those of its last call.

        Raises:
            TapeError: There is no such launch, or no loss is known. Also if blocks of this kind are nested,
                or if one is combined with a recording tape.
        """
        from tapedebug.runtime.replay.tape_snapshot import TapeSnapshot

        tape: Any = self
        return TapeSnapshot(tape, launch, when, backward, loss, grads)

    def versions(self) -> list[Version]:
        """Return every version of every range of memory that the tape used, in the order of writing."""
        from tapedebug.runtime.tape.timeline import list_versions

        return list_versions(self.tracker)

    def writers(self, a: array) -> Touched:
        """Return the last writer of each element of an array: launch, thread, line.

        With `track="elements"` they were noted when the launches ran; otherwise the launches are replayed on
        a private copy.

        Raises:
            TapeError: The tape does not use the array's memory.
        """
        from tapedebug.runtime.tape.touched import touched

        return touched(self, a, "write")

    def readers(self, a: array) -> Touched:
        """Return the last reader of each element of an array; see `writers`."""
        from tapedebug.runtime.tape.touched import touched

        return touched(self, a, "read")

    def ledgers(self) -> list[BufferVersions]:
        """Return the tape's memory, one ledger per buffer."""
        return list(self.tracker.ledgers.values())

    # -- display --------------------------------------------------------------------------------------

    def trace(self, **options: Any) -> Any:
        """Return the tape as plain data.

        Args:
            options: As for `tapedebug.trace.record`: `values`, `max_bytes`, `max_seconds`, `name`.

        Returns:
            A `tapedebug.trace.Trace`.
        """
        return tape_function("record")(self, **options)

    def visualize(self, *args: Any, **options: Any) -> str:
        """Return the launches as a diagram in Graphviz's DOT language.

        Args:
            args: As for `tapedebug.visualize.visualize`.
            options: As for `tapedebug.visualize.visualize`.

        Returns:
            The DOT text.
        """
        return str(tape_function("visualize")(self, *args, **options))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return renderer().panel(self)

    def _display_(self) -> Any:
        return renderer().marimo(self)
