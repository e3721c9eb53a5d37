"""Arrays in the elements of arrays of structs: what keeps them alive, and the memory of all of them as one.

In memory such an array is a `DESCRIPTOR`: an address, a shape and strides. A kernel gets one array with the
memory of all of them, and the place of each in it. If they are parts of one allocation, on the same steps,
that array is a view of it; else it is a copy, which is filled before a launch and copied back after one that
writes to it. A tape records these copies, so that versions, gradients and replays of the arrays are those of
any copy and launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array, make, new
from tapedebug.runtime.memory.buffer import Buffer, buffers_at
from tapedebug.runtime.memory.convert import item_bytes
from tapedebug.runtime.state import state

Values = np.ndarray[Any, Any]


class _Held:
    """The memory of the arrays in the elements of a buffer, which lives as long as the buffer."""

    __slots__ = ("buffers",)

    def __init__(self, buffers: set[Buffer]) -> None:
        self.buffers = buffers


class Segment(NamedTuple):
    """Arrays of one allocation, in the elements of an array of structs, and their copy.

    Attributes:
        source: Their memory, as one array of one dimension.
        copy: The part of the common array that is its copy.
        name: The first of these arrays, as a program names it: `rows[0].values`.
    """

    source: array
    copy: array
    name: str


class Common(NamedTuple):
    """The arrays that a field of the elements of an array of structs holds.

    Attributes:
        data: Their memory as one array of one dimension: a view, or a copy.
        places: For each element the place of its array in `data`: start, lengths, strides (`HeldArrayType`).
        segments: The parts that were copied; none if `data` is a view.
        name: The name of the field.
    """

    data: array
    places: array
    segments: tuple[Segment, ...]
    name: str


@cache
def may_hold(kind: Any) -> bool:
    """True if values of a type contain an array whose elements hold arrays."""
    if isinstance(kind, types.ArrayType | types.IndexedArrayType):
        return types.is_struct(kind.dtype) and bool(kind.dtype.holds_arrays())
    return types.is_struct(kind) and any(may_hold(inner) for inner in kind.fields.values())


def array_at(descriptor: Any, kind: types.ArrayType) -> array | None:
    """Return the array that a `DESCRIPTOR` stands for, or None.

    Raises:
        ArrayError: There is no such array any more.
    """
    address = int(descriptor["data"])
    if not address:
        return None
    shape = tuple(int(n) for n in descriptor["shape"][: kind.ndim])
    strides = tuple(int(n) for n in descriptor["strides"][: kind.ndim])
    (buffer,) = buffers_at([address])
    if buffer is None:
        raise _lost("an element", kind)
    made = make(buffer, address, kind.dtype, shape, strides)
    if descriptor["grad"]:
        made.requires_grad = True
    return made


def keep_alive(dest: array) -> None:
    """Keep the arrays alive that the elements of an array of structs hold now."""
    if not may_hold(dest.kernel_type):
        return
    found: set[Buffer] = set()
    for leaf in dest.dtype.leaves():
        if leaf.held is not None:
            addresses = np.unique(_descriptors(dest, leaf.path)["data"])
            found |= {b for b in buffers_at(int(n) for n in addresses if n) if b is not None}
    found.discard(dest.buffer)
    whole = dest.is_contiguous and dest.stop - dest.start == dest.buffer.nbytes
    for one in [one for one in dest.buffer.held if isinstance(one, _Held)]:
        dest.buffer.held.remove(one)
        found |= set() if whole else one.buffers
    dest.buffer.held.append(_Held(found))


def common(holders: array, leaf: Any, name: str) -> Common:
    """Return the arrays that a field of the elements of an array of structs holds; copies are not filled yet.

    Raises:
        ArrayError: An array does not exist any more, or has strides that are no multiples of its elements.
    """
    kind: types.ArrayType = leaf.held
    item, ndim = item_bytes(kind.dtype), kind.ndim
    given = _descriptors(holders, leaf.path)
    start = given["data"].astype(np.int64)
    shape, strides = (given[key][..., :ndim].astype(np.int64) for key in ("shape", "strides"))
    filled = (start != 0) & (shape.prod(axis=-1) > 0)
    extents = (shape - 1) * strides
    low = (start + np.minimum(extents, 0).sum(axis=-1))[filled]
    high = (start + np.maximum(extents, 0).sum(axis=-1))[filled] + item
    graded = (given["grad"] != 0)[filled]
    lows, highs, number = _merged(low, high)
    buffers = buffers_at(lows.tolist())
    for buffer, last in zip(buffers, highs.tolist(), strict=True):
        if buffer is None or buffer.address + buffer.nbytes < last:
            raise _lost(f"`{name}`", kind)
    odd = (strides[filled] % item).any(axis=-1)
    if odd.any():
        raise ArrayError(
            f"`{name}`: an element holds an array of {types.type_name(kind.dtype)} with the strides "
            f"{strides[filled][odd][0].tolist()}, which are no multiples of its {item} bytes",
            hint="assign contiguous(), a copy, to the field",
        )
    gradient = bool(graded.any()) and types.is_float(kind.dtype)
    steps, rests, same = _spacing(low, np.abs(strides[filled]) // item, item, number, buffers)
    segments: tuple[Segment, ...] = ()
    if same and len(set(buffers)) == 1:
        (one,), step = set(buffers), int(steps[0])
        assert one is not None
        size = (int(highs.max() - lows[0]) - item) // step + 1
        data = make(one, int(lows[0]), kind.dtype, (size,), (step,))
        data.requires_grad = gradient
        first = (start[filled] - lows[0]) // step
    else:
        if not same:
            lows, highs, number, buffers = _merged_apart(low, high, rests, number, buffers)
        _, seen = np.unique(number, return_index=True)
        order = np.argsort(seen)  # that of the elements: addresses differ from run to run
        lows, highs, buffers = lows[order], highs[order], [buffers[k] for k in order]
        number = np.argsort(order)[number]
        spaced = steps[seen[order]]
        sizes = (highs - lows - item) // spaced + 1
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        data = new((int(offsets[-1]),), kind.dtype, requires_grad=gradient)
        parts, elements = [], np.argwhere(filled)[seen[order]]
        whole, field = name.removesuffix(f".{'.'.join(leaf.path)}"), ".".join(leaf.path)
        ranges = zip(buffers, lows.tolist(), sizes.tolist(), spaced.tolist(), strict=True)
        for k, (buffer, begin, size, step) in enumerate(ranges):
            assert buffer is not None
            source = make(buffer, begin, kind.dtype, (size,), (step,))
            source.requires_grad = gradient and bool(graded[number == k].any())
            label = f"{whole}[{', '.join(map(str, elements[k]))}].{field}"
            parts.append(Segment(source, data[int(offsets[k]) : int(offsets[k + 1])], label))
        segments = tuple(parts)
        first = offsets[number] + (start[filled] - lows[number]) // steps
    entry = types.vector(1 + 2 * ndim, types.int64)
    places = new(holders.shape, entry)
    table = places._numpy_view()
    table[..., 0] = np.where(start == 0, -1, 0)
    table[..., 0][filled] = first
    table[..., 1 : 1 + ndim] = np.where((start == 0)[..., None], 0, shape)
    table[..., 1 + ndim :][filled] = strides[filled] // steps[:, None]
    return Common(data, places, segments, name)


def _spacing(
    low: Values, units: Values, item: int, number: Values, buffers: list[Buffer | None]
) -> tuple[Values, Values, bool]:
    """Return how far apart the elements of arrays are in the memory that is to be one array.

    Arrays that are fields of structs have other fields between their elements. A launch must not touch
    these: chunks that add to the array add zeros to all of it, which changes integers that read as NaN.

    Args:
        low: The first byte of each array.
        units: Its strides in elements, without signs.
        item: Bytes of an element.
        number: The range of memory that it is in.
        buffers: The buffer of each range.

    Returns:
        For each array the greatest step that divides all strides in its buffer, in bytes, and its first
        byte modulo that step; and True if these are the same for all arrays of a buffer.
    """
    known: dict[Buffer | None, int] = {}
    which = np.array([known.setdefault(buffer, len(known)) for buffer in buffers], np.int64)[number]
    common = np.zeros(len(known), np.int64)
    np.gcd.at(common, which, np.gcd.reduce(units, axis=-1))
    steps = np.maximum(common, 1)[which] * item
    rests = low % steps
    first = np.zeros(len(known), np.int64)
    first[which] = rests
    return steps, rests, bool((first[which] == rests).all())


def _merged_apart(
    low: Values, high: Values, rests: Values, number: Values, buffers: list[Buffer | None]
) -> tuple[Values, Values, Values, list[Buffer | None]]:
    """Merge ranges as `_merged` does, but only those of arrays that are on the same steps."""
    lows, highs, apart, found = [], [], np.empty_like(number), list[Buffer | None]()
    for range_, rest in np.unique(np.stack([number, rests], axis=1), axis=0).tolist():
        members = np.flatnonzero((number == range_) & (rests == rest))
        begins, ends, inner = _merged(low[members], high[members])
        apart[members] = inner + len(found)
        lows.append(begins)
        highs.append(ends)
        found += [buffers[range_]] * len(begins)
    return np.concatenate(lows), np.concatenate(highs), apart, found


@contextmanager
def unrecorded() -> Iterator[None]:
    """Keep what the block does off the active tape; live tapes are notified of writes all the same."""
    tape = state.tape
    state.tape = None
    try:
        yield
    finally:
        state.tape = tape


def _descriptors(holders: array, path: tuple[str, ...]) -> Values:
    found = holders._numpy_view()
    for name in path:
        found = found[name]
    return found


def _merged(low: Values, high: Values) -> tuple[Values, Values, Values]:
    """Merge ranges that overlap.

    Returns:
        Begin and end of each merged range, and the number of that of each given one.
    """
    if not low.size:
        return low, high, low
    order = np.argsort(low, kind="stable")
    ends = np.maximum.accumulate(high[order])
    begins = np.concatenate([[True], low[order][1:] >= ends[:-1]])
    number = np.empty(low.size, np.int64)
    number[order] = np.cumsum(begins) - 1
    last = np.concatenate([begins[1:], [True]])
    return low[order][begins], ends[last], number


def _lost(what: str, kind: Any) -> ArrayError:
    return ArrayError(
        f"{what} holds the address of an {types.type_name(kind)} that does not exist any more",
        hint="assign the array to the field of a struct and the struct to the element, which keeps it alive",
    )


def overlapping(one: array, others: Iterable[array]) -> array | None:
    """Return the first of some arrays that shares bytes with an array."""
    return next(
        (a for a in others if a.buffer is one.buffer and a.start < one.stop and one.start < a.stop), None
    )
