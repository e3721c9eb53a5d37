"""The functions of `warp.utils` that compute with whole arrays: sums, scans, sorting.

They run outside of kernels, so that no tape records them, in Warp as here: with an array that takes part in
gradients, a tape refuses them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug._float_types import is_float
from tapedebug.lang import types as t
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.factory import empty
from tapedebug.runtime.state import here


def _check(name: str, *arrays: object) -> None:
    """Refuse arguments that are not arrays, and arrays with gradients while a tape records.

    Raises:
        TapeError: The gradient of the result would be lost.
        TypeError: An argument is not an array.
    """
    for each in arrays:
        if not isinstance(each, array):
            raise TypeError(f"{name}() takes arrays; got {each!r}")
        if here.thread.tape is not None and each.requires_grad:
            raise TapeError(
                f"{name}() runs outside of kernels: no tape records it, and the gradient of its arrays would "
                "be lost",
                hint="compute it in a kernel (for a sum, wp.atomic_add), or call it after the tape's block",
            )


def _values(source: array) -> np.ndarray[Any, Any]:
    """Return the elements with their components, one element a row."""
    return np.asarray(source.numpy()).reshape(source.size, t.components(source.dtype))


def _store(target: array, values: np.ndarray[Any, Any]) -> None:
    """Write an array.

    Raises:
        RuntimeError: The number of values is another.
    """
    shape = (*target.shape, *t.value_shape(target.dtype))
    if np.size(values) != np.prod(shape, dtype=int):
        raise RuntimeError(f"the result has {np.size(values)} numbers, which an array of {shape} cannot hold")
    target.assign(np.ascontiguousarray(values, dtype=t.numpy_dtype(target.dtype)).reshape(shape))


def _check_out(name: str, out: array | None, dtype: Any) -> None:
    """Refuse an array for a result whose type is another one.

    Raises:
        RuntimeError: The types differ: numbers would be rounded or converted without a word.
    """
    if out is not None and out.dtype != dtype:
        raise RuntimeError(
            f"{name}(): the result is {t.type_name(dtype)}; got out={out!r}\n"
            f"  = hint: pass an array of {t.type_name(dtype)}"
        )


def _check_count(name: str, what: str, count: Any) -> None:
    """Refuse a count that is no integer from 0 to 2³¹ − 1.

    Raises:
        TypeError: It is no integer.
        ValueError: It is out of range.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        raise TypeError(f"{name}(): {what} is an integer; got {count!r}")
    if not 0 <= count < 1 << 31:
        raise ValueError(f"{name}(): {what} is from 0 to {(1 << 31) - 1}; got {count}")


def _number(value: np.ndarray[Any, Any], dtype: Any) -> Any:
    return value if t.is_compound(dtype) else value.reshape(-1)[0]


def _axis(axis: int, ndim: int) -> int:
    """Return an axis as it is counted from the first one.

    Raises:
        IndexError: There is no such axis.
    """
    if not -ndim <= axis < ndim:
        raise IndexError(f"axis {axis} is out of bounds for an array of {ndim} dimensions")
    return axis % ndim


def _first(axis: int, count: int | None) -> tuple[slice, ...]:
    """Return the index of the first `count` elements along an axis."""
    return (*[slice(None)] * axis, slice(count))


def array_sum(
    values: array, out: array | None = None, value_count: int | None = None, axis: int | None = None
) -> Any:
    """Return the sum of an array of floats, a number or the components; of one axis, an array.

    Args:
        values: The array.
        out: An array of the shape of the result, which is written to it.
        value_count: Sum only so many elements, along `axis` if there is one.
        axis: The axis; None sums all elements.

    Raises:
        RuntimeError: The array has no floats, or `out` another type.
    """
    _check("array_sum", values, *([] if out is None else [out]))
    if t.scalar_of(values.dtype) not in t.FLOATS:
        raise RuntimeError(f"array_sum() takes arrays of floats; got {t.type_name(values.dtype)}")
    _check_out("array_sum", out, values.dtype)
    found = np.asarray(values.numpy())
    if axis is None:
        result = _values(values)[:value_count].sum(axis=0)
        if out is None:
            return _number(result, values.dtype)
    else:
        axis = _axis(axis, values.ndim)
        result = found[_first(axis, value_count)].sum(axis=axis, keepdims=True)
        if out is None:
            shape = tuple(1 if d == axis else n for d, n in enumerate(values.shape))
            out = empty(shape, dtype=values.dtype)
    _store(out, result)
    return out


def array_inner(
    a: array,
    b: array,
    out: array | None = None,
    count: int | None = None,
    axis: int | None = None,
) -> Any:
    """Return the sum of the products of the elements of two arrays; with `out`, write it there.

    Raises:
        RuntimeError: The arrays differ in type, or `out` has another one.
        ValueError: The arrays differ in shape.
    """
    _check("array_inner", a, b, *([] if out is None else [out]))
    if a.shape != b.shape:
        raise ValueError(f"array_inner() takes two arrays of one shape; got {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"array_inner() takes two arrays of one type; got {t.type_name(a.dtype)} and "
            f"{t.type_name(b.dtype)}"
        )
    _check_out("array_inner", out, t.scalar_of(a.dtype))
    if axis is None:
        result = (_values(a)[:count] * _values(b)[:count]).sum()
        if out is None:
            return result.item()
    else:
        axis = _axis(axis, a.ndim)
        products = (_values(a) * _values(b)).sum(axis=1).reshape(a.shape)
        result = products[_first(axis, count)].sum(axis=axis, keepdims=True)
        if out is None:
            out = empty(result.shape, dtype=t.scalar_of(a.dtype))
    _store(out, result)
    return out


def array_scan(in_array: array, out_array: array, inclusive: bool = True) -> None:
    """Write the running sums of an array, with or without (`inclusive=False`) the element itself.

    Raises:
        RuntimeError: The arrays differ in size or type, or are neither int32 nor float32.
    """
    _check("array_scan", in_array, out_array)
    if in_array.size != out_array.size or in_array.dtype != out_array.dtype:
        raise RuntimeError(
            f"array_scan() takes two arrays of one size and type; got {in_array.size} of "
            f"{t.type_name(in_array.dtype)} and {out_array.size} of {t.type_name(out_array.dtype)}"
        )
    if t.scalar_of(in_array.dtype) not in (t.int32, t.int64, t.float32, t.float64):
        raise RuntimeError(
            f"array_scan() takes int32, int64, float32 or float64; got {t.type_name(in_array.dtype)}"
        )
    values = np.asarray(in_array.numpy())
    values = values.reshape(in_array.size, *t.value_shape(in_array.dtype))
    sums = np.cumsum(values, axis=0, dtype=values.dtype)
    if not inclusive and sums.size:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    _store(out_array, sums)


def array_cast(in_array: array, out_array: array, count: int | None = None) -> None:
    """Write the elements of an array into one of another type.

    Raises:
        RuntimeError: The arrays differ in shape, or one has fewer numbers than are written.
    """
    _check("array_cast", in_array, out_array)
    if in_array.ndim == out_array.ndim > 1 and in_array.shape != out_array.shape:
        raise RuntimeError(
            f"array_cast() takes arrays of one shape; got {in_array.shape} and {out_array.shape}"
        )
    source = np.asarray(in_array.numpy()).reshape(-1)
    target = np.array(out_array.numpy()).reshape(-1)
    number = len(source) if count is None else count * t.components(in_array.dtype)
    if number > min(len(source), len(target)):
        raise RuntimeError(
            f"array_cast() of {number} numbers: one array has {len(source)}, the other {len(target)}"
        )
    target[:number] = source[:number]
    _store(out_array, target)


def _sorted_pairs(keys: np.ndarray[Any, Any], values: np.ndarray[Any, Any], begin: int, end: int) -> None:
    order = np.argsort(keys[begin:end], kind="stable")
    keys[begin:end], values[begin:end] = keys[begin:end][order], values[begin:end][order]


def _bits(keys: np.ndarray[Any, Any], begin_bit: int, end_bit: int | None) -> np.ndarray[Any, Any]:
    """Return the numbers that keys are sorted by, if only some of their bits count."""
    width = keys.dtype.itemsize * 8
    if begin_bit == 0 and end_bit in (None, width):
        return keys
    plain = keys.view(np.dtype(f"u{keys.dtype.itemsize}"))
    if keys.dtype.kind == "i":
        plain = plain ^ np.array(1 << (width - 1), plain.dtype)
    elif is_float(keys.dtype):
        negative = plain >> np.array(width - 1, plain.dtype) == 1
        plain = np.where(negative, ~plain, plain ^ np.array(1 << (width - 1), plain.dtype))
    mask = (1 << ((end_bit or width) - begin_bit)) - 1
    masked: np.ndarray[Any, Any] = (plain >> np.array(begin_bit, plain.dtype)) & np.array(mask, plain.dtype)
    return masked


def radix_sort_pairs(
    keys: array, values: array, count: int, begin_bit: int = 0, end_bit: int | None = None
) -> None:
    """Sort the first `count` pairs of keys and values by their keys, in place; equal keys keep their order.

    Args:
        keys: The keys; as in Warp, the array has room for twice as many.
        values: The values, likewise.
        count: The number of pairs.
        begin_bit: The lowest bit of the keys that counts.
        end_bit: The first bit above those that count; None is the width of the keys.

    Raises:
        RuntimeError: An array has room for fewer than 2 × `count` elements, or the keys have no such bits.
    """
    _check("radix_sort_pairs", keys, values)
    width = 8 * keys.item_size
    if not 0 <= begin_bit <= (width if end_bit is None else end_bit) <= width:
        raise RuntimeError(
            f"radix_sort_pairs() sorts by bits from 0 to {width}; got begin_bit={begin_bit} and "
            f"end_bit={end_bit}"
        )
    if count == 0:
        return
    if min(keys.size, values.size) < 2 * count:
        raise RuntimeError(
            f"radix_sort_pairs() takes arrays of at least 2 * count = {2 * count} elements; got {keys.size} "
            f"keys and {values.size} values"
        )
    key, value = np.array(keys.numpy()), np.array(values.numpy())
    order = np.argsort(_bits(key[:count], begin_bit, end_bit), kind="stable")
    key[:count], value[:count] = key[:count][order], value[:count][order]
    _store(keys, key)
    _store(values, value)


def segmented_sort_pairs(
    keys: array,
    values: array,
    count: int,
    segment_start_indices: array,
    segment_end_indices: array | None = None,
) -> None:
    """Sort pairs of keys and values by their keys, in place, each segment by itself.

    Args:
        keys: The keys; as in Warp, the array has room for twice as many.
        values: The values, likewise.
        count: The number of pairs.
        segment_start_indices: The first index of each segment.
        segment_end_indices: The index after the last of each segment; by default the start of the next one.

    Raises:
        RuntimeError: An array has room for fewer than 2 × `count` elements, or the indices do not fit.
        TypeError: The count is no integer.
        ValueError: The count is negative, or larger than 2³¹ − 1.
    """
    _check("segmented_sort_pairs", keys, values)
    _check_count("segmented_sort_pairs", "the count", count)
    for indices in (segment_start_indices, segment_end_indices):
        if indices is not None and indices.ndim != 1:
            raise RuntimeError(f"segmented_sort_pairs() takes indices of one dimension; got {indices!r}")
    if segment_end_indices is not None and segment_end_indices.size != segment_start_indices.size:
        raise RuntimeError(
            f"segmented_sort_pairs() takes as many ends of segments as starts; got "
            f"{segment_start_indices.size} starts and {segment_end_indices.size} ends"
        )
    if min(keys.size, values.size) < 2 * count:
        raise RuntimeError(
            f"segmented_sort_pairs() takes arrays of at least 2 * count = {2 * count} elements; got "
            f"{keys.size} keys and {values.size} values"
        )
    starts = segment_start_indices.numpy()
    ends = starts[1:] if segment_end_indices is None else segment_end_indices.numpy()
    key, value = np.array(keys.numpy()), np.array(values.numpy())
    for begin, end in zip(starts, ends, strict=False):
        _sorted_pairs(key, value, int(begin), int(end))
    _store(keys, key)
    _store(values, value)


def runlength_encode(
    values: array,
    run_values: array,
    run_lengths: array,
    run_count: array | None = None,
    value_count: int | None = None,
) -> Any:
    """Write the runs of equal integers of an array, and their lengths.

    Args:
        values: The array, of int32.
        run_values: Gets the value of each run.
        run_lengths: Gets the number of elements of each run.
        run_count: Gets the number of runs; None returns it.
        value_count: The number of elements that are read; None reads all.

    Raises:
        RuntimeError: An array is too short, or has another type; or the count is negative.
    """
    _check("runlength_encode", values, run_values, run_lengths, *([] if run_count is None else [run_count]))
    if t.scalar_of(values.dtype) not in t.INTEGERS or values.dtype != run_values.dtype:
        raise RuntimeError(
            f"runlength_encode() takes integers, and run_values of their type; got "
            f"{t.type_name(values.dtype)} and {t.type_name(run_values.dtype)}"
        )
    for name, each in (("run_lengths", run_lengths), ("run_count", run_count)):
        if each is not None and each.dtype != t.int32:
            raise RuntimeError(f"runlength_encode(): {name} is an array of int32; got {each!r}")
    count = values.size if value_count is None else value_count
    if count < 0:
        raise RuntimeError(f"runlength_encode(): value_count is from 0; got {count}")
    if count > min(values.size, run_values.size, run_lengths.size):
        raise RuntimeError(
            f"runlength_encode() takes arrays of at least {count} elements; got {values.size} values, "
            f"{run_values.size} and {run_lengths.size} for the runs"
        )
    found = np.asarray(values.numpy())[:count]
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]])) if count else np.zeros(0, int)
    runs, lengths = np.array(run_values.numpy()), np.array(run_lengths.numpy())
    runs[: len(starts)] = found[starts]
    lengths[: len(starts)] = np.diff(np.append(starts, count))
    _store(run_values, runs)
    _store(run_lengths, lengths)
    if run_count is None:
        return len(starts)
    _store(run_count, np.array([len(starts)]))
    return run_count


NAMES: dict[str, Any] = {
    function.__name__: function
    for function in (
        array_cast,
        array_inner,
        array_scan,
        array_sum,
        radix_sort_pairs,
        runlength_encode,
        segmented_sort_pairs,
    )
}
"""The names of `warp.utils` that this module has."""
