"""The values of loops that the adjoints of launches keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.compiler.ir import Value
from tapedebug.compiler.kernel_queries import adjoint_with_loops
from tapedebug.compiler.loop_storage import LoopStorage, loop_storage_of
from tapedebug.compiler.rule_evaluation import evaluate
from tapedebug.contract import CannotFollow, StoredLoops
from tapedebug.lang.rules import RULES
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape


class TapeStoredLoops:
    """The capability `contract.StoredLoops` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._records = tape.records

    def loops(self) -> dict[int, list[LoopStorage]]:
        """Return, for each launch whose adjoint keeps values of loops of known length, these loops."""
        found: dict[int, list[LoopStorage]] = {}
        adjoints: dict[Any, Any] = {}
        known: dict[Any, list[LoopStorage]] = {}
        for record in self._records:
            if record.kernel is None or record.info is None:
                continue
            key = (record.kernel, record.active)
            if key not in adjoints:
                adjoints[key] = adjoint_with_loops(record.kernel, record.active)
            if adjoints[key] is None:
                continue
            numbers = _Numbers(record)
            same = (*key, record.dim, numbers.key)
            if same not in known:
                known[same] = loop_storage_of(adjoints[key], numbers.of)
            if known[same]:
                found[record.index] = known[same]
        return found


class _Numbers:
    """The integers of a launch that its arguments and dimensions determine; for the last thread."""

    def __init__(self, record: Record) -> None:
        self.record = record
        arrays = set(record.arrays)
        self.scalars = {p: np.ravel(value).tolist() for p, value in enumerate(record.args) if p not in arrays}
        shapes = tuple(record.args[p].shape for p in sorted(arrays))
        self.key = (shapes, tuple((p, *values) for p, values in sorted(self.scalars.items())))

    def of(self, value: Value) -> int | None:
        """Return the number, or None."""
        try:
            return int(self._of(value, 32))
        except (CannotFollow, OverflowError, ValueError):
            return None

    def _of(self, value: Value, depth: int) -> Any:
        op = value.op
        if op is None or depth == 0:
            raise CannotFollow("it is not known before the launch")
        match op.kind:
            case "const":
                found = op.data[0]
            case "argument":
                found = np.asarray(self.scalars[op.data[0]][op.data[1]])
            case "extent":
                found = self.record.args[op.data[0]].shape[op.data[1]]
            case "thread":
                axis = op.data[0]
                found = (self.record.dim[axis] if axis < len(self.record.dim) else 1) - 1
            case kind if kind in RULES:
                found = evaluate(RULES[kind].text, [self._of(arg, depth - 1) for arg in op.args])
            case _:
                raise CannotFollow("it is not known before the launch")
        return np.asarray(found).astype(value.type.numpy)[()]


TAPE[StoredLoops] = TapeStoredLoops
