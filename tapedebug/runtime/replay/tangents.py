"""Forward runs of records in private memory: values alone, and values with their tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from tapedebug.lang import types
from tapedebug.runtime.launch.plan import Runner
from tapedebug.runtime.launch.python_operation import forward_python, operation_of, tangent_python
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Bytes
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.reverse.argument_table import ArgumentTable
from tapedebug.runtime.tape.record import Record

Calls = list[tuple[Runner, int]]
"""By record, the function that runs it and the address of its packed arguments."""


def tangent_calls(
    records: list[Record], space: ShadowSpace, lost: Callable[[Record], None], detached: bool
) -> tuple[Any, Calls]:
    """Return the calls that run each record with its tangent, and the table that must live as long.

    Args:
        records: The records of the tape.
        space: The space of values and tangents.
        lost: Called with a custom function that a tangent went into.
        detached: Tangents stop where gradients do.
    """
    table = ArgumentTable(records, space)
    calls: Calls = []
    for record in records:
        if record.kind == "kernel" and record.plan.kernel.analysis.opaque:
            calls.append(_opaque(record, table, space, lost))
        elif record.kind == "kernel":
            base, address = table.base[record.index], table.forward(record)
            for p, slot in record.plan.dotted(detached):
                table.words[base + slot] = space.dot(record.args[p])
            calls.append((record.plan.tangent_run(space.f64, detached), address))
        elif record.kind == "python":
            calls.append((tangent_python(record, space, lost, detached), 0))
        elif record.kind == "func":
            calls.append((_custom(record, space, lost), 0))
        else:
            calls.append((tangent_special(record, space, detached), 0))
    return table, calls


def why_lost(record: Record) -> str:
    """Return why the tangents that go into a record are lost, as a clause; empty if they are not."""
    if record.kind == "kernel":
        opaque = record.plan.kernel.analysis.opaque
        called = f"launch {record.index} ({record.name}) calls the native function"
        return f"{called} {opaque[0]}" if opaque else ""
    if record.kind == "python" and operation_of(record).jvp is None:
        return f"record {record.index} is a Python operation without jvp ({record.name})"
    return f"record {record.index} is a custom function ({record.name})" if record.kind == "func" else ""


def _opaque(
    record: Record, table: ArgumentTable, space: ShadowSpace, lost: Callable[[Record], None]
) -> tuple[Runner, int]:
    """Return the call of a launch that passes float arrays to native functions: their C has no tangent."""
    run, address = record.plan.forward_run(space.f64), table.forward(record)
    floats = [a for a in record.args if isinstance(a, array) and types.is_float(a.dtype)]

    def called(lo: int, hi: int, where: int) -> None:
        run(lo, hi, where)
        if any(space.dot_view(a).any() for a in floats):
            lost(record)

    return called, address


def _custom(record: Record, space: ShadowSpace, lost: Callable[[Record], None]) -> Runner:
    """Return the call of a custom function: it does not run, but reports tangents that are lost."""
    floats = [a for a in record.args if isinstance(a, array) and types.is_float(a.dtype)]

    def called(lo: int, hi: int, where: int) -> None:
        if record.func is not None and any(space.dot_view(a).any() for a in floats):
            lost(record)

    return called


def tangent_special(record: Record, space: ShadowSpace, detached: bool = False) -> Runner:
    """Return the call of a copy or a fill, with its tangent."""
    values = forward_special(record, space)
    dest = record.args[0]
    if not types.is_float(dest.dtype) or (detached and 0 not in record.active):
        return values
    passes = record.kind == "copy" and (not detached or 1 in record.active)

    def moved(lo: int, hi: int, where: int) -> None:
        values(lo, hi, where)
        dot = space.dot_view(dest)
        if not passes:
            dot[...] = 0
        elif dest.buffer is record.args[1].buffer:
            dot[...] = space.dot_view(record.args[1]).copy()
        else:
            parallel_memcpy.copy(dot, space.dot_view(record.args[1]))

    return moved


class _Values(Protocol):
    def value_view(self, a: array) -> np.ndarray[Any, Any]:
        """Return the values of an array in private memory."""


def forward_special(record: Record, space: _Values) -> Runner:
    """Return the function that runs a copy, a fill or a Python operation; a custom function does not run."""
    if record.kind == "python":
        return forward_python(record, space.value_view)
    if record.kind == "func":
        return lambda lo, hi, where: None
    dest = space.value_view(record.args[0])
    if record.kind == "copy":
        src = space.value_view(record.args[1])
        if record.args[0].buffer is record.args[1].buffer:
            return lambda lo, hi, where: np.copyto(dest, src.copy())
        return lambda lo, hi, where: parallel_memcpy.copy(dest, src)
    value = np.frombuffer(record.value, dtype=types.numpy_dtype(record.args[0].dtype))
    item = value.reshape(types.value_shape(record.args[0].dtype))
    return lambda lo, hi, where: np.copyto(dest, item)


def paired(memory: list[tuple[Bytes | None, Bytes | None]]) -> tuple[float, float]:
    """Return the inner product of tangents and adjoints in float64 memory, and that of absolute values."""
    total = size = 0.0
    for tangent, adjoint in memory:
        if tangent is None or adjoint is None:
            continue
        whole = tangent.size // 8 * 8
        dot, adj = tangent[:whole].view(np.float64), adjoint[:whole].view(np.float64)
        both = (dot != 0) & (adj != 0)  # zero times infinity counts as zero: it has no effect on a loss
        terms = dot[both] * adj[both]
        total += float(terms.sum())
        size += float(np.abs(terms).sum())
    return total, size
