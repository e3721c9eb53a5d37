"""Replays of one record alone, for the debugger's contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.contract import SingleReplay
from tapedebug.lang.types import float64 as float64_type
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.launch.python_operation import operation_of
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.single_launch import one_launch, one_python
from tapedebug.runtime.tape.record import Record


@dataclass(frozen=True, slots=True)
class RecordReplay:
    """The capability `contract.SingleReplay` of a launch or a Python operation."""

    record: Record

    def new_replay(self, args: Sequence[Any] | None = None, /, *, float64: bool = False) -> Shadow:
        """Return a replay of this record only.

        Raises:
            TapeError: In float64, if memory is used as several types.
        """
        record = self.record
        given = record.args if args is None else args
        if record.kind == "python":
            launch = one_python(operation_of(record).on(given))
        else:
            launch = one_launch(record.kernel, record.dim, given, flat=True)
        return Shadow(launch, float64_type if float64 else None)


OPERATION[SingleReplay] = lambda record: RecordReplay(record) if record.kind in {"kernel", "python"} else None
