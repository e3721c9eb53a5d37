"""Experiments on a recorded tape, by replaying it in private memory."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugError, TapeError
from tapedebug._float_types import is_float
from tapedebug.contract import (
    Array,
    ArrayOrigins,
    CannotFollow,
    FollowedThread,
    Operation,
    OutsideReads,
    Retention,
    ReverseDivergence,
    StaleReads,
    StoredLoop,
    StoredLoops,
    StructChanges,
    TangentReplay,
    Tangents,
    Threads,
    UnrecordedLaunches,
    WarpReverse,
    share_bytes,
)
from tapedebug.contract import Replay as TapeReplay
from tapedebug.diagnose.experiments.ablation import gradients_without, values_at, values_without
from tapedebug.diagnose.experiments.argument_swap import handed_on, swap_arguments
from tapedebug.diagnose.experiments.experiment import (
    Consume,
    HostRead,
    LaunchFlow,
    OffTapeLaunch,
    Semantics,
    ValueChange,
    Values,
    value_change,
)
from tapedebug.diagnose.experiments.patched_replay import ReplayPatch
from tapedebug.diagnose.experiments.places import location_at, place_of
from tapedebug.diagnose.experiments.stale_replay import StaleReplays
from tapedebug.diagnose.trace_analysis.finiteness import adjoints_are_finite, first_nonfinite_value
from tapedebug.trace import Location

if TYPE_CHECKING:
    from tapedebug.trace.recording import TraceBinding

LARGE = 1 << 20
"""Bytes of arrays and preserved values from which on rules keep no replay, and few gradients, for later."""
SECONDS = 1.0
"""Time limit for following threads to find the line that wrote an element."""


class Replay:
    """The `Experiment` of a tape.

    Args:
        recorded: The tape with its trace.
        seeds: Incoming adjoints of the reverse pass, by array.
        leaves: Ids of the arrays whose gradients are computed.
        wrong: The leaves whose consumed gradient is wrong, as measured end to end.
        named: The caller named these leaves.
        pulse: Called before each launch of every run; may raise to cancel.
    """

    def __init__(
        self,
        recorded: TraceBinding,
        seeds: Mapping[Any, Values],
        leaves: Sequence[int],
        wrong: Collection[int] = (),
        named: bool = False,
        pulse: Callable[[], None] | None = None,
    ) -> None:
        self.pulse = pulse
        self.wrong = frozenset(wrong)
        self.named = named
        tape = recorded.tape
        self.warp = tape.capability(WarpReverse)
        self.structs = tape.capability(StructChanges)
        self.origins = tape.capability(ArrayOrigins)
        self.stale: StaleReads = tape.capability(StaleReads) or StaleReplays(tape)
        self.like_warp = self.warp is not None and self.warp.consumed
        self.is_warp = self.warp is not None and self.warp.is_own
        self.recorded = recorded
        self.records: list[Operation] = list(tape.operations)
        self.arrays = recorded.arrays
        self.seeds = dict(seeds)
        self.leaves = list(leaves)
        self.losses = [number for a in seeds if (number := recorded.id_of(a)) is not None]
        self.blocked = self._why_blocked()
        self.patch: ReplayPatch | None = None
        self._single: TapeReplay | None = None
        self._at_end = False
        self._gradients: dict[Any, dict[int, Values]] = {}
        self._limits: Mapping[int, Sequence[ReverseDivergence]] | None = None
        self._stored_loops: Mapping[int, Sequence[StoredLoop]] | None = None

    def patched(self, patch: ReplayPatch) -> Replay:
        """Return the experiment on the same tape with each of its runs patched."""
        found = Replay(self.recorded, self.seeds, self.leaves, named=self.named, pulse=self.pulse)
        found.patch = patch
        return found

    def _why_blocked(self) -> str:
        if not self.seeds:
            return "no loss is known"
        for record in self.records:
            if record.kind == "func":
                return (
                    f"record {record.index} is a custom function ({record.name}), which cannot be replayed "
                    "(launch_python can)"
                )
        return ""

    # --------------------------------------------------------------- overwrite

    def changes(self, overwrites: Sequence[tuple[int, int]]) -> dict[tuple[int, int], ValueChange]:
        """See `Experiment`. One forward run that holds the overwritten values of one launch at a time."""
        wanted: dict[int, list[tuple[int, int]]] = {}
        for pair in overwrites:
            wanted.setdefault(pair[1], []).append(pair)
        before: dict[tuple[int, int], Values] = {}
        found: dict[tuple[int, int], ValueChange] = {}

        def hold(launch: int) -> None:
            before.clear()
            before.update((pair, shadow.values(self.arrays[pair[0]])) for pair in wanted.get(launch, ()))

        def look(record: Operation) -> None:
            for pair, old in before.items():
                a = self.arrays[pair[0]]
                found[pair] = value_change(a.shape, old, shadow.values(a))
            hold(record.index + 1)

        with self.rewound(forward_only=True) as shadow:
            hold(0)
            shadow.forward(on_operation=look)
        return found

    def gradients(
        self,
        unpreserved: Collection[tuple[int, int]] = (),
        poisoned: Collection[int] = (),
        left: Collection[tuple[int, int]] = (),
        unrecorded: Collection[int] = (),
    ) -> dict[int, Values]:
        """See `Experiment`."""
        changed = [frozenset(pairs) for pairs in (unpreserved, left)]
        key = (*map(_packed, changed), frozenset(poisoned), frozenset(unrecorded))
        if key not in self._gradients:
            shadow = self._ready()
            self.stale.see(shadow, *changed)
            before = {array: shadow.values(self.arrays[array]) for array in poisoned}
            for array, values in before.items():
                shadow.set(self.arrays[array], np.full_like(values, np.nan))
            shadow.backward(self.seeds, skip=unrecorded)
            for array, values in before.items():
                shadow.set(self.arrays[array], values)
            found = {leaf: shadow.gradient(self.arrays[leaf]) for leaf in self.leaves}
            if any(key):
                self.stale.see(shadow, (), ())  # drops the values that the launches left
                if self._is_large:  # rules share the plain gradients
                    return found
            self._gradients[key] = found
        return self._gradients[key]

    def writer_of(self, launch: int, array: int, param: int, element: int) -> Location | None:
        """See `Experiment`. Follows threads until one stores to that element."""
        record = self.records[launch]
        overwritten, target = self.arrays[array], record.args[param]
        if record.capability(Threads) is None or not (overwritten.is_contiguous and target.is_contiguous):
            return None
        item = (overwritten.stop - overwritten.start) // max(1, overwritten.size)
        wanted = (overwritten.start + element * item - target.start) // item
        shadow = self._shadow()
        shadow.forward(stop=launch)
        values = {p: shadow.values(a) for p, a in enumerate(record.args) if p in record.touched}
        flow = LaunchFlow(values, {}, {}, {})
        until = time.monotonic() + SECONDS
        threads = math.prod(record.dim)
        for index in (wanted, *range(threads)):
            if index >= threads or time.monotonic() > until:
                continue
            thread = self.thread(launch, index, flow)
            with contextlib.suppress(CannotFollow):
                thread.run()
            span = thread.store_at(param, wanted, item)
            if span is not None:
                return place_of(span)
        return None

    # ------------------------------------------------- after-loss, duplicate-launch

    def without(self, launches: Collection[int]) -> dict[int, Values]:
        """See `Experiment`."""
        return gradients_without(self, launches)

    def values_without(
        self, launches: Collection[int], arrays: Collection[int], stop: int
    ) -> dict[int, Values]:
        """See `Experiment`."""
        return values_without(self, launches, arrays, stop)

    def values_at(self, wanted: Collection[tuple[int, int]]) -> dict[tuple[int, int], Values]:
        """See `Experiment`."""
        return values_at(self, wanted)

    def current_values(self, array: int) -> Values:
        """See `Experiment`."""
        found: Values = self.arrays[array].current()
        return found

    # ------------------------------------------------------------------ unused

    def swap_arguments(self, launch: int, one: int, other: int) -> float:
        """See `Experiment`."""
        return swap_arguments(self, launch, one, other)

    def handed_on(self, source: int, target: int, reader: int) -> tuple[float, dict[int, Values]]:
        """See `Experiment`."""
        return handed_on(self, source, target, reader)

    # --------------------------------------------- warp-limitation, replayed-counter

    def changed_structs(self) -> dict[int, Sequence[int]]:
        """See `Experiment`."""
        return {} if self.structs is None else dict(self.structs.changed())

    def gradients_with_structs(self, launches: Collection[int]) -> dict[int, Values] | None:
        """See `Experiment`."""
        shadow = self._shadow()
        if self.structs is None or not self.structs.backward(shadow, self.seeds, launches):
            return None
        return self._of_leaves(shadow)

    def warp_limits(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """See `Experiment`."""
        if self._limits is None:
            self._limits = {} if self.warp is None else self.warp.divergences()
        return self._limits

    def unmeasured_limits(self) -> Sequence[str]:
        """See `Experiment`."""
        return () if self.warp is None or self._limits is None else self.warp.left_out()

    def commands(self) -> list[int]:
        """See `Experiment`."""
        return [] if self.warp is None else list(self.warp.commands())

    def as_warp(self, semantics: Semantics) -> dict[int, Values] | None:
        """See `Experiment`."""
        shadow = self._shadow()
        known = self.warp is not None and self.warp.backward(
            shadow,
            self.seeds,
            semantics.launches,
            parts=semantics.parts,
            functions=semantics.functions,
            retained=semantics.retained,
        )
        return self._of_leaves(shadow) if known else None

    def stored_loops(self) -> Mapping[int, Sequence[StoredLoop]]:
        """See `Experiment`."""
        if self._stored_loops is None:
            storage = self.recorded.tape.capability(StoredLoops)
            self._stored_loops = {} if storage is None else storage.loops()
        return self._stored_loops

    def rewritten(self, launch: int) -> frozenset[int]:
        """See `Experiment`."""
        return frozenset(() if self.warp is None else self.warp.rewritten(launch))

    # ------------------------------------------------------------ disconnected

    def loss_moved(self, array: int, writer: int | None, scale: float) -> float:
        """See `Experiment`."""
        shadow = self._shadow(double=True, forward_only=True)
        shadow.forward()
        plain = self._losses(shadow)
        shadow.forward(stop=0 if writer is None else writer + 1)
        a = self.arrays[array]
        shadow.set(a, perturbed(shadow.values(a), scale))
        shadow.forward(start=shadow.position)
        return _distance(plain, self._losses(shadow))

    def loss_changes(self, arrays: Sequence[int], scales: Sequence[float]) -> list[float]:
        """See `Experiment`."""
        shadow = self._shadow(double=True, forward_only=True)
        shadow.forward(stop=0)
        values = {array: shadow.values(self.arrays[array]) for array in arrays}
        plain, size = self._weighted(shadow.forward(start=0))
        found = []
        for scale in scales:
            shadow.forward(stop=0)
            for array in arrays:
                shadow.set(self.arrays[array], perturbed(values[array], scale))
            shadow.forward(start=0)
            found.append(abs(self._weighted(shadow)[0] - plain))
        return [*found, size]

    def host_reads(self) -> list[HostRead]:
        """See `Experiment`."""
        reads = self.recorded.tape.capability(OutsideReads)
        found = []
        for read in () if reads is None else reads.reads():
            near = tuple(
                number
                for number, own in enumerate(self.arrays)
                if own.region is read.region and own.start < read.stop and read.start < own.stop
            )
            if near:
                found.append(
                    HostRead(
                        near,
                        read.at,
                        read.elsewhere,
                        location_at(read.call_site),
                        read.how,
                        read.clock,
                        read.stack,
                        read.memory,
                    )
                )
        return sorted(found, key=lambda read: -read.clock)

    def off_tape_launches(self) -> list[OffTapeLaunch]:
        """See `Experiment`."""
        found = self.recorded.tape.capability(UnrecordedLaunches)
        return [
            OffTapeLaunch(
                launch.name,
                self._sharing(launch.reads),
                self._sharing(launch.writes),
                launch.at,
                location_at(launch.call_site),
                launch.paused,
                launch.kind,
                launch.earlier,
                tuple(launch.unset),
            )
            for launch in (() if found is None else found.launches())
        ]

    def _sharing(self, arrays: Sequence[Array]) -> tuple[int, ...]:
        """Return the numbers of the arrays that share memory with one of some arrays."""
        return tuple(
            number
            for number, own in enumerate(self.arrays)
            if any(share_bytes(own, array) for array in arrays)
        )

    def retains(self) -> bool:
        """See `Experiment`."""
        return self.origins is not None and any(map(self.origins.retains_gradient, self.arrays))

    def given(self, array: int) -> bool:
        """See `Experiment`."""
        return self.origins is not None and self.origins.given(self.arrays[array])

    def used_elsewhere(self, array: int) -> bool:
        """See `Experiment`."""
        return self.origins is not None and self.origins.used_elsewhere(self.arrays[array])

    def values_moved(self, source: int, array: int, writer: int | None, scale: float) -> float:
        """See `Experiment`."""
        shadow = self._shadow(double=True, forward_only=True)
        a = self.arrays[array]
        stop = 0 if writer is None else writer + 1
        shadow.forward(stop=stop)
        plain = shadow.values(a)
        shadow.forward(stop=0)
        shadow.set(self.arrays[source], perturbed(shadow.values(self.arrays[source]), scale))
        shadow.forward(stop=stop)
        return _distance([plain], [shadow.values(a)])

    def _losses(self, shadow: TapeReplay) -> list[Values]:
        return [shadow.values(a) for a in self.seeds]

    def _weighted(self, shadow: TapeReplay) -> tuple[float, float]:
        """Return the number that is differentiated, the outputs weighted by their seeds, and its size."""
        with np.errstate(invalid="ignore", over="ignore"):
            terms = [
                np.asarray(seed, np.float64).ravel() * values.astype(np.float64).ravel()
                for seed, values in zip(self.seeds.values(), self._losses(shadow), strict=True)
            ]
            return float(sum(map(np.sum, terms))), float(sum(np.sum(np.abs(term)) for term in terms))

    def dead_adjoints(self) -> list[int]:
        """See `Experiment`."""
        shadow = self._ready()
        alive: dict[int, bool] = {}
        dead: list[int] = []

        def note(index: int) -> None:
            if index >= 0:
                record = self.records[index]
                written = [record.args[p] for p in record.written if p in record.active]
                alive[index] = any(bool(np.any(shadow.gradient(a))) for a in written)

        def look(record: Operation) -> None:
            read = [record.args[p] for p in record.reads if p in record.active]
            if alive.get(record.index) and read and not any(bool(np.any(shadow.gradient(a))) for a in read):
                dead.append(record.index)
            note(record.index - 1)

        shadow.backward(self.seeds, start=len(self.records), stop=len(self.records))
        note(len(self.records) - 1)
        shadow.backward(None, on_operation=look)
        return dead

    # --------------------------------------------------------------- nonfinite

    def first_bad_value(self) -> int | None:
        """See `Experiment`."""
        if self.patch is None and (known := first_nonfinite_value(self.recorded.trace)) is not None:
            return known.launch
        bad: list[int] = []
        shadow = self._shadow(forward_only=True)

        def look(record: Operation) -> None:
            if not bad and not all(_finite(shadow.values(record.args[p])) for p in record.written):
                bad.append(record.index)

        shadow.forward(on_operation=look)
        return bad[0] if bad else None

    def first_bad_adjoint(self, consume: Consume) -> int | None:
        """See `Experiment`."""
        as_consumed = (consume == "versions") == self.recorded.tape.preserves_values
        if self.patch is None and as_consumed and adjoints_are_finite(self.recorded.trace):
            return None
        bad: list[int] = []
        shadow = self._ready()

        def look(record: Operation) -> None:
            touched = (record.args[p] for p in record.active)
            if not bad and not all(_finite(shadow.gradient(a)) for a in touched):
                bad.append(record.index)

        shadow.backward(self.seeds, consume=consume, on_operation=look)
        return bad[0] if bad else None

    def flow(self, launch: int, consume: Consume) -> LaunchFlow:
        """See `Experiment`."""
        record = self.records[launch]
        shadow = self._shadow()
        shadow.forward(stop=launch)
        arrays = {p: a for p, a in enumerate(record.args) if p in record.touched}
        values = {p: shadow.values(a) for p, a in arrays.items()}
        shadow.forward(start=launch, stop=launch + 1)
        written = {p: shadow.values(record.args[p]) for p in record.writes}
        shadow.forward(start=launch + 1)
        if consume == "current":
            values.update((p, shadow.values(record.args[p])) for p in record.needed)
        shadow.backward(self.seeds, consume=consume, stop=launch + 1)
        incoming = {p: shadow.gradient(record.args[p]) for p in record.writes if p in record.active}
        shadow.backward(None, consume=consume, start=launch + 1, stop=launch)
        outgoing = {p: shadow.gradient(record.args[p]) for p in record.reads if p in record.active}
        return LaunchFlow(values, written, incoming, outgoing)

    def thread(self, launch: int, index: int, flow: LaunchFlow) -> FollowedThread:
        """See `Experiment`."""
        threads = self.records[launch].capability(Threads)
        if threads is None:
            raise CannotFollow("the engine does not run it operation by operation")
        return threads.follow(index, flow.values)

    # ----------------------------------------------------------------- shadows

    @functools.cached_property
    def _is_large(self) -> bool:
        """True if running the tape again costs less than memory for what an earlier run computed."""
        regions = {array.region: array.stop - array.start for array in self.arrays}
        retention = self.recorded.tape.capability(Retention)
        preserved = 0 if retention is None else retention.preserved_bytes
        return sum(regions.values()) + preserved > LARGE

    def _ready(self) -> TapeReplay:
        """Return a cached float32 replay at the end of the tape."""
        if self._single is None:
            self._single, self._at_end = self._prepared(self.stale.new_replay()), False
        if not self._at_end:
            self._single.forward()
            self._at_end = True
        self.stale.see(self._single, (), ())
        return self._single

    @contextlib.contextmanager
    def rewound(self, *, forward_only: bool = False) -> Iterator[TapeReplay]:
        """Context with a float32 replay before the first operation; the next experiment uses it again.

        A tape of many launches is then packed once. While the replay is lent, `_ready` makes another.
        """
        found, self._single = self._single, None
        if found is None:
            found = self._prepared(self.stale.new_replay())
        else:
            found.reset(discard=True)
        self.stale.see(found, (), ())
        found.forward_only = forward_only
        yield found
        if not self._is_large:
            found.forward_only = False
            self._single, self._at_end = found.reset(discard=True), False

    def twin(self) -> TapeReplay:
        """Return a new replay of the float64 twin.

        Raises:
            TapeError: Memory is used as several types, so that there is no twin.
        """
        shadow = self._shadow(double=True)
        if not shadow.is_float64:
            raise TapeError("memory that is used as several types has no float64 twin")
        return shadow

    def _shadow(self, *, double: bool = False, forward_only: bool = False) -> TapeReplay:
        if self._is_large:
            self._single = None  # one copy of the program's memory at a time
        found = self._new(double)
        found.forward_only = forward_only
        return self._prepared(found)

    def _new(self, double: bool) -> TapeReplay:
        if double:
            # Memory that is used as float32 and as another type has no twin.
            with contextlib.suppress(TapeError):
                return self.recorded.tape.new_replay(float64=True)
        stale: StaleReads | None = self.recorded.tape.capability(StaleReads)
        # A capability takes a replay of its own engine, never a wrapper.
        return self.recorded.tape.new_replay() if stale is None else stale.new_replay()

    def tangents(self) -> TangentReplay:
        """Return a new replay with tangents, in float64 if that is possible.

        Raises:
            TapedebugError: The engine has no forward mode.
        """
        found: Tangents | None = self.recorded.tape.capability(Tangents)
        if found is None:
            raise TapedebugError("the engine has no forward mode")
        if self._is_large:
            self._single = None
        try:
            shadow = found.tangent_replay(float64=True)
        except TapeError:
            shadow = found.tangent_replay()
        self._prepared(shadow)
        return shadow

    def _of_leaves(self, shadow: TapeReplay) -> dict[int, Values]:
        """Return the gradients of the leaves that a replay computed."""
        return {leaf: shadow.gradient(self.arrays[leaf]) for leaf in self.leaves}

    def _prepared(self, shadow: TapeReplay) -> TapeReplay:
        shadow.pulse = self.pulse
        if self.patch is not None:
            self.patch.apply(shadow, self.records, self.seeds)
        return shadow


def _packed(pairs: Collection[tuple[int, int]]) -> bytes:
    """Return pairs of numbers as a key, which takes a tenth of the memory of a set of them."""
    return np.array(sorted(pairs), np.int64).tobytes()


def perturbed(values: Values, scale: float, rng: np.random.Generator | None = None) -> Values:
    """Return values displaced by about `scale` times their typical size, some up and some down."""
    rng = np.random.default_rng(7) if rng is None else rng
    typical = float(np.sqrt(np.mean(np.square(values.astype(np.float64))))) or 1.0
    moved: Values = values + scale * typical * rng.uniform(0.5, 1.0, values.shape) * rng.choice(
        [-1, 1], values.shape
    )
    return moved.astype(values.dtype)


def _distance(before: Sequence[Values], after: Sequence[Values]) -> float:
    with np.errstate(invalid="ignore"):
        differences = [
            np.max(np.abs(b.astype(np.float64) - a.astype(np.float64)), initial=0.0)
            for b, a in zip(before, after, strict=True)
        ]
    return float(max(differences, default=0.0))


def _finite(values: Values) -> bool:
    return not is_float(values.dtype) or bool(np.isfinite(values).all())
