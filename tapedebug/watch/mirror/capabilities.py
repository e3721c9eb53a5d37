"""Capabilities of mirrored launches that follow from the kernel of this engine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapedebug import contract
from tapedebug.contract import Replay, Stack
from tapedebug.lang import types
from tapedebug.operations.replay import OperationReplay

if TYPE_CHECKING:
    from tapedebug.watch.mirror.mirrored_launch import MirroredLaunch

OF_RECORD = (
    contract.KernelSource,
    contract.KernelOperations,
    contract.CallArguments,
    contract.CustomGradients,
    contract.Threads,
)
"""Capabilities that the launch's record has, if its arguments are counted as the record counts them."""


class MirroredNumbers:
    """The capability `contract.NumberArguments` of a mirrored launch.

    Args:
        launch: The launch.
    """

    def __init__(self, launch: MirroredLaunch) -> None:
        self._launch = launch

    @property
    def stack(self) -> Stack:
        """The frame of the call."""
        return ((*self._launch.record.site, 0),)

    @property
    def params(self) -> Sequence[int]:
        """The parameters that are floats, or vectors of floats."""
        params = self._launch.record.plan.kernel.layout.params
        return [number for number, of in enumerate(params) if not of.is_array and types.is_float(of.type)]

    def scale(self, replay: Replay, param: int, factor: float, /) -> None:
        """Multiply an argument by a factor in all further forward runs of a replay."""
        assert isinstance(replay, OperationReplay)
        replay.keep_memory()
        launch = self._launch
        step = launch.in_float64 if replay.is_float64 else launch
        assert step is not None
        layout = launch.record.plan.kernel.layout
        _, _, address, _ = step.bound(replay.memory)
        slot = layout.values[param]
        for place in range(slot, slot + types.components(layout.params[param].type)):
            ctypes.c_double.from_address(address + 8 * place).value *= factor
