"""Stamps of tracked variants, against a plain Python simulation that keeps a log of every access.

The simulation runs the kernel's IR thread by thread (`diagnose._thread`), and decides what conflicts from the
whole log, by definition: two threads, one scalar, at least one of them writes, and not both by an atomic.
"""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.access_tags import (
    EPOCH_SHIFT,
    NEVER,
    RACED,
    SITE_SHIFT,
    SITES,
    THREAD,
    UNSET,
    site_of,
    words_of,
)
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.replay.thread_interpreter import ThreadInterpreter
from tests.compiler.generator import program
from tests.compiler.test_generated import THREADS, Trial, arguments, load
from tests.sweeps import cases

EPOCH = 5


@dataclass
class Log:
    """Every access of one scalar: thread, kind, place in the source."""

    accesses: list[tuple[int, str, Any]] = field(default_factory=list)

    def last(self, reads: bool) -> tuple[int, Any] | None:
        found = [(thread, span) for thread, kind, span in self.accesses if (kind == "read") == reads]
        return found[-1] if found else None

    def conflicts(self) -> bool:
        return any(
            one[0] != two[0] and {one[1], two[1]} not in ({"read"}, {"atomic"})
            for k, one in enumerate(self.accesses)
            for two in self.accesses[:k]
        )

    def read_before_written(self) -> bool:
        return bool(self.accesses) and self.accesses[0][1] != "write"


def simulate(kernel: Any, dim: Any, args: list[Any]) -> dict[tuple[int, int], Log]:
    """The log of each (parameter, scalar), by running the threads in order in plain Python."""
    function = kernel._lowered.function
    atomic = {(a.param, a.span) for a in kernel.analysis.accesses if a.kind == "atomic"}
    arrays = {p.index: args[p.index].copy() for p in kernel.params if p.is_array}
    scalars = {p.index: np.ravel(args[p.index]).tolist() for p in kernel.params if not p.is_array}
    logs: dict[tuple[int, int], Log] = {}
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    for index in range(int(np.prod(dims))):
        thread = ThreadInterpreter(function, index, dims, arrays, scalars, frozenset())
        thread.run()
        for step in thread.steps:
            kind = {"load": "read", "store": "write", "atomic_add": "atomic"}.get(step.op.kind)
            if kind is None:
                continue
            param = step.op.data[0]
            if (param, step.op.span) in atomic:
                if kind == "read":
                    continue  # the first half of an atomic that is no sum
                kind = "atomic"
            logs.setdefault((param, step.place), Log()).accesses.append((index, kind, step.op.span))
        for param, memory in thread.memory.items():
            arrays[param] = memory.reshape(arrays[param].shape)
    return logs


@dataclass
class Tracked:
    """The results of a tracked variant: stamps by parameter, bits, and diagnostics."""

    stamps: dict[int, np.ndarray]
    bits: int
    message: list[tuple[int, int, list[int]]]
    diagnostics: tuple[Any, ...]

    def span(self, stamp: int) -> Any:
        return self.diagnostics[(stamp >> SITE_SHIFT) & SITES].span

    def places(self, *whats: int) -> set[tuple[int, int]]:
        """The (parameter, scalar) of what it told."""
        found = set()
        for number, _, (_, place, what) in self.message:
            site = site_of(self.diagnostics[number])
            assert site is not None
            if what in whats:
                found.add((site.param, place))
        return found


def track(
    kernel: Any,
    dim: Any,
    args: list[Any],
    *,
    fresh: bool = False,
    report: bool = True,
    interpreted: bool = False,
) -> Tracked:
    """Run the tracked variant in which every access looks at the stamps, on C-contiguous NumPy arrays."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    slots: list[Any] = [*dims, *(1,) * (4 - len(dims))]
    params = frozenset(p.index for p in kernel.params if p.is_array)
    stamps = {p: np.zeros((args[p].size, words_of(report)), np.int64) for p in params}
    for param in kernel.params:
        value = args[param.index]
        if param.is_array:
            shape = value.shape[: param.type.ndim]
            slots += [value.ctypes.data, *shape, *(s // value.itemsize for s in value.strides[: len(shape)])]
        else:
            slots += np.atleast_1d(value).tolist()
    packed = kernel.layout.struct.pack(*slots, *[0] * len(params))
    print_buffer = PrintBuffer()
    print_buffer.open(20_000)
    pointers = [stamps[p].ctypes.data for p in sorted(params)]
    tail = kernel.layout.tracked.pack(print_buffer.address, EPOCH << EPOCH_SHIFT, *pointers)
    memory = ctypes.create_string_buffer(packed + tail)
    wp.config.interpreted = interpreted
    try:
        entry = kernel.tracked(params, params if fresh else frozenset(), report=report)
    finally:
        wp.config.interpreted = False
    entry(0, int(np.prod(dims)), ctypes.addressof(memory))
    assert print_buffer.failure() is None
    assert not print_buffer.header[5], "more was told than is kept"
    bits = int.from_bytes(memory.raw[8 * kernel.layout.epoch :][:8], "little")
    message = [(number, thread, words.tolist()) for number, thread, words in print_buffer.entries()]
    return Tracked(stamps, bits, message, entry.diagnostics)


def check(kernel: Any, dim: Any, args: list[Any], *, interpreted: bool = False) -> tuple[int, int]:
    """Compare with the simulation; gives how many scalars were touched, and how many conflict."""

    def copies() -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in args]

    logs = simulate(kernel, dim, copies())
    conflicts = {key for key, log in logs.items() if log.conflicts()}
    found = track(kernel, dim, copies(), interpreted=interpreted)
    for param, words in found.stamps.items():
        for place, (write, read) in enumerate(words[:, :2]):
            log = logs.get((param, place), Log())
            for stamp, last in ((int(write), log.last(False)), (int(read), log.last(True))):
                assert (stamp == 0) == (last is None), (param, place)
                if last is not None:
                    assert (stamp & THREAD, found.span(stamp), stamp >> EPOCH_SHIFT) == (*last, EPOCH)
    assert found.places(0, 1) == conflicts
    assert bool(found.bits & RACED) == bool(conflicts)
    for number, thread, (stamp, place, _) in found.message:
        # Both sides that it tells of are in the log, and they are two threads.
        site = site_of(found.diagnostics[number])
        assert site is not None
        mine = (thread, site.kind, found.diagnostics[number].span)
        others = {(t, span) for t, _, span in logs[site.param, place].accesses}
        assert mine in logs[site.param, place].accesses
        assert (stamp & THREAD, found.span(stamp)) in others
        assert stamp & THREAD != thread
    quick = track(kernel, dim, copies(), report=False, interpreted=interpreted)
    assert quick.bits == found.bits
    assert quick.message == []
    unset = {key for key, log in logs.items() if log.read_before_written()}
    fresh = track(kernel, dim, copies(), fresh=True, interpreted=interpreted)
    assert fresh.places(NEVER) == unset
    assert bool(fresh.bits & UNSET) == bool(unset)
    return len(logs), len(conflicts)


def singles(args: list[Any], kernel: Any) -> list[Any]:
    """Arguments in the types that the kernel declares."""
    from tapedebug.lang import types as t

    return [
        a.astype(t.scalar_of(p.type).numpy) if p.is_array else a
        for p, a in zip(kernel.params, args, strict=True)
    ]


@pytest.mark.unoptimized
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=24, sample=8)))
def test_stamps_of_random_kernels(seed: int) -> None:
    """Half of the programs have threads that see what others wrote."""
    kernel = load(program(seed, 7, crossing=seed % 2 == 1))
    args = singles(arguments(np.random.default_rng(seed)), kernel)
    touched, conflicts = check(kernel, THREADS, args, interpreted=seed % 8 == 0)
    assert touched >= THREADS
    assert seed % 2 == 1 or conflicts == 0


@pytest.mark.unoptimized
def test_random_kernels_with_crossing_threads_do_conflict() -> None:
    """So that the comparison above is not one of nothing with nothing."""
    counts = []
    for seed in range(100, 100 + cases(full=12, sample=4)):
        trial = Trial.of(seed, size=20, crossing=True)
        counts.append(check(trial.kernel, THREADS, singles(trial.args, trial.kernel))[1])
    assert sum(count > 0 for count in counts) >= len(counts) // 2, counts


@wp.kernel
def chosen(
    a: wp.array(dtype=float), b: wp.array(dtype=float), at: wp.array(dtype=int), how: wp.array(dtype=int)
):
    """Accesses of any kind at any place, as the numbers in `how` and `at` say."""
    i = wp.tid()
    for k in range(4):
        j = at[4 * i + k]
        kind = how[4 * i + k]
        if kind == 0:
            b[i] = b[i] + a[j]
        elif kind == 1:
            a[j] = float(i)
        elif kind == 2:
            wp.atomic_add(a, j, 1.0)
        elif kind == 3:
            wp.atomic_max(a, j, float(i))
        elif kind == 4:
            a[j] += 1.0


@pytest.mark.unoptimized
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(8))
def test_stamps_of_random_accesses(seed: int) -> None:
    """Few threads and places: what happens later at a place must not hide what was missed there."""
    rng = random.Random(seed)
    for _ in range(cases(full=40, sample=10)):
        threads, places = rng.randint(1, 4), rng.randint(1, 8)
        kinds = rng.sample(range(6), rng.randint(1, 6))
        at = np.array([rng.randrange(places) for _ in range(4 * threads)], np.int32)
        how = np.array([rng.choice(kinds) for _ in range(4 * threads)], np.int32)
        args = [np.zeros(places, np.float32), np.zeros(threads, np.float32), at, how]
        check(chosen, threads, args, interpreted=seed == 0)


@wp.kernel
def grid(x: wp.array2d(dtype=wp.vec3), y: wp.array2d(dtype=wp.vec3), n: int):
    """Components, two axes, neighbours."""
    i, j = wp.tid()
    if j > 0 and i < n:
        y[i, j] = x[i, j - 1] + x[i, j]
    y[i, j - j][1] = float(i)


def test_stamps_on_two_axes_by_component() -> None:
    args = [np.ones((3, 4, 3), np.float32), np.ones((3, 4, 3), np.float32), 3]
    _, conflicts = check(grid, (3, 4), args)
    assert conflicts == 3  # component 1 of the first element of each row, which four threads write


@pytest.mark.parametrize("track", ["elements", None])
@pytest.mark.parametrize("seed", range(6))
def test_tapes_tell_what_the_simulation_logged(seed: int, track: str | None) -> None:
    """Accesses in bulk, conditions, collisions: each element's thread and line are among those in its log."""
    rng = random.Random(seed)
    for _ in range(10):
        threads, places = rng.randint(1, 6), rng.randint(1, 8)
        at = np.array([rng.randrange(places) for _ in range(4 * threads)], np.int32)
        how = np.array([rng.randrange(6) for _ in range(4 * threads)], np.int32)
        args = [np.zeros(places, np.float32), np.zeros(threads, np.float32), at, how]
        logs = simulate(chosen, threads, [a.copy() for a in args])
        arrays = [wp.array(a, dtype=int if a.dtype == np.int32 else float) for a in args]
        with wp.Tape(track=track) as tape:
            wp.launch(chosen, threads, inputs=arrays)
        for param, a in enumerate(arrays):
            for asked, reads in ((tape.writers(a), False), (tape.readers(a), True)):
                for place in range(len(a)):
                    log = logs.get((param, place), Log())
                    known = {(t, s.line) for t, kind, s in log.accesses if (kind == "read") == reads}
                    message = asked[place]
                    assert (message.launch is None) == (not known)
                    assert not known or (message.thread, message.line) in known
