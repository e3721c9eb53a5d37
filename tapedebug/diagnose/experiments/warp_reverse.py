"""The gradients that Warp would compute: a reverse pass with Warp's reverse of some kernels."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug.diagnose.experiments.experiment import Semantics, Values

if TYPE_CHECKING:
    from tapedebug.compiler.warp_divergence import WarpDivergence
    from tapedebug.diagnose.experiments.replay import Replay
    from tapedebug.runtime.replay.shadow import Shadow
    from tapedebug.runtime.tape.record import Record

MOST = 1 << 31
"""Bytes of values that are kept, at most, for the reverse of launches whose arrays are written over later."""


def limits(replay: Replay) -> dict[int, tuple[WarpDivergence, ...]]:
    """For each launch with an adjoint, what in its kernel Warp may reverse wrongly, if there is any."""
    from tapedebug.compiler.kernel_queries import warp_divergences_of

    known: dict[Any, tuple[WarpDivergence, ...]] = {}
    found: dict[int, tuple[WarpDivergence, ...]] = {}
    for record in replay.records:
        if record.kernel is None or record.info is None:
            continue
        key = (record.kernel, record.active)
        if key not in known:
            known[key] = warp_divergences_of(record.kernel, record.active)
        if known[key]:
            found[record.index] = known[key]
    return found


def retained(record: Record) -> frozenset[int]:
    """The parameters of a launch whose arrays keep their gradients."""
    return frozenset(p for p in record.active if record.args[p].retain_grad)


def rewritten(replay: Replay, launch: int) -> frozenset[int]:
    """The parameters that a launch stores to, and whose arrays keep their gradients."""
    record = replay.records[launch]
    if record.kernel is None or record.info is None:
        return frozenset()
    return retained(record) & (record.writes - record.atomic)


def gradients(replay: Replay, semantics: Semantics) -> dict[int, Values]:
    """Return the gradients of the leaves, with Warp's reverse of these launches.

    Their arrays are read as the launch left them: what later launches write over is another rule's matter.

    Raises:
        TapedebugError: Too much memory would be needed.
        NotEmulated: What Warp does with one of the kernels is not known.
    """
    shadow: Shadow = replay._shadow()
    chosen = [replay.records[index] for index in sorted(semantics.launches)]
    keeper = _Keeper(replay, shadow, chosen)
    shadow.forward(on_operation=keeper.look)
    steps = shadow._steps("versions")
    for record in chosen:
        _, threads, _ = steps[record.index]
        steps[record.index] = (_runner(record, shadow, keeper, semantics), threads, 0)
    shadow.backward(replay.seeds)
    return {leaf: shadow.gradient(replay.arrays[leaf]) for leaf in replay.leaves}


def _runner(record: Record, shadow: Shadow, keeper: _Keeper, semantics: Semantics) -> Any:
    """What reverses a launch as Warp does."""
    from tapedebug.compiler.kernel_queries import warp_adjoint

    plan = record.plan
    entry = warp_adjoint(
        plan.kernel,
        record.active,
        strided=plan.strided,
        retained=retained(record) if semantics.retained else frozenset(),
        parts=semantics.parts,
        functions=semantics.functions,
    )

    def run(lo: int, hi: int, _: int) -> None:
        words = np.frombuffer(record.packed, np.uint64).copy()
        for p, slot in plan.value_slots:
            words[slot] = keeper.address(record, p)
        for p, slot in plan.adjoint_slots:
            words[slot] = shadow.space.adjoint(record.args[p])
        entry(lo, hi, words.ctypes.data)

    return run


class _Keeper:
    """Keeps what chosen launches left in their arrays, where a later launch writes over it."""

    def __init__(self, replay: Replay, shadow: Shadow, chosen: list[Record]) -> None:
        self.shadow = shadow
        self.chosen = {record.index for record in chosen}
        self.kept: dict[tuple[int, int], Any] = {}
        self.same: dict[tuple[Any, ...], Any] = {}
        self.bytes = 0
        self.writes: dict[Any, list[tuple[int, int, int]]] = {}
        for record in replay.records:
            for p in record.written:
                a = record.args[p]
                self.writes.setdefault(a.region, []).append((record.index, a.start, a.stop))
            for buffer in shadow._injections.get(record.index, ()):  # from outside the tape, before it
                written = (record.index, 0, buffer.buffer.nbytes)
                self.writes.setdefault(buffer.buffer, []).append(written)

    def look(self, record: Record) -> None:
        """After a launch: keep what has to be kept."""
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
        """Where a launch finds an array as it left it."""
        a, copy = record.args[param], self.kept.get((record.index, param))
        if copy is None:
            return self.shadow.space.value(a)
        address: int = copy.ctypes.data + self.shadow.space.offset(a, a.start)
        return address


def measured(replay: Replay, semantics: Semantics) -> dict[int, Values] | None:
    """`gradients`, or None where what Warp does is not known."""
    from tapedebug.compiler.passes.warp_forward import NotEmulated

    try:
        return gradients(replay, semantics)
    except NotEmulated:
        return None
