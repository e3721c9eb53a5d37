"""The private memory of a shadow: one block for each buffer of the tape, perhaps in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug._float_types import is_short_float
from tapedebug.lang import types
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.block_allocator import LEAST, MARGIN, memory
from tapedebug.runtime.memory.buffer import Buffer, Bytes
from tapedebug.runtime.memory.convert import contiguous_strides
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.tape.buffer_versions import BufferVersions, ExternalInput, RangeState
from tapedebug.runtime.tape.tracker import Tracker

Values = np.ndarray[Any, Any]
"""The types that float64 twins hold as float64."""

LEAST_REUSED = 1 << 18
"""Bytes from which on the memory of a replay is a cached block: below, zeros of the C library cost less."""


class ShadowBuffer:
    """The private copy of one buffer.

    Attributes:
        buffer: The buffer of the user.
        scale: Bytes here for each byte there: 2 if float32 is held as float64, 4 if float16 is.
        mixed: Fields of structs: narrow floats are held as float64 among other types, which keep their size.
        data: The content now.
        is_stale: `restart` was put off: memory holds what the last run left there until `data` is used.
        double: It holds float64.
        adjoint: The adjoint memory, or None before its first use.
        tangent: The tangent memory, or None before its first use.
        adjoint_tangent: The memory of the tangents of adjoints, or None before its first use.
        injections: By record index, the values written outside the tape just before that record.
        late: The values written outside the tape after the last record and before the reverse pass.
        written: Arrays whose final content comes from the tape.
    """

    _parameters = False
    """True if no launch writes here: the memory of parameters, which only an optimiser changes."""
    _plain: Bytes | None = None
    """The content of parameters without the requested changes."""
    _starts_zero = False
    """True if the tape writes here before it reads, so that no content is kept to start over with."""
    is_stale = False

    def __init__(
        self, ledger: BufferVersions, f64: bool, tracker: Tracker, used: list[array], last: dict[int, int]
    ) -> None:
        self._allocate(ledger.buffer, f64, used)
        found = [live for live in ledger.liveins if not live.injected]
        if tracker.dry:
            # No launch has run: take memory as it is, also where a launch will overwrite it.
            self._take_over(used)
        else:
            for live in reversed(found):
                self._load(live, live.content(self.buffer))
        self.injections: dict[int, list[tuple[ExternalInput, Bytes]]] = {}
        self.late: list[tuple[ExternalInput, Bytes]] = []
        for live in ledger.liveins:
            if live.injected and live.at < len(tracker.records):
                self.injections.setdefault(live.at, []).append((live, live.content(self.buffer).copy()))
            elif live.injected and not live.settled:
                self.late.append((live, live.content(self.buffer).copy()))
        self.written = _written(ledger, tracker, last)
        self._starts_zero = bool(last) and not tracker.dry and not found
        changes = bool(last or self.injections) and not self._starts_zero
        self._initial = copied(self.data) if changes else None
        self._parameters = not last
        self._plain = self._initial

    def _allocate(self, buffer: Buffer, f64: bool, used: list[array]) -> None:
        self.buffer = buffer
        scalars = {types.numpy_dtype(a.dtype) for a in used}
        self.scale = scale_of(buffer, f64, used)
        narrow = 8 // self.scale
        self._short = next((s for s in scalars if is_short_float(s) and s.itemsize == narrow), None)
        self.mixed = self.scale > 1 and len(scalars) > 1
        self.double = self.scale > 1 or np.dtype(np.float64) in scalars
        self.data = aligned(self.buffer.nbytes * self.scale)
        self.adjoint: Bytes | None = None
        self.tangent: Bytes | None = None
        self.adjoint_tangent: Bytes | None = None

    @property
    def data(self) -> Bytes:
        """The content, as bytes (nbytes × scale,)."""
        if self.is_stale:
            self.restart()
        return self._data

    @data.setter
    def data(self, content: Bytes) -> None:
        self.is_stale = False
        self._data = content

    def stretch(self, a: array) -> int:
        """Return the ratio of the strides of `a` here, in scalars, to those in the user's memory."""
        return self.scale * types.numpy_dtype(a.dtype).itemsize // self.stored(a).itemsize

    def stored(self, a: array) -> np.dtype[Any]:
        """Return the dtype that the scalars of `a` have here."""
        scalar = types.numpy_dtype(a.dtype)
        return _widened(scalar, self.scale) if self.scale > 1 else scalar

    @property
    def restarts(self) -> bool:
        """True if `restart` restores the content that the tape found, whatever has been written since."""
        return self._starts_zero or self._initial is not None

    def restart(self) -> None:
        """Restore the content that the tape found."""
        self.is_stale = False
        if self._starts_zero:
            parallel_memcpy.clear(self._data)
        elif self._initial is not None:
            parallel_memcpy.copy(self._data, self._initial)
            self._plain = self._initial

    def inject(self, at: int) -> None:
        """Load the values written outside the tape before record `at`.

        An optimiser's step between two passes continues from the parameter that it was given: a requested
        change of a parameter stays. The gradient of a parameter is the sum over all the values that it had.
        """
        for live, content in self.injections[at]:
            if not self._is_step(live):
                self._load(live, content)
                continue
            assert self._plain is not None
            now, plain = self.view(live.array), self._seen(live.array, self._plain)
            changed = now != plain
            change = (now - plain)[changed]
            self._load(live, content)
            self._plain = self.data.copy()
            self.view(live.array)[changed] += change

    def _is_step(self, live: ExternalInput) -> bool:
        return live.settled and self._parameters and types.is_float(live.array.dtype)

    def still(self, at: int) -> None:
        """Zero the tangents of values written outside the tape before record `at`: they are constants."""
        for live, _ in self.injections[at]:
            if self._is_step(live):
                continue
            if live.array.is_contiguous:
                self.tangents()[live.start * self.scale : live.stop * self.scale] = 0
            else:
                self.dots(live.array)[...] = 0

    def inject_late(self) -> None:
        """Load the values written outside the tape before the reverse pass."""
        for live, content in self.late:
            self._load(live, content)

    def gradient(self) -> Bytes:
        """Return the adjoint memory; zeros at first use."""
        if self.adjoint is None:
            self.adjoint = aligned(self.data.size)
        return self.adjoint

    def tangents(self) -> Bytes:
        """Return the tangent memory; zeros at first use."""
        if self.tangent is None:
            self.tangent = aligned(self.data.size)
        return self.tangent

    def adjoint_tangents(self) -> Bytes:
        """Return the memory of the tangents of adjoints; zeros at first use."""
        if self.adjoint_tangent is None:
            self.adjoint_tangent = aligned(self.data.size)
        return self.adjoint_tangent

    def range(self, start: int, stop: int, memory: Bytes | None = None) -> Bytes:
        """Return the bytes for `start … stop` of the user's buffer, by default those of the values."""
        memory = self.data if memory is None else memory
        return memory[start * self.scale : stop * self.scale]

    def address(self, a: array, adjoint: bool = False) -> int:
        """Return the address of the first element of `a` (or of its adjoint)."""
        return self._place(a, self.gradient() if adjoint else self.data)

    def dot_address(self, a: array) -> int:
        """Return the address of the tangent of the first element of `a`."""
        return self._place(a, self.tangents())

    def view(self, a: array, adjoint: bool = False) -> Values:
        """Return `a` (or its adjoint) here, of its shape plus the vector dimension."""
        return self._seen(a, self.gradient() if adjoint else self.data)

    def dots(self, a: array) -> Values:
        """Return the tangent of `a`, of its shape plus the vector dimension."""
        return self._seen(a, self.tangents())

    def adjoint_dot_address(self, a: array) -> int:
        """Return the address of the tangent of the adjoint of the first element of `a`."""
        return self._place(a, self.adjoint_tangents())

    def adjoint_dots(self, a: array) -> Values:
        """Return the tangent of the adjoint of `a`, of its shape plus the vector dimension."""
        return self._seen(a, self.adjoint_tangents())

    def _place(self, a: array, memory: Bytes) -> int:
        return address_of(memory) + (a.ptr - self.buffer.address) * self.scale

    def seen(
        self, a: array, memory: Bytes, rows: tuple[()] | tuple[int], apart: tuple[()] | tuple[int]
    ) -> Values:
        """Return `a` in memory like that of this buffer, or in several `rows` of it, `apart` bytes apart."""
        scalar = self.stored(a)
        inner = types.value_shape(a.dtype)
        return np.ndarray(
            rows + a.shape + inner,
            scalar,
            memory,
            (a.ptr - self.buffer.address) * self.scale,
            apart + tuple(s * self.scale for s in a.strides) + contiguous_strides(inner, scalar.itemsize),
        )

    def _seen(self, a: array, memory: Bytes) -> Values:
        return self.seen(a, memory, (), ())

    def _load(self, live: ExternalInput, content: Bytes) -> None:
        """Write the elements of a live-in, but not the gaps between them."""
        a = live.array
        if a.is_contiguous and not self.mixed:
            self._fill(live.start, content)
            return
        scalar, inner = types.numpy_dtype(a.dtype), types.value_shape(a.dtype)
        strides = a.strides + contiguous_strides(inner, scalar.itemsize)
        offset = a.ptr - self.buffer.address - live.start
        self.view(a)[...] = np.ndarray(a.shape + inner, scalar, content, offset, strides)

    def _take_over(self, used: list[array]) -> None:
        """Copy the present content of the user's buffer."""
        if not self.mixed and self._in_step(used):
            self._fill(0, self.buffer.data)
            return
        for a in used:
            self.view(a)[...] = a._numpy_view()

    def _in_step(self, used: list[array]) -> bool:
        """Return True if all floats are aligned as in an array of floats; those of structs may not be."""
        item = 8 // self.scale
        return self.scale == 1 or not any(
            place % item for a in used for place in (a.ptr - self.buffer.address, *a.strides)
        )

    def _fill(self, start: int, content: Bytes) -> None:
        """Write the bytes of the user's buffer from `start` on, perhaps as float64."""
        if self._short is None or self.scale == 1:
            self.data[start : start + content.size] = content
            return
        narrow = self._short.itemsize
        count = content.size // narrow
        wide = np.ndarray(count, np.float64, self.data, start * self.scale)
        with np.errstate(invalid="ignore"):  # values that were never written may be any bit pattern
            wide[...] = np.ndarray(count, self._short, content[: count * narrow])


def scale_of(buffer: Buffer, f64: bool, used: list[array]) -> int:
    """Return the bytes in a replay for each byte of a buffer; see `ShadowBuffer.scale`.

    Raises:
        TapeError: In float64, if the buffer is used both as float32 and as another type.
    """
    scalars = {types.numpy_dtype(a.dtype) for a in used}
    scale = 8 // min((s.itemsize for s in scalars if f64 and is_short_float(s)), default=8)
    if scale > 1 and len(scalars) > 1 and not _are_fields(used, scale):
        names = ", ".join(sorted(str(s) for s in scalars))
        raise TapeError(
            f"replay: one buffer of {buffer.nbytes} bytes is used as {names}; "
            "its float64 twin has no such views",
            hint="replay without dtype=, or use one array for each type",
        )
    return scale


def injections_of(buffers: dict[Buffer, ShadowBuffer]) -> dict[int, list[ShadowBuffer]]:
    """Return, by record that a write outside the tape precedes, the buffers that it wrote to."""
    found: dict[int, list[ShadowBuffer]] = {}
    for buffer in buffers.values():
        for at in buffer.injections:
            found.setdefault(at, []).append(buffer)
    return found


def is_double(dtype: Any) -> bool:
    """Return True if a replay of this dtype is that of the float64 twin.

    Raises:
        TapeError: It is neither None nor float64.
    """
    if dtype is None or dtype is float:
        return False
    try:
        found = types.canonical(dtype)
    except TypeError:
        found = None
    if found not in types.FLOATS:
        raise TapeError(
            f"replay: dtype is None or float64; got {dtype!r}", hint="pass dtype=float64, or leave it out"
        )
    return found is types.float64


def copied(content: Bytes) -> Bytes:
    """Return a copy; a large one in memory that is reused."""
    if content.size < LEAST:
        return content.copy()
    made = memory(content.size)
    parallel_memcpy.copy(made, content)
    return made


def aligned(nbytes: int) -> Bytes:
    """Return zeros that are aligned as a buffer is, with a margin on both sides."""
    return memory(nbytes + 2 * MARGIN, zeroed=True, least=LEAST_REUSED)[MARGIN : MARGIN + nbytes]


def _widened(dtype: np.dtype[Any], scale: int) -> np.dtype[Any]:
    """Return a dtype for larger memory: float32 and float16 become float64, all others are unchanged."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_widened(base, scale), shape))
    if dtype.fields is None:
        return np.dtype(np.float64) if is_short_float(dtype) else dtype
    names = list(dtype.fields)
    parts = [dtype.fields[name] for name in names]
    return np.dtype(
        {
            "names": names,
            "formats": [_widened(part[0], scale) for part in parts],
            "offsets": [scale * part[1] for part in parts],
            "itemsize": scale * dtype.itemsize,
        }
    )


def _are_fields(used: list[array], scale: int) -> bool:
    """Return True if arrays of several types lie beside each other in one buffer, as fields of structs do.

    Each array has its own strides (or one element), which determine the places of its elements in wider
    memory.
    """
    alike = {s for s in types.FLOATS if scale > 1 and types.bits_of(s) * scale == 64}
    apart = [a for a in used if types.scalar_of(a.dtype) not in alike]
    if any(a.is_contiguous and a.size > 1 for a in apart):
        return False
    kinds = {types.scalar_of(a.dtype) for a in used}
    groups = [[a for a in used if types.scalar_of(a.dtype) is kind] for kind in kinds]
    pairs = ((a, b) for k, one in enumerate(groups) for two in groups[:k] for a in one for b in two)
    return not any(RangeState(0, a).meets(RangeState(1, b)) for a, b in pairs)


def _written(ledger: BufferVersions, tracker: Tracker, last: dict[int, int]) -> list[array]:
    """Return the arrays of this buffer that the tape writes and nothing outside it wrote afterwards."""
    gone = set()
    for event in tracker.outside:
        if event.array.buffer is ledger.buffer:
            gone |= {
                s.number
                for s in ledger.around(ledger.state(event.array))
                if event.at > last.get(s.number, -1)
            }
    return [ledger.numbered(n).array for n in last if n not in gone]


class IdleBuffer(ShadowBuffer):
    """The private copy of a buffer that launches were given and do not use, with its present content."""

    def __init__(self, buffer: Buffer, f64: bool, used: list[array]) -> None:
        self._allocate(buffer, f64, used)
        self._take_over(used)
        self.injections = {}
        self.late = []
        self.written = []
        self._initial = None
