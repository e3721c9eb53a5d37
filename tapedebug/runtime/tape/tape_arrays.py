"""The arrays of a tape, and more arrays and launches for one: for checks that build tapes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug.lang.types import is_float
from tapedebug.runtime.launch.launch import address_of, launch_dims, resolve
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.tape.tape import Tape


def arrays_of(tape: Tape) -> list[array]:
    """Return the arrays that the records of a tape use."""
    return list(tape.tracker.states)


def gradient_in_memory(a: array) -> array | None:
    """Return the gradient of an array, or None if it has no memory yet: `.grad` would allocate it."""
    return a.grad if a.requires_grad and a.buffer.adjoint is not None else None


def launch_kind(record: Record) -> int:
    """Return a number that is equal for launches of a kernel with equal types and gradients."""
    return id(record.plan)


def include_array(tape: Tape, a: array) -> None:
    """Add an array that no record uses to a tape, with its present values."""
    tape.tracker.include(a)


def results_of(tape: Tape) -> list[array]:
    """Return the float arrays that a tape writes and does not read afterwards, by their last write."""
    found: dict[tuple[int, int], tuple[int, array]] = {}
    ledgers = tape.tracker.ledgers
    for record in tape.records:
        for p in sorted(record.reads):
            ledger = ledgers[record.args[p].region]
            for state in ledger.around(ledger.state(record.args[p])):
                found.pop((id(ledger), state.number), None)
        for p in sorted(record.writes):
            written = record.args[p]
            if is_float(written.dtype):
                ledger = ledgers[written.region]
                found[id(ledger), ledger.state(written).number] = record.index, written
    return [a for _, a in sorted(found.values(), key=lambda pair: pair[0])]


def launch_again(tape: Tape, record: Record, args: tuple[Any, ...]) -> None:
    """Run a recorded launch on other arrays, and record it on a tape. Its `print`s print nothing.

    Args:
        tape: The tape that records it; it need not be active.
        record: The launch.
        args: Its arguments, flat, with arrays in place of those of the record.
    """
    plan, given = resolve(record.kernel, args, flat=True)
    sizes, threads, slots = launch_dims(record.kernel, record.dim)
    packed = plan.packed(slots, given)
    again = Record(record.index, plan, given, sizes, threads, packed, record.site, None)
    watched = tape.tracker.before(again)
    plan.forward_run(False)(0, threads, address_of(packed))
    if watched:
        tape.tracker.after(again)
    tape.records.append(again)
