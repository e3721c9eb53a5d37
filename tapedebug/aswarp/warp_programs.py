"""Hooks of `as_warp` blocks: differences between Warp's tape and this engine's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass

if TYPE_CHECKING:
    from tapedebug.runtime.foreign_engine import ForeignReverse
    from tapedebug.runtime.tape.record import Record


@dataclass(slots=True)
class WarpNotes:
    """Facts about a record that only Warp's reverse needs (`Record.notes`).

    Attributes:
        given: The arguments as the user gave them, if there are structs among them: Warp reads these again
            in the reverse pass.
        now: The flat arguments when the last reverse pass began, if structs had changed since the launch.
        command: A command launched it (`launch(…, record_cmd=True)`), which Warp's tape does not record.
    """

    given: tuple[Any, ...] = ()
    now: tuple[Any, ...] | None = None
    command: bool = False


def notes_of(record: Record) -> WarpNotes | None:
    """Return the notes of a record, or None if it has none."""
    notes = record.notes
    return notes if isinstance(notes, WarpNotes) else None


class WarpPrograms:
    """The hooks of programs that were written for Warp (a `ForeignEngine`)."""

    def reverse_of(self, on_overwrite: str) -> ForeignReverse | None:
        """Return Warp's reverse passes for a tape that preserves nothing; others give right gradients."""
        if on_overwrite != "ignore":
            return None
        from tapedebug.aswarp.warp_adjoints import WarpAdjoints

        return WarpAdjoints()

    def note_arguments(self, record: Record, args: tuple[Any, ...]) -> None:
        """Keep the arguments of a launch with structs."""
        if not record.plan.kernel.flat:
            record.notes = WarpNotes(given=args)

    def note_command(self, records: Sequence[Record]) -> None:
        """Mark records that a command launched."""
        for record in records:
            if record.notes is None:
                record.notes = WarpNotes()
            record.notes.command = True

    def before_backward(self, records: Sequence[Record]) -> None:
        """Find the structs that changed after their launch."""
        if any(record.notes is not None for record in records):
            from tapedebug.aswarp.struct_mutation import note_changed_structs

            note_changed_structs(records)


WARP = WarpPrograms()
