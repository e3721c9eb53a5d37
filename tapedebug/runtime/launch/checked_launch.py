"""Launches with prints and bounds checks; a launch that fails leaves memory unchanged.

Separate from `launch`, so that all other launches stay fast.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from tapedebug._errors import TapedebugError
from tapedebug.compiler.diagnostics import FATAL
from tapedebug.runtime.config import config
from tapedebug.runtime.launch import argument_checks
from tapedebug.runtime.launch.access_tags import surely_inside
from tapedebug.runtime.launch.finite_check import FiniteCheck
from tapedebug.runtime.launch.plan import KernelPlan
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer, Bytes
from tapedebug.runtime.state import state
from tapedebug.runtime.tape.gradient_history import note_read
from tapedebug.runtime.tape.record import Record, call_site
from tapedebug.runtime.tape.write_barrier import after_write, before_write


class Memory:
    """A snapshot of the memory of arrays, which can be restored."""

    def __init__(self, arrays: list[array]) -> None:
        ranges: dict[Buffer, tuple[int, int]] = {}
        for a in arrays:
            start, stop = ranges.get(a.buffer, (a.start, a.stop))
            ranges[a.buffer] = min(start, a.start), max(stop, a.stop)
        self.ranges: list[tuple[Buffer, int, int, Bytes]] = [
            (buffer, start, stop, buffer.copy_range(start, stop)) for buffer, (start, stop) in ranges.items()
        ]

    def restore(self) -> None:
        """Restore the memory."""
        for buffer, start, stop, copy in self.ranges:
            buffer.data[start:stop] = copy


def launch(plan: KernelPlan, dim: Any, args: tuple[Any, ...], *, record_tape: bool) -> None:
    """Run a launch whose arguments have been checked, like `tapedebug.launch`.

    Raises:
        KernelAssertionError: An assertion failed.
        BoundsError: An index was outside its array.
        NonFiniteError: With `config.verify_fp`, a non-finite value was written.
        OverwriteError: As for `launch`.
    """
    from tapedebug.runtime.launch.launch import address_of, launch_dims

    sizes, threads, slots = launch_dims(plan.kernel, dim)
    if threads <= 0:
        argument_checks.check_dim(plan.kernel, sizes)
        return
    packed = plan.packed(slots, args)
    written = [args[p] for p in plan.written]
    tape = state.tape if record_tape else None
    record = None
    if tape is None:
        for p in plan.gradients:
            note_read(args[p], "launch")
    else:
        record = Record(len(tape.records), plan, args, sizes, threads, packed, call_site(2), tape.scope)

    def run() -> None:
        plan.large(0, threads, address_of(packed))

    fails = bool(plan.diagnostics & FATAL or config.verify_fp)
    if tape is not None and tape.tracking is not None and record is not None:
        run = tape.tracking.prepared(record)
        fails = fails or not surely_inside(record)
    before = Memory(written) if fails else None
    if before is None:
        _noted(written, run, tape, record)
        return
    finite = FiniteCheck(array._numpy_view) if config.verify_fp else None
    start = perf_counter()
    try:
        if finite is not None:
            finite.before(plan, args)
        run()
        if finite is not None:
            finite.after(plan, args)
    except TapedebugError as error:
        before.restore()
        raise error.with_traceback(None) from None
    elapsed = perf_counter() - start
    if tape is None and not any(a.buffer.watch for a in written):
        _noted(written, lambda: None, tape, record)
        return
    # The launch succeeded. Tapes that preserve overwritten values must see memory as it was before.
    after = Memory(written)
    before.restore()
    _noted(written, after.restore, tape, record)
    if record is not None:
        record.elapsed = elapsed


def _noted(written: list[array], run: Callable[[], None], tape: Any, record: Record | None) -> None:
    """Run a launch: announce its writes to all tapes, and record it on the active one."""
    if record is None:
        site = call_site(3)
        for a in written:
            before_write(a, site, "launch")
        run()
        for a in written:
            after_write(a)
        return
    watched = tape.tracker.before(record)
    start = perf_counter()
    run()
    record.elapsed = perf_counter() - start
    if watched:
        tape.tracker.after(record)
    tape.records.append(record)
