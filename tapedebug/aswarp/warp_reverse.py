"""The gradients that Warp would have computed: reverse passes with Warp's reverse of some kernels."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug.aswarp.warp_adjoints import retained_params
from tapedebug.aswarp.warp_programs import notes_of
from tapedebug.compiler.effects import WarpDivergence
from tapedebug.compiler.kernel_queries import warp_adjoint, warp_divergences_of
from tapedebug.compiler.passes.warp_forward import NotEmulated
from tapedebug.contract import Seeds, WarpReverse
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

MOST = 1 << 31
"""The largest number of bytes kept for the reverse of launches whose arrays are overwritten later."""


class TapeWarpReverse:
    """The capability `contract.WarpReverse` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._records = tape.records
        self.consumed: bool = tape.tracker.foreign_reverse is not None
        self.is_own = False

    def divergences(self) -> dict[int, tuple[WarpDivergence, ...]]:
        """Return, for each launch with an adjoint, the parts of its kernel that Warp may reverse wrongly."""
        known: dict[Any, tuple[WarpDivergence, ...]] = {}
        found: dict[int, tuple[WarpDivergence, ...]] = {}
        for record in self._records:
            if record.kernel is None or record.info is None:
                continue
            key = (record.kernel, record.active)
            if key not in known:
                known[key] = warp_divergences_of(record.kernel, record.active)
            if known[key]:
                found[record.index] = known[key]
        return found

    def left_out(self) -> Sequence[str]:
        """Return nothing: divergences are derived from the kernels of all launches."""
        return ()

    def commands(self) -> list[int]:
        """Return the launches that a recorded command launched."""
        return [record.index for record in self._records if _is_command(record)]

    def rewritten(self, operation: int, /) -> frozenset[int]:
        """Return the parameters that a launch stores to, and whose arrays keep their gradients."""
        record = self._records[operation]
        if record.kernel is None or record.info is None:
            return frozenset()
        return retained_params(record) & (record.writes - record.atomic)

    def backward(
        self,
        replay: Shadow,
        seeds: Seeds,
        operations: Collection[int],
        *,
        parts: bool = True,
        functions: bool = True,
        retained: bool = False,
    ) -> bool:
        """Run a replay with Warp's reverse of some launches; see `contract.WarpReverse.backward`.

        Their arrays are read as the launch left them: overwrites by later launches are handled elsewhere.

        Raises:
            TapedebugError: Too much memory would be needed.
        """
        chosen = [self._records[index] for index in sorted(operations)]
        keeper = _Keeper(self._records, replay, chosen)
        replay.forward(on_operation=keeper.look)
        steps = replay._steps("versions")
        options = {"parts": parts, "functions": functions}
        try:
            for record in chosen:
                _, threads, _ = steps[record.index]
                kept = retained_params(record) if retained else frozenset[int]()
                steps[record.index] = (_runner(record, replay, keeper, kept, options), threads, 0)
            replay.backward(seeds)
        except NotEmulated:
            return False
        return True


def _is_command(record: Record) -> bool:
    notes = notes_of(record)
    return notes is not None and notes.command


def _runner(
    record: Record, shadow: Shadow, keeper: _Keeper, retained: frozenset[int], options: Mapping[str, bool]
) -> Any:
    """Return the function that reverses a launch as Warp does."""
    plan = record.plan
    entry = warp_adjoint(plan.kernel, record.active, strided=plan.strided, retained=retained, **options)

    def run(lo: int, hi: int, _: int) -> None:
        words = np.frombuffer(record.packed, np.uint64).copy()
        for p, slot in plan.value_slots:
            words[slot] = keeper.address(record, p)
        for p, slot in plan.adjoint_slots:
            words[slot] = shadow.space.adjoint(record.args[p])
        entry(lo, hi, words.ctypes.data)

    return run


class _Keeper:
    """Keeps what chosen launches left in their arrays, if a later launch overwrites it."""

    def __init__(self, records: list[Record], shadow: Shadow, chosen: list[Record]) -> None:
        self.shadow = shadow
        self.chosen = {record.index for record in chosen}
        self.kept: dict[tuple[int, int], Any] = {}
        self.same: dict[tuple[Any, ...], Any] = {}
        self.bytes = 0
        self.writes: dict[Any, list[tuple[int, int, int]]] = {}
        for record in records:
            for p in record.written:
                a = record.args[p]
                self.writes.setdefault(a.region, []).append((record.index, a.start, a.stop))
            for buffer in shadow._injections.get(record.index, ()):  # written outside the tape, before it
                written = (record.index, 0, buffer.buffer.nbytes)
                self.writes.setdefault(buffer.buffer, []).append(written)

    def look(self, record: Record) -> None:
        """Keep, after a launch, the content that later launches overwrite."""
        if record.index not in self.chosen:
            return
        for p in record.touched:
            a = record.args[p]
            writes = self.writes.get(a.region, [])
            place = bisect_left(writes, (record.index + 1, -1, -1))
            if not any(start < a.stop and a.start < stop for _, start, stop in writes[place:]):
                continue
            version = (a.region, a.start, a.stop, place)
            if version not in self.same:
                copy = self.shadow.space.buffers[a.region].range(a.start, a.stop).copy()
                self.bytes += copy.size
                if self.bytes > MOST:
                    raise TapedebugError(
                        f"what Warp would have computed needs more than {MOST >> 30} GB of values at once",
                        hint="diagnose a tape of fewer steps",
                    )
                self.same[version] = copy
            self.kept[record.index, p] = self.same[version]

    def address(self, record: Record, param: int) -> int:
        """Return the address of an array's content as a launch left it."""
        a, copy = record.args[param], self.kept.get((record.index, param))
        if copy is None:
            return self.shadow.space.value(a)
        address: int = copy.ctypes.data + self.shadow.space.offset(a, a.start)
        return address


TAPE[WarpReverse] = TapeWarpReverse
