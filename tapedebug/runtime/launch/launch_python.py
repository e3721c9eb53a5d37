"""`launch_python`: run functions of NumPy arrays as one operation that tapes record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from time import perf_counter
from typing import Any

from tapedebug._errors import LaunchError
from tapedebug.lang import types
from tapedebug.runtime.launch.python_operation import PythonOperation, PythonPlan, Values
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.state import here, refuse_at_another_time
from tapedebug.runtime.tape.buffer_versions import RangeState
from tapedebug.runtime.tape.gradient_history import is_gradient, note_read
from tapedebug.runtime.tape.record import Record, Site, call_site
from tapedebug.runtime.tape.write_barrier import after_write, before_write

Ran = tuple[Sequence[Values | None], float]
"""The results of an operation that has run already, one for each array that it writes, and the seconds."""


def launch_python(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    reads: Sequence[array],
    writes: Sequence[array],
    jvp: Callable[..., Any] | None = None,
    name: str | None = None,
) -> None:
    """Run Python functions of NumPy arrays as one operation; differentiable on an active tape.

    The operation runs immediately. A tape records it like a launch: a torch module, a linear solver or a
    table look-up between two launches is reversed by `Tape.backward`, replayed, checked and diagnosed.

    Args:
        forward: `forward(*values of reads)` returns the values of `writes`: an array, or a tuple of arrays if
            there are several. It must depend on its arguments only, and must not change them.
        backward: `backward(values of reads, adjoints of writes)`, two tuples, returns the adjoints of
            `reads`: an array, or a tuple with one for each of them; None for no gradient.
        reads: The arrays that the operation reads.
        writes: The arrays that it overwrites completely. An array that is also among `reads` is changed in
            place.
        jvp: `jvp(values of reads, tangents of reads)`, two tuples, returns the tangents of `writes`.
        name: Name of the operation in messages and diagrams; by default the name of `forward`.

    Values have the shape of their array, plus that of its elements: (n, 3) for n vec3. Replays in float64
    call the functions with float64.

    Raises:
        LaunchError: An argument does not fit, or the result of `forward` does not fit `writes`. In this case,
            and if `forward` raises, no array has changed and nothing is recorded.
    """
    try:
        operation = _operation(forward, backward, reads, writes, jvp, name)
    except LaunchError as error:
        raise error.with_traceback(None) from None
    refuse_at_another_time(f"launch_python of {operation.key}")
    run_operation(operation, call_site())


def run_operation(operation: PythonOperation, site: Site, ran: Ran | None = None) -> None:
    """Run a Python operation, and record it on the active tape.

    Args:
        operation: The operation.
        site: The place in the user's source.
        ran: The results and seconds of the operation, if the caller has run it.

    Raises:
        LaunchError: The result does not fit. In this case, and if the operation raises, nothing has changed.
    """
    args = operation.args
    into = [args[p] for p in operation.targets]
    for p in operation.sources:
        if is_gradient(args[p]):
            note_read(args[p], "launch")
    if ran is None:
        start = perf_counter()
        results = operation.run(
            [args[p]._numpy_view() for p in operation.sources], [a.scalar_dtype for a in into]
        )
        elapsed = perf_counter() - start
    else:
        results, elapsed = operation.fitting(ran[0]), ran[1]
    tape = here.thread.tape
    if tape is None:
        for a in into:
            before_write(a, site, "launch")
    else:
        record = Record(len(tape.records), PythonPlan(operation), args, (), 0, b"", site, tape.scope)
        record.elapsed = elapsed
        tape.tracker.before(record)
    for a, values in zip(into, results, strict=True):
        a._numpy_view()[...] = values
    if tape is None:
        for a in into:
            after_write(a)
    else:
        if any(a.buffer.windows for a in into):
            tape.tracker.after(record)
        tape.records.append(record)


def _operation(
    forward: Any, backward: Any, reads: Any, writes: Any, jvp: Any, name: str | None
) -> PythonOperation:
    """Return the operation after checking its arguments.

    Raises:
        LaunchError: An argument does not fit.
    """
    key = name or getattr(forward, "__name__", None) or type(forward).__name__
    for label, function in (("forward", forward), ("backward", backward), ("jvp", jvp)):
        if not callable(function) and (label != "jvp" or function is not None):
            raise LaunchError(
                f"launch_python of {key}: {label} must be callable; got {function!r}", hint="pass a function"
            )
    for label, arrays in (("reads", reads), ("writes", writes)):
        if isinstance(arrays, array) or not isinstance(arrays, Sequence):
            raise LaunchError(
                f"launch_python of {key}: {label} must be a list of arrays; got {arrays!r}",
                hint=f"pass {label}=[array]",
            )
        for number, a in enumerate(arrays):
            if not isinstance(a, array) or types.is_struct(a.dtype):
                hint = "pass a field of it, such as a['x']" if isinstance(a, array) else "pass an array"
                raise LaunchError(
                    f"launch_python of {key}: {label}[{number}] must be an array of numbers, vectors or "
                    f"matrices; got {a!r}",
                    hint=hint,
                )
    if not writes:
        raise LaunchError(f"launch_python of {key}: writes is empty", hint="name the arrays that it computes")
    for (i, one), (j, other) in combinations(enumerate(writes), 2):
        if one.buffer is other.buffer and (one is other or RangeState(0, one).meets(RangeState(1, other))):
            raise LaunchError(
                f"launch_python of {key}: writes[{i}] and writes[{j}] share memory",
                hint="write each element through one array",
            )
    return PythonOperation(forward, backward, jvp, str(key), list(reads), list(writes))
