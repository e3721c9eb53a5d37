"""The state of a shadow: the values, adjoints and tangents of a tape's arrays, in private memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug._float_types import are_equal
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.struct_fields import by_field
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.replay.shadow_memory import ShadowBuffer, injections_of, is_double
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.replay.tangents import paired
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.contract import A, Array

Values = np.ndarray[Any, Any]

NARROWED = 1 << 20
"""Bytes from which on replaced values are kept in the type of the user's array."""


class ShadowState:
    """The memory of a `Shadow`, whose content can be read and replaced.

    Attributes:
        is_float64: Float32 arrays are held, and computed with, in float64.
        position: The index of the record that runs next.
        lost: Custom functions that a tangent went into in the last `push`; the tangents of their results are
            unknown.
    """

    def __init__(self, tracker: Tracker, dtype: Any) -> None:
        self.is_float64 = is_double(dtype)
        self.position = 0
        self.lost: list[str] = []
        # The tables of packed arguments refer to the space, and the space to no table: a shadow that is
        # dropped is freed at once, with all its memory.
        self.space = ShadowSpace(tracker, self.is_float64)
        self._buffers = self.space.buffers
        self._injections = injections_of(self._buffers)
        # By array, the values that were set before the first record; None where memory keeps them.
        self._inputs: dict[array, Values | None] = {}
        self._fixed: dict[array, Values | None] = {}
        self._found: dict[array, Values | None] = {}  # the values before they were set; None: those at first
        self._unused: array | None = None  # was set after the first record, and nothing has run since
        self._has_pushed = False
        self._stale: list[ShadowBuffer] = []  # those whose restart was put off
        # The memory of the inputs that the last run replaced; None if that was no complete run.
        self._standing: frozenset[Buffer] | None = None

    def values(self, a: Array, /) -> Values:
        """Return a copy of the present values of `a`, of its shape plus the vector dimension.

        Raises:
            TapeError: The tape does not use the array's memory.
        """
        a = self._own(a)
        return self._buffer(a).view(a).copy()

    def weighted_sum(self, a: Array, weights: Values, /) -> float:
        """Return the inner product of the present values of `a` with weights, (scalars,) float64.

        Raises:
            TapeError: The tape does not use the array's memory.
        """
        a = self._own(a)
        return float(weights @ self._buffer(a).view(a).ravel().astype(np.float64, copy=False))

    def set(self, a: Array, values: Any, /) -> None:
        """Replace the present values of `a`, before the record that runs next.

        Before the first record they are an input, which survives `forward(0)` and is dropped by `reset`.
        Later ones are for the next run, of a record or a reverse pass: until then `forward(0)` and `reset()`
        are errors, because both would drop them; `reset(discard=True)` drops them.

        Raises:
            TapeError: The tape does not use the array's memory, or the values have another shape.
        """
        a = self._own(a)
        buffer = self._buffer(a)
        found = _fitting("the values for", a, values)
        if self.position == 0:
            self._inputs.pop(a, None)  # the last one set wins if inputs overlap
            self._inputs[a] = None
            if buffer.restarts:
                self._inputs[a] = found if _is_constant(found) else found.copy()
            if a not in self._found:
                self._found[a] = None if buffer.restarts else narrowed(buffer.view(a), a)
        else:
            self._unused = a
            self._standing = None
            for other, values in self._inputs.items():
                if values is None and other.buffer is a.buffer:
                    self._inputs[other] = buffer.view(other).copy()
        parallel_memcpy.copy(buffer.view(a), found)

    def fix_inputs(self) -> None:
        """Keep the inputs that were set so far, also after `reset`."""
        self._fixed = dict(self._inputs)
        self._found.clear()

    def gradient(self, a: Array, /) -> Values:
        """Return a copy of the adjoint of `a` after `backward`, of its shape plus the vector dimension."""
        a = self._own(a)
        buffer = self._buffer(a)
        if buffer.adjoint is None:
            return np.zeros_like(buffer.view(a))
        return buffer.view(a, adjoint=True).copy()

    def set_gradient(self, a: Array, values: Values, /) -> None:
        """Replace the adjoint of `a`."""
        a = self._own(a)
        self._buffer(a).view(a, adjoint=True)[...] = _fitting("the adjoint of", a, values)

    def tangent(self, a: Array, /) -> Values:
        """Return a copy of the tangent of `a` after `push`, of its shape plus the vector dimension."""
        a = self._own(a)
        buffer = self._buffer(a)
        return np.zeros_like(buffer.view(a)) if buffer.tangent is None else buffer.dots(a).copy()

    def matches_live(self) -> bool:
        """Return True if the results of this replay equal, bit for bit, the user's arrays.

        Ranges that were written outside the tape since are left out.
        """
        for buffer, mine in self._buffers.items():
            for a in mine.written:
                if not are_equal(mine.view(a), a._numpy_view(), equal_nan=types.is_float(a.dtype)):
                    return False
            assert buffer is mine.buffer
        return True

    def inner(self, other: ShadowState) -> tuple[float, float]:
        """Return the inner product of all tangents here with all adjoints of another shadow of the same tape.

        If `push` and `backward` stand before the same record, it is ⟨w, J v⟩ = ⟨Jᵀ w, v⟩ whatever record that
        is, provided that each adjoint is the transpose of its tangent. Both shadows are in float64.

        Returns:
            The product, and the sum of the absolute values of its terms.
        """
        pairs = [(mine, other._buffers[buffer]) for buffer, mine in self._buffers.items()]
        return paired([(mine.tangent, yours.adjoint) for mine, yours in pairs if mine.double])

    def written_outside(self, index: int) -> bool:
        """Return True if there was a write outside the tape just before record `index`."""
        return index in self._injections

    @staticmethod
    def _own(a: Any) -> array:
        """Return `a` as an array of this engine: all arrays that come in through the contract pass here.

        Raises:
            TapeError: It is no array, or another engine's.
        """
        if not isinstance(a, array):
            raise _not_on_tape(repr(a))
        return a

    def _buffer(self, a: array) -> ShadowBuffer:
        found = self._buffers.get(a.buffer)
        if found is None:
            raise _not_on_tape(f"the array{a._facts()}")
        return found

    def _restart(self, later: bool = False) -> None:
        """Start over; `later`: with the content that memory has at first not before something uses it."""
        if self._unused is not None:
            raise self._unused_error("forward(0) starts over", f"else go on with forward({self.position})")
        if self.position:
            if later:
                self._stale = [buffer for buffer in self._buffers.values() if buffer.restarts]
                for buffer in self._stale:
                    buffer.is_stale = True
            else:
                for buffer in self._buffers.values():
                    buffer.restart()
            self.position = 0
        for a, values in self._inputs.items():
            if values is not None:
                parallel_memcpy.copy(self._buffer(a).view(a), values)

    def _unused_error(self, what: str, otherwise: str) -> TapeError:
        """Return the error for values that were set after the first record and would be lost unused."""
        assert self._unused is not None
        return TapeError(
            f"replay: the values that were set for the array{self._unused._facts()} before record "
            f"{self.position} would be lost: {what}",
            hint=f"for an input, call reset(discard=True) before set(); {otherwise}",
        )

    def _seed(self, seeds: Mapping[A, Any]) -> None:
        for buffer in self._buffers.values():
            if buffer.adjoint is not None:
                parallel_memcpy.clear(buffer.adjoint)
        for given, values in by_field(seeds, "replay: the seed"):
            a = self._own(given)
            buffer = self._buffer(a)
            buffer.gradient()
            parallel_memcpy.copy(buffer.view(a, adjoint=True), _fitting("the seed of", a, values))

    def _set_tangents(self, tangents: Mapping[A, Any]) -> None:
        self.lost = []
        given = [(self._own(a), values) for a, values in by_field(tangents, "replay: the tangent")]
        whole = {a.buffer for a, _ in given if _is_whole(a)}
        for mine, copied in self._buffers.items() if self._has_pushed else ():  # else all are zero
            if copied.tangent is not None and mine not in whole:
                parallel_memcpy.clear(copied.tangent)
        for a, values in given:
            buffer = self._buffer(a)
            if not types.is_float(a.dtype):
                raise TapeError(
                    f"replay: the array{a._facts()} has no tangent", hint="pass tangents of float arrays"
                )
            parallel_memcpy.copy(buffer.dots(a), _fitting("the tangent of", a, values))


def _not_on_tape(what: str) -> TapeError:
    return TapeError(f"replay: {what} is not on the tape", hint="pass an array that a recorded launch uses")


def _is_constant(values: Values) -> bool:
    """Return True if nothing can change these values, so that they need not be copied."""
    base: Any = values.base
    if values.flags.writeable or base is None:
        return not values.flags.writeable
    return isinstance(base, np.ndarray) and base.base is None and not base.flags.writeable


def narrowed(values: Values, a: array) -> Values:
    """Return a copy of the values of `a`; of many, in the type of the array if no number changes by it."""
    own = types.numpy_dtype(a.dtype)
    if values.nbytes < NARROWED or values.dtype == own or values.dtype.kind != "f":
        return values.copy()
    with np.errstate(over="ignore"):
        narrow = values.astype(own)
    return narrow if are_equal(narrow, values) else values.copy()


def _is_whole(a: array) -> bool:
    """Return True if an array is all of its buffer."""
    return a.is_contiguous and a.stop - a.start == a.buffer.nbytes


def _fitting(what: str, a: array, values: Any) -> Values:
    found = np.asarray(values)
    wanted = a.shape + types.value_shape(a.dtype)
    if found.shape != wanted:
        have = "have" if what.startswith("the values") else "has"
        raise TapeError(
            f"replay: {what} the array{a._facts()} {have} shape {found.shape}, not {wanted}",
            hint=f"pass values of shape {wanted}",
        )
    return found
