"""Copies and fills: recorded if a tape is active, and always reported to live tapes."""

from __future__ import annotations

import operator
from time import perf_counter
from typing import Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.device import get_device
from tapedebug.runtime.launch.plan import LaunchPlan, has_gradient
from tapedebug.runtime.memory import convert, struct_fields
from tapedebug.runtime.memory.array import array, new
from tapedebug.runtime.memory.buffer import ZERO
from tapedebug.runtime.memory.held_arrays import keep_alive
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.state import state
from tapedebug.runtime.tape.builtin_plans import COPY, FILL, READ, WRITE
from tapedebug.runtime.tape.gradient_history import is_gradient, note_read
from tapedebug.runtime.tape.imported_arrays import arrived
from tapedebug.runtime.tape.record import Record, Site, call_site
from tapedebug.runtime.tape.write_barrier import after_write, before_write


def copy(
    dest: array | indexedarray,
    src: array | indexedarray,
    dest_offset: int = 0,
    src_offset: int = 0,
    count: int = 0,
    stream: Any = None,
) -> None:
    """Copy elements of `src` into `dest`; differentiable on an active tape.

    Args:
        dest: Target, at least as large as the copied range; of an indexed array the selected elements.
        src: Source of the same dtype. If one of the two is an indexed array, it is copied whole.
        dest_offset: First element of `dest` to write.
        src_offset: First element of `src` to read.
        count: Number of elements; 0 means all of `src`.
        stream: Accepted and ignored on the CPU.

    Raises:
        ArrayError: An argument is not an array, the dtypes differ, or a range is out of bounds.
    """
    try:
        if isinstance(dest, indexedarray) or isinstance(src, indexedarray):
            _copy_selected(dest, src, (dest_offset, src_offset, count))
            return
        target, source = _copy_views(dest, src, dest_offset, src_offset, count)
    except ArrayError as error:
        raise error.with_traceback(None) from None
    if source.size == 0:
        return
    if types.is_struct(source.dtype):
        for into, of in zip(struct_fields.leaves(target), struct_fields.leaves(source), strict=True):
            copy(into, of)
        keep_alive(target)
        return
    plan = COPY[has_gradient(target), has_gradient(source)]
    if is_gradient(source):
        note_read(source, "copy")
    record = _begin(plan, (target, source), "copy", written=target)
    start = perf_counter()
    values = source._numpy_view()
    # NumPy copies some overlapping ranges in the wrong order (one dimension, different strides).
    parallel_memcpy.copy(target._numpy_view(), values.copy() if source.buffer is target.buffer else values)
    _finish(record, target, start)


def assign(dest: array, src: Any) -> None:
    """Execute `dest.assign(src)`: copy an array, or data that becomes a constant on an active tape.

    Raises:
        ArrayError: The sizes differ or the data does not fit the dtype.
    """
    if isinstance(src, indexedarray):
        src = src.contiguous()
    if not isinstance(src, array):
        try:
            values = convert.to_values(src, dest.dtype, dest.shape)
        except ArrayError as error:
            raise ArrayError(
                f"assign to an array{dest._facts()}: {error.message.removeprefix('array: ')}", hint=error.hint
            ) from None
        if state.tape is None:
            if dest.size:
                before_write(dest, _site_for(dest, 2), "assign")
                parallel_memcpy.copy(dest._numpy_view(), values)
                if types.is_struct(dest.dtype):
                    keep_alive(dest)
                after_write(dest)
            return
        given, src = src, new(dest.shape, dest.dtype)
        src._numpy_view()[...] = values
        if types.is_struct(dest.dtype):
            keep_alive(src)
        arrived(src, "assign", given)
    if src.size != dest.size:
        raise ArrayError(
            f"assign to an array{dest._facts()}: the source has shape {src.shape} ({src.size} elements)",
            hint="assign as many elements as the array has",
        )
    copy(dest, src)


def clone(
    src: array | indexedarray,
    device: Any = None,
    requires_grad: bool | None = None,
    pinned: bool | None = None,
    retain_grad: bool = False,
) -> array:
    """Return a contiguous copy of `src`; differentiable on an active tape.

    Args:
        src: The array to copy; of an indexed array the selected elements.
        device: Only `"cpu"` exists.
        requires_grad: By default that of `src`; False detaches the copy.
        pinned: Accepted and ignored on the CPU.
        retain_grad: Keep the copy's `.grad` after `Tape.backward`.
    """
    if not isinstance(src, array | indexedarray):
        raise ArrayError(f"clone: {src!r} is not an array", hint="pass an array")
    get_device(device)
    made = new(src.shape, src.dtype)
    made.requires_grad = src.requires_grad if requires_grad is None else requires_grad
    made.retain_grad = retain_grad
    copy(made, src)
    return made


def fill(dest: array, value: Any) -> None:
    """Execute `dest.fill_(value)`; on an active tape the gradient of the overwritten values becomes 0."""
    item = convert.element_bytes(value, dest.dtype, lambda: f"fill_ of an array{dest._facts()}")
    if dest.size == 0:
        return
    if types.is_struct(dest.dtype):
        for leaf, inside in zip(dest.dtype.leaves(), struct_fields.leaves(dest), strict=True):
            _fill(inside, item[leaf.offset : leaf.offset + inside.item_size])
        keep_alive(dest)
        return
    _fill(dest, item)


def _fill(dest: array, item: bytes) -> None:
    record = _begin(FILL[has_gradient(dest)], (dest,), "fill_", written=dest)
    if record is not None:
        record.value = item
    start = perf_counter()
    fill_bytes(dest, item)
    _finish(record, dest, start)


def fill_bytes(dest: array, item: bytes) -> None:
    """Set every element to the value with these bytes; set the buffer's `fill` if it is filled completely."""
    buffer, whole, zero = dest.buffer, dest.is_contiguous, not any(item)
    if zero:
        parallel_memcpy.clear(buffer.data[dest.start : dest.stop] if whole else dest._numpy_view())
    else:
        values = np.frombuffer(item, dtype=types.numpy_dtype(dest.dtype))
        dest._numpy_view()[...] = values.reshape(types.value_shape(dest.dtype))
    if whole and dest.stop - dest.start == buffer.nbytes and not buffer.windows:
        buffer.fill = ZERO if zero else item


def mark(a: array, *, writes: bool) -> None:
    """Announce a read or write by code outside kernels: `mark_read`, `mark_write`."""
    tape = state.tape
    if writes:
        if tape is not None:
            tape.tracker.may_overwrite(
                Record(len(tape.records), WRITE, (a,), (0,), 0, b"", call_site(3), tape.scope)
            )
        before_write(a, call_site(3), "mark_write")
    elif tape is not None:
        probe = Record(len(tape.records), READ, (a,), (0,), 0, b"", call_site(3), tape.scope)
        tape.tracker.before(probe)


def _begin(plan: LaunchPlan, args: tuple[array, ...], how: str, written: array) -> Record | None:
    """Announce a write; on an active tape, return the record for `_finish` to append."""
    tape = state.tape
    if tape is None:
        before_write(written, _site_for(written, 4), how)
        return None
    record = Record(len(tape.records), plan, args, args[0].shape, args[0].size, b"", call_site(3), tape.scope)
    tape.tracker.before(record)
    return record


def _site_for(a: array, depth: int) -> Site | None:
    """Return the call site if a tape or a gradient history notes writes to this array; else None."""
    return call_site(depth) if a.buffer.watch or a.buffer.history is not None else None


def _finish(record: Record | None, written: array, start: float) -> None:
    if record is None:
        after_write(written)
    elif state.tape is not None:
        record.elapsed = perf_counter() - start
        if any(a.buffer.windows for a in record.args):
            state.tape.tracker.after(record)
        state.tape.records.append(record)


def _copy_selected(dest: Any, src: Any, numbers: tuple[int, int, int]) -> None:
    """Copy between two arrays, at least one of which is an indexed array."""
    for name, a in (("dest", dest), ("src", src)):
        if not isinstance(a, array | indexedarray):
            raise ArrayError(
                f"copy: {name} must be an array; got {a!r} ({type(a).__name__})", hint="pass two arrays"
            )
    if dest.dtype is not src.dtype or dest.shape != src.shape or any(numbers):
        raise ArrayError(
            "copy: an indexed array is copied whole, to or from an array of its shape and dtype; got "
            f"dest={dest!r} and src={src!r}"
            + (f" with dest_offset={numbers[0]}, src_offset={numbers[1]}, count={numbers[2]}" * any(numbers)),
            hint="copy contiguous(), or select other elements",
        )
    source = src.contiguous() if isinstance(src, indexedarray) else src
    if isinstance(dest, indexedarray):
        dest.assign(source)
    else:
        copy(dest, source)


def _copy_views(dest: Any, src: Any, dest_offset: int, src_offset: int, count: int) -> tuple[array, array]:
    """Return the two ranges of a copy as arrays of one shape."""
    for name, a in (("dest", dest), ("src", src)):
        if not isinstance(a, array):
            raise ArrayError(
                f"copy: {name} must be an array; got {a!r} ({type(a).__name__})", hint="pass two arrays"
            )
    if dest.dtype is not src.dtype:
        raise ArrayError(
            f"copy: dest has dtype {types.type_name(dest.dtype)}, src has {types.type_name(src.dtype)}",
            hint="use arrays of one dtype",
        )
    numbers = [operator.index(n) for n in (dest_offset, src_offset, count)]
    if min(numbers) < 0:
        raise ArrayError(
            f"copy: offsets and count cannot be negative; "
            f"got dest_offset={numbers[0]}, src_offset={numbers[1]}, count={numbers[2]}",
            hint="pass 0 or more",
        )
    whole = not any(numbers)
    if whole and dest.shape == src.shape:
        return dest, src
    amount = numbers[2] or src.size
    for name, a, offset in (("dest", dest, numbers[0]), ("src", src, numbers[1])):
        if offset + amount > a.size:
            raise ArrayError(
                f"copy: {amount} elements from offset {offset} do not fit {name} of shape {a.shape}",
                hint="pass a smaller count or offset",
            )
    return _run_of(dest, numbers[0], amount, "dest"), _run_of(src, numbers[1], amount, "src")


def _run_of(a: array, offset: int, amount: int, name: str) -> array:
    if a.ndim > 1 and not a.is_contiguous:
        raise ArrayError(
            f"copy: {name} of shape {a.shape} is not contiguous: it has no elements in a row to copy",
            hint="copy between arrays of one shape, or slice first",
        )
    flat = a if a.ndim == 1 else a.flatten()
    part: array = flat if (offset, amount) == (0, flat.size) else flat[offset : offset + amount]
    return part
