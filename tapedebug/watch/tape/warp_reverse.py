"""Warp's own adjoint kernels, as a capability of tapes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tapedebug.contract import Replay, ReverseDivergence, Seeds
from tapedebug.operations import OperationReplay
from tapedebug.watch.launch import WarpLaunch
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.mirror import AdjointComparison
from tapedebug.watch.tape.tape_recording import TapeRecording


class OwnReverse:
    """The capability `WarpReverse`: Warp's adjoint kernels, measured beside exact adjoints."""

    consumed = True
    is_own = True

    def __init__(self, tape: TapeRecording) -> None:
        self._tape = tape
        self._comparison: AdjointComparison | None = None
        self._compared = 0, 0

    def _measured(self) -> AdjointComparison:
        """Return the comparison for the last reverse pass, which is made once."""
        now = len(self._tape.operations), len(self._tape.reverse_passes)
        if self._comparison is None or self._compared != now:
            self._compared = now
            self._comparison = AdjointComparison(self._tape, self._tape.launches)
            if self._tape.seeds:
                self._comparison.measure(self._tape.seeds)
        return self._comparison

    def divergences(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """Return the constructs of each launch whose adjoint kernel gives other adjoints than the exact one.

        If no construct is known to be reversed wrongly, it is the kernel as a whole.
        """
        found: dict[int, Sequence[ReverseDivergence]] = {}
        launches = self._tape.launches
        for index in self._measured().differences:
            mirrored = launches[index].mirrored
            if mirrored is not None:
                found[index] = mirrored.divergences()
        return found

    def left_out(self) -> Sequence[str]:
        """Return the kernels of which only some launches were compared."""
        return [
            f"Warp's adjoint kernel of {name} was compared for {compared} of {total} launches"
            for name, (compared, total) in self._measured().left_out.items()
        ]

    def commands(self) -> list[int]:
        """Return the launches of recorded commands, which are not on Warp's tape."""
        return [o.index for o in self._tape.operations if isinstance(o, WarpLaunch) and not o.taped]

    def rewritten(self, operation: int, /) -> frozenset[int]:
        """Return the parameters that an operation stores to and whose arrays keep their gradients."""
        return frozenset(
            access.param
            for access in self._tape.operations[operation].accesses
            if access.writes
            and not access.atomic
            and isinstance(access.array, WatchedArray)
            and getattr(access.array.source, "retain_grad", False)
        )

    def backward(
        self,
        replay: Replay,
        seeds: Seeds,
        operations: Collection[int],
        *,
        parts: bool = True,
        functions: bool = True,
        retained: bool = False,
    ) -> bool:
        """Run a replay forward and backward, with Warp's adjoint kernels for some operations.

        `parts` and `functions` are not distinguished.
        """
        if not isinstance(replay, OperationReplay):
            return False
        self._measured().backward(replay, seeds, operations, retains=retained)
        return True
