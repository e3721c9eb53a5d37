"""Replays of a tape's records in another order, some more than once: a capability of the contract."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug.contract import Copy, Operation, Resequencing
from tapedebug.lang.types import float64 as double
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.plan import has_gradient
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.builtin_plans import COPY
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape
from tapedebug.runtime.tape.tracker import Tracker


@dataclass(frozen=True, slots=True)
class TapeResequencing:
    """The capability `contract.Resequencing` of a tape."""

    tape: Tape

    def new_replay(self, steps: Sequence[Operation | Copy], /, *, float64: bool = False) -> Shadow:
        """Return a replay of records of the tape and copies, in any order.

        Raises:
            TapeError: In float64, if one buffer is used both as float32 and as another type.
        """
        tracker = Tracker("ignore", dry=True)
        site = self.tape.records[0].site
        for index, step in enumerate(steps):
            if isinstance(step, Record):
                record = Record(
                    index, step.plan, step.args, step.dim, step.threads, step.packed, step.site, None
                )
                record.value = step.value
            elif isinstance(step, Copy):
                dest, src = Shadow._own(step.dest), Shadow._own(step.src)
                plan = COPY[has_gradient(dest), has_gradient(src)]
                record = Record(index, plan, (dest, src), dest.shape, dest.size, b"", site, None)
            else:
                raise TapeError(
                    f"replay: {step!r} is not on the tape", hint="pass operations of the tape and copies"
                )
            tracker.before(record)
            tracker.records.append(record)
        return Shadow(tracker, double if float64 else None)


TAPE[Resequencing] = TapeResequencing
