"""Reverse passes in which structs have the content that they had when the user's reverse pass began."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapedebug.aswarp.struct_mutation import changed_in
from tapedebug.aswarp.warp_programs import notes_of
from tapedebug.contract import Seeds, StructChanges
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.launch import launch_dims
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.tape import Tape


class TapeStructChanges:
    """The capability `contract.StructChanges` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._records = tape.records
        self._structs = {
            record.index: notes.now
            for record in tape.records
            if (notes := notes_of(record)) is not None and notes.now is not None
        }

    def changed(self) -> dict[int, list[int]]:
        """Return, by launch, the parameters that had changed when the reverse pass began."""
        return {index: changed_in(self._records[index], now) for index, now in self._structs.items()}

    def backward(self, replay: Shadow, seeds: Seeds, operations: Collection[int], /) -> bool:
        """Run a replay, and reverse some launches with the content of their structs when the pass began."""
        replay.forward()
        steps = replay._steps("versions")
        buffers = replay.space.buffers
        tables = []
        for index in operations:
            record = self._records[index]
            changed = set(changed_in(record, self._structs[index]))
            pairs = zip(record.args, self._structs[index], strict=True)
            now = [b if p in changed else a for p, (a, b) in enumerate(pairs)]
            plan = record.plan
            if index not in steps:
                continue
            if not all(now[p].region in buffers for p in plan.touched):
                return False
            slots = launch_dims(record.kernel, record.dim)[2]
            table = np.frombuffer(plan.packed(slots, tuple(now)), np.uint64).copy()  # type: ignore[attr-defined]
            for p, slot in plan.value_slots:
                if now[p].region in buffers:
                    table[slot] = replay.space.value(now[p])
            for p, slot in plan.adjoint_slots:
                buffers[now[p].region].gradient()
                table[slot] = replay.space.adjoint(now[p])
            tables.append(table)
            run = plan.adjoint_run(frozenset(), False, True, False, record.replay)
            steps[index] = (run, record.threads, table.ctypes.data)
        replay.backward(seeds)
        return True


TAPE[StructChanges] = TapeStructChanges
