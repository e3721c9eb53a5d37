"""The floating-point numbers that launches were given: a capability of the contract."""

from __future__ import annotations

import ctypes

from tapedebug._dataclass import dataclass
from tapedebug.contract import NumberArguments, Replay, Stack
from tapedebug.lang import types
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.record import Record


@dataclass(frozen=True, slots=True)
class RecordNumbers:
    """The capability `contract.NumberArguments` of a launch or a fill."""

    record: Record

    @property
    def stack(self) -> Stack:
        """The frame of the call."""
        return ((*self.record.site, 0),)

    @property
    def params(self) -> list[int]:
        """The parameters that are floats or vectors of floats; of a fill with other than 0, its array."""
        if self.record.kind == "fill":
            return [0] if self.record.value.strip(b"\0") else []
        layout = self.record.plan.kernel.layout
        return [
            param for param, of in enumerate(layout.params) if not of.is_array and types.is_float(of.type)
        ]

    def scale(self, replay: Replay, param: int, factor: float, /) -> None:
        """Multiply an argument of a launch by a factor in all further runs of a replay."""
        assert isinstance(replay, Shadow)
        layout = self.record.plan.kernel.layout
        (calls,) = replay.call_lists(tangents=False)
        *_, address = calls[self.record.index]
        slot = layout.values[param]
        assert address
        for place in range(slot, slot + types.components(layout.params[param].type)):
            ctypes.c_double.from_address(address + 8 * place).value *= factor


OPERATION[NumberArguments] = lambda record: (
    RecordNumbers(record) if record.kind in ("kernel", "fill") else None
)
