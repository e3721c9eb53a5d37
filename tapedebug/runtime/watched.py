"""Launches that are more than a run: what they print is shown, and where one fails nothing of it is left.

Kept out of `launch`, so that all other launches stay as fast as they are.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from tapedebug._errors import NonFiniteError, TapedebugError
from tapedebug.compiler.remarks import FATAL
from tapedebug.lang import types
from tapedebug.runtime import _arguments
from tapedebug.runtime._state import state
from tapedebug.runtime.array import array
from tapedebug.runtime.buffer import Buffer, Bytes
from tapedebug.runtime.config import config
from tapedebug.runtime.plan import KernelPlan
from tapedebug.runtime.record import Record, call_site
from tapedebug.runtime.versions import announce, announced

Values = np.ndarray[Any, Any]


class Memory:
    """The memory of arrays as it is now; it can be put back."""

    def __init__(self, arrays: list[array]) -> None:
        ranges: dict[Buffer, tuple[int, int]] = {}
        for a in arrays:
            start, stop = ranges.get(a.buffer, (a.start, a.stop))
            ranges[a.buffer] = min(start, a.start), max(stop, a.stop)
        self.ranges: list[tuple[Buffer, int, int, Bytes]] = [
            (buffer, start, stop, buffer.copy_range(start, stop)) for buffer, (start, stop) in ranges.items()
        ]

    def restore(self) -> None:
        """Put it back."""
        for buffer, start, stop, copy in self.ranges:
            buffer.data[start:stop] = copy

    def values(self, a: array) -> Values:
        """What an array held, as a NumPy array."""
        (found,) = (r for r in self.ranges if r[0] is a.buffer)
        buffer, start, stop, copy = found
        now = buffer.data[start:stop].copy()
        buffer.data[start:stop] = copy
        values = a._look().copy()
        buffer.data[start:stop] = now
        return values


def launch(plan: KernelPlan, dim: Any, args: tuple[Any, ...], *, record_tape: bool) -> None:
    """As `tapedebug.launch`, once arguments are checked.

    Raises:
        KernelAssertionError: An assertion failed.
        BoundsError: An index was outside its array.
        NonFiniteError: With `config.verify_fp`, something was written that is not finite.
        OverwriteError: As for `launch`.
    """
    from tapedebug.runtime.launch import address_of, launch_dims, packed_for

    sizes, threads, slots = launch_dims(plan.kernel, dim)
    if threads <= 0:
        _arguments.check_dim(plan.kernel, sizes)
        return
    packed = packed_for(plan, args, slots)
    written = [args[p] for p in plan.written]
    before = Memory(written) if plan.heard & FATAL or config.verify_fp else None
    tape = state.tape if record_tape else None
    if before is None:
        _noted(plan, args, sizes, threads, packed, lambda: plan.run(0, threads, address_of(packed)), tape)
        return
    start = perf_counter()
    try:
        plan.run(0, threads, address_of(packed))
        if config.verify_fp:
            require_finite(plan, args, before)
    except TapedebugError as error:
        before.restore()
        raise error.with_traceback(None) from None
    elapsed = perf_counter() - start
    if tape is None and not any(a.buffer.watch for a in written):
        _noted(plan, args, sizes, threads, packed, lambda: None, tape)
        return
    # It has not failed, so that it counts: whoever keeps what it overwrote sees memory as it was before.
    after = Memory(written)
    before.restore()
    record = _noted(plan, args, sizes, threads, packed, after.restore, tape)
    if record is not None:
        record.elapsed = elapsed


def _noted(
    plan: KernelPlan,
    args: tuple[Any, ...],
    sizes: tuple[int, ...],
    threads: int,
    packed: bytes,
    run: Any,
    tape: Any,
) -> Record | None:
    """Run a launch, announced to all tapes and recorded on its own."""
    site = call_site(3)
    if tape is None:
        for p in plan.written:
            announce(args[p], site, "launch")
        run()
        for p in plan.written:
            announced(args[p])
        return None
    record = Record(len(tape.records), plan, args, sizes, threads, packed, site, tape.scope)
    watched = tape.tracker.before(record)
    start = perf_counter()
    run()
    record.elapsed = perf_counter() - start
    if watched:
        tape.tracker.after(record)
    tape.records.append(record)
    return record


def require_finite(plan: KernelPlan, args: tuple[Any, ...], before: Memory) -> None:
    """Refuse elements that were finite, or are new, and are not finite now.

    Raises:
        NonFiniteError: There is one; it names the array, the element and how many there are.
    """
    for p in plan.written:
        a = args[p]
        if not types.is_float(a.dtype):
            continue
        now = a._look()
        if np.isfinite(now).all():
            continue
        born = ~np.isfinite(now) & np.isfinite(before.values(a))
        if born.any():
            raise not_finite(plan, p, now, born, args)


def not_finite(
    plan: KernelPlan, param: int, now: Values, born: np.ndarray[Any, Any], args: tuple[Any, ...]
) -> NonFiniteError:
    """The error of a launch that made numbers that are not finite."""
    kernel = plan.kernel
    place = tuple(int(k) for k in np.argwhere(born)[0])
    count = int(born.sum())
    others = "" if count == 1 else f" ({count} numbers in all)"
    element = ", ".join(map(str, place))
    span = next((x.span for x in kernel.analysis.accesses if x.param == param and x.kind != "read"), None)
    notes = []
    for p in sorted(plan.reads):
        if types.is_float(args[p].dtype) and p != param:
            bad = int((~np.isfinite(args[p]._look())).sum())
            state_of = f"holds {bad} numbers that are not finite" if bad else "is finite"
            notes.append(f"`{plan.names[p]}`, which it reads, {state_of}")
    return NonFiniteError(
        f"kernel `{kernel.__name__}` made `{plan.names[param]}[{element}]` {now[place]}{others}",
        span=span,
        notes=(*notes, "nothing of the launch is left: arrays and tape are as they were before it"),
        mend="find the operation with wp.diagnose(tape); config.verify_fp = False lets such numbers pass",
    )
