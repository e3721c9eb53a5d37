"""The private memory of a shadow: one block for each buffer of the tape, perhaps in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug.lang import types
from tapedebug.runtime.array import array
from tapedebug.runtime.buffer import ALIGNMENT, Bytes
from tapedebug.runtime.versions import Ledger, LiveIn, Tracker

Values = np.ndarray[Any, Any]


class ShadowBuffer:
    """The private copy of one buffer.

    Attributes:
        buffer: The buffer of the user.
        scale: Bytes here for each byte there: 2 where float32 is held as float64.
        data: The content now.
        adjoint: The adjoint memory, or None until it is asked for.
        injections: By record index, what something outside the tape wrote just before that record.
        written: Arrays whose final content comes from the tape.
    """

    def __init__(self, ledger: Ledger, f64: bool, tracker: Tracker) -> None:
        self.buffer = ledger.buffer
        scalars = {types.numpy_dtype(a.dtype) for a in tracker.states if a.buffer is ledger.buffer}
        single = np.dtype(np.float32)
        if f64 and single in scalars and len(scalars) > 1:
            names = ", ".join(sorted(str(s) for s in scalars))
            raise TapeError(
                f"replay: one buffer of {self.buffer.nbytes} bytes is used as {names}; "
                "its float64 twin has no such views",
                mend="replay without dtype=, or use one array for each type",
            )
        self.scale = 2 if f64 and single in scalars else 1
        self.stored = np.dtype(np.float64) if self.scale == 2 else None
        self.data = _aligned(self.buffer.nbytes * self.scale)
        self.adjoint: Bytes | None = None
        if tracker.dry:
            # One launch that has not run: memory as it is, also where the launch will overwrite it.
            self.data[:] = self._expanded(self.buffer.data)
        for live in reversed([live for live in ledger.liveins if not live.injected]):
            self._load(self.data, live)
        self.injections: dict[int, list[tuple[int, Bytes]]] = {}
        for live in ledger.liveins:
            if live.injected and live.at < len(tracker.records):
                memory = self._expanded(self._content(live))
                self.injections.setdefault(live.at, []).append((live.start * self.scale, memory))
        self.written = _written(ledger, tracker)
        self._initial = self.data.copy() if self.written or self.injections else None

    def restart(self) -> None:
        """Go back to what the tape found."""
        if self._initial is not None:
            self.data[:] = self._initial

    def inject(self, at: int) -> None:
        """Load what something outside the tape wrote before record `at`."""
        for start, content in self.injections[at]:
            self.data[start : start + content.size] = content

    def gradient(self) -> Bytes:
        """The adjoint memory; zeros when it is first asked for."""
        if self.adjoint is None:
            self.adjoint = _aligned(self.data.size)
        return self.adjoint

    def range(self, start: int, stop: int) -> Bytes:
        """The bytes that correspond to `start … stop` of the user's buffer."""
        return self.data[start * self.scale : stop * self.scale]

    def address(self, a: array, adjoint: bool = False) -> int:
        """Where the first element of `a` (or its adjoint) is."""
        base: int = (self.gradient() if adjoint else self.data).ctypes.data
        return base + (a.ptr - self.buffer.address) * self.scale

    def view(self, a: array, adjoint: bool = False) -> Values:
        """`a` (or its adjoint) here, of its shape plus the vector dimension."""
        scalar = self.stored or types.numpy_dtype(a.dtype)
        inner = types.value_shape(a.dtype)
        return np.ndarray(
            a.shape + inner,
            scalar,
            self.gradient() if adjoint else self.data,
            (a.ptr - self.buffer.address) * self.scale,
            tuple(s * self.scale for s in a.strides) + (scalar.itemsize,) * len(inner),
        )

    def _content(self, live: LiveIn) -> Bytes:
        size = live.stop - live.start
        if live.fill is not None:
            repeated = np.frombuffer(live.fill, np.uint8)
            return np.resize(repeated, size)
        return live.copy if live.copy is not None else self.buffer.data[live.start : live.stop]

    def _load(self, into: Bytes, live: LiveIn) -> None:
        content = self._expanded(self._content(live))
        into[live.start * self.scale : live.start * self.scale + content.size] = content

    def _expanded(self, content: Bytes) -> Bytes:
        if self.scale == 1:
            return content.copy()
        whole = content[: content.size // 4 * 4].copy()
        wide: Bytes = whole.view(np.float32).astype(np.float64).view(np.uint8)
        return wide


def _aligned(nbytes: int) -> Bytes:
    block = np.zeros(nbytes + ALIGNMENT, np.uint8)
    lead = -block.ctypes.data % ALIGNMENT
    return block[lead : lead + nbytes]


def _written(ledger: Ledger, tracker: Tracker) -> list[array]:
    """The arrays of this buffer that the tape writes and nothing outside it wrote afterwards."""
    last: dict[int, int] = {}
    for record in tracker.records:
        for p in record.plan.written:
            if record.args[p].buffer is ledger.buffer:
                last[ledger.state(record.args[p]).number] = record.index
    gone = set()
    for event in tracker.outside:
        if event.array.buffer is ledger.buffer:
            gone |= {
                s.number
                for s in ledger.around(ledger.state(event.array))
                if event.at > last.get(s.number, -1)
            }
    return [ledger.states[n].array for n in last if n not in gone]
