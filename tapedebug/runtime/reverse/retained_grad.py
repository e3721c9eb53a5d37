"""`retain_grad=True`: keep the adjoint of the last values that the tape left in each element.

An element may be written many times, through the array, its slices or another array with the same memory.
Only the last of its versions counts: its adjoint is complete when the reverse pass reaches the launch that
wrote it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.runtime.launch.plan import has_gradient
from tapedebug.runtime.memory.array import array, range_key
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.reverse.argument_table import Group
from tapedebug.runtime.reverse.live_space import LiveSpace
from tapedebug.runtime.tape.buffer_versions import RangeState, elements_of
from tapedebug.runtime.tape.record import Record

Values = np.ndarray[Any, Any]
Part = tuple[array, tuple[array, ...]]
"""An array that a record wrote last, and the retained arrays that it is a part of; none if it is one itself.
"""


class RetainedGrad:
    """The adjoints of retained arrays that a reverse pass keeps.

    Attributes:
        at: By index of a record, the arrays that it wrote and no later record overwrites as a whole.
    """

    def __init__(self, records: list[Record], groups: list[Group]) -> None:
        self.at: dict[int, list[Part]] = {}
        self._kept: list[tuple[Part, Values]] = []
        retained: dict[Buffer, dict[Any, array]] = {}
        of_kernels = ((columns, plan.touched + plan.idle) for plan, _, columns in groups)
        for a in {a: None for columns, params in of_kernels for p in params for a in columns[p]}:
            if a.retain_grad and has_gradient(a):
                retained.setdefault(a.buffer, {})[range_key(a)] = a
        later: dict[Buffer, list[tuple[int, int]]] = {}
        for record in reversed(records) if retained else ():
            for p in record.plan.written:
                a = record.args[p]
                if a.buffer in retained and has_gradient(a):
                    self._enter(record, a, list(retained[a.buffer].values()), later.setdefault(a.buffer, []))

    def _enter(self, record: Record, a: array, near: list[array], later: list[tuple[int, int]]) -> None:
        """Enter that a record wrote `a`, before later ones wrote the bytes of `later`."""
        if any(start <= a.start and a.stop <= stop for start, stop in later):
            return
        met = () if a.retain_grad else tuple(b for b in near if RangeState(0, a).meets(RangeState(1, b)))
        if a.retain_grad or met:
            self.at.setdefault(record.index, []).append((a, met))
            if a.is_contiguous:
                later.append((a.start, a.stop))

    def begin(self) -> None:
        """Begin a pass: discard the copies of an interrupted one."""
        self._kept = []

    def keep(self, record: Record, space: LiveSpace) -> None:
        """Copy the adjoints of what a record wrote, which are complete just before its own adjoint runs."""
        self._kept += [(part, space.adjoint_view(part[0]).copy()) for part in self.at[record.index]]

    def put_back(self, space: LiveSpace) -> None:
        """Restore, after the pass, the adjoints that it consumed, the last version of an element last."""
        kept, self._kept = self._kept, []
        for (a, of), values in reversed(kept):
            if not of:
                space.adjoint_view(a)[...] = values
                continue
            memory = a.buffer.gradient()
            before, inside = memory.data.copy(), np.zeros(memory.nbytes, np.uint8)
            for each in of:
                elements_of(inside, each)[...] = 1
            space.adjoint_view(a)[...] = values
            np.copyto(memory.data, before, where=inside == 0)
