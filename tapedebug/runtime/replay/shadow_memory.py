"""The private memory of a shadow: one block for each buffer of the tape, perhaps in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import ALIGNMENT, Buffer, Bytes
from tapedebug.runtime.memory.convert import contiguous_strides
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.tape.buffer_versions import BufferVersions, ExternalInput, RangeState
from tapedebug.runtime.tape.tracker import Tracker

Values = np.ndarray[Any, Any]
MARGIN = 4096
"""Bytes of nothing on both sides of private memory: a replay of an index that is a little outside its array
reads and writes there, and not what belongs to somebody else."""
NARROW = (np.dtype(np.float16), np.dtype(np.float32))
"""What float64 twins hold as float64."""


class ShadowBuffer:
    """The private copy of one buffer.

    Attributes:
        buffer: The buffer of the user.
        scale: Bytes here for each byte there: 2 where float32 is held as float64, 4 where float16 is.
        mixed: Fields of structs: such floats are held as float64 among other types, which keep their size.
        data: The content now.
        double: It holds float64.
        adjoint: The adjoint memory, or None until it is asked for.
        tangent: The tangent memory, or None until it is asked for.
        adjoint_tangent: The memory of the tangents of adjoints, or None until it is asked for.
        injections: By record index, what something outside the tape wrote just before that record.
        late: What something outside the tape wrote after the last record and before the reverse pass.
        written: Arrays whose final content comes from the tape.
    """

    _parameters = False
    """No launch writes here: the memory of parameters, which only an optimiser changes."""
    _plain: Bytes | None = None
    """Of parameters, the content without what was asked to be changed."""

    def __init__(
        self, ledger: BufferVersions, f64: bool, tracker: Tracker, used: list[array], last: dict[int, int]
    ) -> None:
        self._allocate(ledger.buffer, f64, used)
        if tracker.dry:
            # Nothing has run: memory as it is, also where a launch will overwrite it.
            self._take_over(used)
        else:
            for live in reversed([live for live in ledger.liveins if not live.injected]):
                self._load(live, live.content(self.buffer))
        self.injections: dict[int, list[tuple[ExternalInput, Bytes]]] = {}
        self.late: list[tuple[ExternalInput, Bytes]] = []
        for live in ledger.liveins:
            if live.injected and live.at < len(tracker.records):
                self.injections.setdefault(live.at, []).append((live, live.content(self.buffer).copy()))
            elif live.injected and not live.settled:
                self.late.append((live, live.content(self.buffer).copy()))
        self.written = _written(ledger, tracker, last)
        self._initial = self.data.copy() if last or self.injections else None
        self._parameters = not last
        self._plain = self._initial

    def _allocate(self, buffer: Buffer, f64: bool, used: list[array]) -> None:
        self.buffer = buffer
        scalars = {types.numpy_dtype(a.dtype) for a in used}
        narrow = min((s.itemsize for s in scalars if f64 and s in NARROW), default=8)
        self.scale = 8 // narrow
        self.mixed = self.scale > 1 and len(scalars) > 1
        if self.mixed and not _are_fields(used, self.scale):
            names = ", ".join(sorted(str(s) for s in scalars))
            raise TapeError(
                f"replay: one buffer of {self.buffer.nbytes} bytes is used as {names}; "
                "its float64 twin has no such views",
                hint="replay without dtype=, or use one array for each type",
            )
        self.double = self.scale > 1 or np.dtype(np.float64) in scalars
        self.data = aligned(self.buffer.nbytes * self.scale)
        self.adjoint: Bytes | None = None
        self.tangent: Bytes | None = None
        self.adjoint_tangent: Bytes | None = None

    def stretch(self, a: array) -> int:
        """How much further apart the elements of `a` are here, in scalars."""
        return self.scale * types.numpy_dtype(a.dtype).itemsize // self.stored(a).itemsize

    def stored(self, a: array) -> np.dtype[Any]:
        """The dtype that the scalars of `a` have here."""
        scalar = types.numpy_dtype(a.dtype)
        return _widened(scalar, self.scale) if self.scale > 1 else scalar

    def restart(self) -> None:
        """Go back to what the tape found."""
        if self._initial is not None:
            parallel_memcpy.copy(self.data, self._initial)
            self._plain = self._initial

    def inject(self, at: int) -> None:
        """Load what something outside the tape wrote before record `at`.

        An optimiser's step between two passes goes on from the parameter that it was given: a change that
        was asked for stays. The gradient of a parameter adds up over all the values that it had.
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
        """What something outside the tape wrote before record `at` is constant: it has no tangent."""
        for live, _ in self.injections[at]:
            if self._is_step(live):
                continue
            if live.array.is_contiguous:
                self.tangents()[live.start * self.scale : live.stop * self.scale] = 0
            else:
                self.dots(live.array)[...] = 0

    def inject_late(self) -> None:
        """Load what something outside the tape wrote before the reverse pass."""
        for live, content in self.late:
            self._load(live, content)

    def gradient(self) -> Bytes:
        """The adjoint memory; zeros when it is first asked for."""
        if self.adjoint is None:
            self.adjoint = aligned(self.data.size)
        return self.adjoint

    def tangents(self) -> Bytes:
        """The tangent memory; zeros when it is first asked for."""
        if self.tangent is None:
            self.tangent = aligned(self.data.size)
        return self.tangent

    def adjoint_tangents(self) -> Bytes:
        """The memory of the tangents of adjoints; zeros when it is first asked for."""
        if self.adjoint_tangent is None:
            self.adjoint_tangent = aligned(self.data.size)
        return self.adjoint_tangent

    def range(self, start: int, stop: int, memory: Bytes | None = None) -> Bytes:
        """The bytes that correspond to `start … stop` of the user's buffer, of the values by default."""
        memory = self.data if memory is None else memory
        return memory[start * self.scale : stop * self.scale]

    def address(self, a: array, adjoint: bool = False) -> int:
        """Where the first element of `a` (or its adjoint) is."""
        return self._place(a, self.gradient() if adjoint else self.data)

    def dot_address(self, a: array) -> int:
        """Where the tangent of the first element of `a` is."""
        return self._place(a, self.tangents())

    def view(self, a: array, adjoint: bool = False) -> Values:
        """`a` (or its adjoint) here, of its shape plus the vector dimension."""
        return self._seen(a, self.gradient() if adjoint else self.data)

    def dots(self, a: array) -> Values:
        """The tangent of `a`, of its shape plus the vector dimension."""
        return self._seen(a, self.tangents())

    def adjoint_dot_address(self, a: array) -> int:
        """Where the tangent of the adjoint of the first element of `a` is."""
        return self._place(a, self.adjoint_tangents())

    def adjoint_dots(self, a: array) -> Values:
        """The tangent of the adjoint of `a`, of its shape plus the vector dimension."""
        return self._seen(a, self.adjoint_tangents())

    def _place(self, a: array, memory: Bytes) -> int:
        base: int = memory.ctypes.data
        return base + (a.ptr - self.buffer.address) * self.scale

    def seen(
        self, a: array, memory: Bytes, rows: tuple[()] | tuple[int], apart: tuple[()] | tuple[int]
    ) -> Values:
        """`a` in memory like that of this buffer, which may have several `rows`, so many bytes `apart`."""
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
        """Write the elements of a live-in, and nothing between them."""
        a = live.array
        if a.is_contiguous and not self.mixed:
            found = self._expanded(content)
            self.data[live.start * self.scale : live.start * self.scale + found.size] = found
            return
        scalar, inner = types.numpy_dtype(a.dtype), types.value_shape(a.dtype)
        strides = a.strides + contiguous_strides(inner, scalar.itemsize)
        offset = a.ptr - self.buffer.address - live.start
        self.view(a)[...] = np.ndarray(a.shape + inner, scalar, content, offset, strides)

    def _take_over(self, used: list[array]) -> None:
        """Hold what the buffer of the user holds now."""
        if not self.mixed and self._in_step(used):
            found = self._expanded(self.buffer.data)
            self.data[: found.size] = found
            return
        for a in used:
            self.view(a)[...] = a._look()

    def _in_step(self, used: list[array]) -> bool:
        """Whether all floats lie where those of an array of nothing else would: fields of structs may not."""
        item = 8 // self.scale
        return self.scale == 1 or not any(
            place % item for a in used for place in (a.ptr - self.buffer.address, *a.strides)
        )

    def _expanded(self, content: Bytes) -> Bytes:
        if self.scale == 1:
            return content
        narrow = np.dtype(f"f{8 // self.scale}")
        whole = content[: content.size // narrow.itemsize * narrow.itemsize].copy()
        with np.errstate(invalid="ignore"):  # what nothing wrote may be any pattern of bits
            wide: Bytes = whole.view(narrow).astype(np.float64).view(np.uint8)
        return wide


def injections_of(buffers: dict[Buffer, ShadowBuffer]) -> dict[int, list[ShadowBuffer]]:
    """For each record before which something outside the tape wrote, the buffers that it wrote to."""
    found: dict[int, list[ShadowBuffer]] = {}
    for buffer in buffers.values():
        for at in buffer.injections:
            found.setdefault(at, []).append(buffer)
    return found


def is_double(dtype: Any) -> bool:
    """Whether a replay of this dtype is that of the float64 twin.

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


def aligned(nbytes: int) -> Bytes:
    """Zeros in the middle of their own memory, aligned as a buffer is, with a margin on both sides."""
    block = np.zeros(nbytes + ALIGNMENT + 2 * MARGIN, np.uint8)
    lead = MARGIN - block.ctypes.data % ALIGNMENT
    return block[lead : lead + nbytes]


def _widened(dtype: np.dtype[Any], scale: int) -> np.dtype[Any]:
    """A dtype in larger memory: float32 and float16 are float64, anything else keeps its own."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((_widened(base, scale), shape))
    if dtype.fields is None:
        return np.dtype(np.float64) if dtype in NARROW else dtype
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
    """Whether arrays of several types lie beside each other in one buffer, as fields of structs do.

    Each has strides of its own (or one element), which say where its elements are in wider memory.
    """
    alike = {s for s in (types.float16, types.float32) if s.numpy.itemsize * scale == 8}
    apart = [a for a in used if types.scalar_of(a.dtype) not in alike]
    if any(a.is_contiguous and a.size > 1 for a in apart):
        return False
    kinds = {types.scalar_of(a.dtype) for a in used}
    groups = [[a for a in used if types.scalar_of(a.dtype) is kind] for kind in kinds]
    pairs = ((a, b) for k, one in enumerate(groups) for two in groups[:k] for a in one for b in two)
    return not any(RangeState(0, a).meets(RangeState(1, b)) for a, b in pairs)


def _written(ledger: BufferVersions, tracker: Tracker, last: dict[int, int]) -> list[array]:
    """The arrays of this buffer that the tape writes and nothing outside it wrote afterwards."""
    gone = set()
    for event in tracker.outside:
        if event.array.buffer is ledger.buffer:
            gone |= {
                s.number
                for s in ledger.around(ledger.state(event.array))
                if event.at > last.get(s.number, -1)
            }
    return [ledger.states[n].array for n in last if n not in gone]


class IdleBuffer(ShadowBuffer):
    """The private copy of a buffer that launches were given and do not touch: what it holds now."""

    def __init__(self, buffer: Buffer, f64: bool, used: list[array]) -> None:
        self._allocate(buffer, f64, used)
        self._take_over(used)
        self.injections = {}
        self.late = []
        self.written = []
        self._initial = None
