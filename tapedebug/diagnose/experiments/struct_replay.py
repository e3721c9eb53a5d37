"""Reverse passes in which structs hold what they held when the reverse pass of the user began."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.diagnose.experiments.experiment import Values

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay


def fields_changed(replay: Replay) -> dict[int, list[int]]:
    """For each launch the parameters that were something else when the reverse pass began."""
    from tapedebug.runtime.reverse.struct_mutation import changed_in

    structs = replay.recorded.tape.tracker.structs
    return {index: changed_in(replay.records[index], now) for index, now in structs.items()}


def gradients_with(replay: Replay, launches: Collection[int]) -> dict[int, Values] | None:
    """Gradients where these launches are reversed with what their structs held when the reverse pass began.

    None where an array in them is not on the tape.
    """
    from tapedebug.runtime.launch.launch import launch_dims
    from tapedebug.runtime.reverse.struct_mutation import changed_in

    structs = replay.recorded.tape.tracker.structs
    shadow = replay._shadow().forward()
    steps = shadow._steps("versions")
    buffers = shadow.space.buffers
    held = []
    for index in launches:
        record = replay.records[index]
        changed = set(changed_in(record, structs[index]))
        now = [
            b if p in changed else a for p, (a, b) in enumerate(zip(record.args, structs[index], strict=True))
        ]
        plan = record.plan
        if index not in steps:
            continue
        if not all(now[p].region in buffers for p in plan.touched):
            return None
        slots = launch_dims(record.kernel, record.dim)[2]
        table = np.frombuffer(plan.packed(slots, *now), np.uint64).copy()  # type: ignore[attr-defined]
        for p, slot in plan.value_slots:
            if now[p].region in buffers:
                table[slot] = shadow.space.value(now[p])
        for p, slot in plan.adjoint_slots:
            buffers[now[p].region].gradient()
            table[slot] = shadow.space.adjoint(now[p])
        held.append(table)
        run = plan.adjoint_run(frozenset(), False, True, False, record.replay)
        steps[index] = (run, record.threads, table.ctypes.data)
    shadow.backward(replay.seeds)
    return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}
