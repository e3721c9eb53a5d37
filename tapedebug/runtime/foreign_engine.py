"""Hooks for programs that were written for another engine: what it records and reverses in another way.

A package that runs such programs sets `state.foreign` meanwhile; this engine imports none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tapedebug.runtime.launch.plan import Runner
    from tapedebug.runtime.tape.record import Record


class ForeignReverse(Protocol):
    """Reverse passes that give the gradients of another engine, right or wrong."""

    @property
    def engine(self) -> str:
        """The name of the other engine."""

    def omits(self, record: Record) -> bool:
        """Return True if the other engine does not record an operation, so that no pass reverses it."""

    def adjoint_of(self, record: Record) -> Runner | None:
        """Return the other engine's adjoint of a launch, or None if this engine's gives the same."""


class ForeignEngine(Protocol):
    """The engine that the running program was written for."""

    def reverse_of(self, on_overwrite: str) -> ForeignReverse | None:
        """Return the reverse passes of a tape that begins now, or None for those of this engine."""

    def note_arguments(self, record: Record, args: tuple[Any, ...]) -> None:
        """Note the arguments of a launch as the user gave them; the tape has recorded it."""

    def note_command(self, records: Sequence[Record]) -> None:
        """Note that a command launched these records (`launch(…, record_cmd=True)`)."""

    def before_backward(self, records: Sequence[Record]) -> None:
        """Prepare for a reverse pass of a tape with these records."""
