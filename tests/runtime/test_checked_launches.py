"""Launches whose indices are checked: nothing outside an array is touched, and they run at full speed.

Arrays lie against pages that cannot be accessed: a launch that reaches over the end of one ends the process.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._config import debugging, is_debugging
from tapedebug.compiler.bounds import ALL, UNKNOWN
from tapedebug.compiler.diagnostics import BOUNDS
from tapedebug.compiler.lazy_entry import LazyEntry
from tapedebug.compiler.variant import Variant
from tapedebug.contract import ThreadScheduling
from tapedebug.runtime.launch.bounds_precheck import BoundsPrecheck
from tapedebug.runtime.replay.shadow import Shadow

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs mprotect")
N = 3
MANY = 100_000
PAGE = mmap.PAGESIZE
KEPT: list[Any] = []
"""Memory that arrays lie in, mapped until the end."""


@pytest.fixture(autouse=True)
def checking() -> Iterator[None]:
    wp.config.check_bounds = True
    yield
    wp.config.check_bounds = None


def fenced(values: Any, dtype: Any, *, at_end: bool = True, **options: Any) -> wp.array:
    """An array against a page that nobody may touch, on one side."""
    values = np.asarray(values, wp.types.numpy_dtype(dtype) if hasattr(wp.types, "numpy_dtype") else None)
    room = -(-max(values.nbytes, 1) // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (address, address + PAGE + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), PAGE, 0) == 0
    start = PAGE + (room - values.nbytes if at_end else 0)
    mine = np.frombuffer(memory, values.dtype, values.size, start).reshape(values.shape)
    mine[...] = values
    KEPT.append(memory)
    return wp.array(mine, dtype=dtype, copy=False, **options)


def floats(*values: float, **options: Any) -> wp.array:
    return fenced(np.array(values, np.float32), float, **options)


def ints(*values: int, **options: Any) -> wp.array:
    return fenced(np.array(values, np.int32), int, **options)


@wp.struct
class Pair:
    x: wp.array(dtype=float)
    y: wp.array(dtype=float)


@wp.kernel
def own(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0


@wp.kernel
def store(y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0


@wp.kernel
def gather(keys: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[keys[i]]


@wp.kernel
def scatter(keys: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[keys[i]] = 1.0


@wp.kernel
def chain(outer: wp.array(dtype=int), inner: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[outer[inner[i]]] = 1.0


@wp.kernel
def add(keys: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, keys[i], 1.0)


@wp.kernel
def largest(keys: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_max(y, keys[i], 5.0)


@wp.kernel
def counter(count: wp.array(dtype=int), y: wp.array(dtype=float)):
    k = wp.atomic_add(count, 0, 1)
    y[k] = 1.0


@wp.kernel
def in_place(keys: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    keys[i] = keys[i] + 1
    y[keys[i]] = 1.0


@wp.kernel
def loops(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += x[k]
    y[i] = s


@wp.kernel
def walks(following: wp.array(dtype=int), y: wp.array(dtype=float)):
    k = wp.tid()
    while k >= 0:
        k = following[k]
        wp.atomic_add(y, 0, 1.0)


@wp.kernel
def columns(m: wp.array2d(dtype=float)):
    i, j = wp.tid()
    m[i, j] = 1.0


@wp.kernel
def component(k: int, p: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    v = p[i]
    v[k] = 1.0
    p[i] = v


@wp.kernel
def of_struct(pair: Pair):
    i = wp.tid()
    pair.y[i] = pair.x[i]


@wp.kernel
def of_indexed(x: wp.indexedarray(dtype=float)):
    i = wp.tid()
    x[i] = 1.0


@wp.kernel
def part(y: wp.array(dtype=float), k: int):
    half = y[1:3]
    half[k + wp.tid()] = 1.0


@wp.kernel
def stencil(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i - 1] + x[i + 1]


def pair(n: int) -> Any:
    made = Pair()
    made.x, made.y = floats(1, 2, 3), floats(*range(n))
    return made


def zeros(**options: Any) -> wp.array:
    return floats(0, 0, 0, **options)


def keys(*last: int) -> wp.array:
    """Many indices, of which the last ones are those that are given."""
    return ints(*[0] * (MANY - len(last)), *last)


OUTSIDE: dict[str, tuple[Any, Any, Any]] = {
    "own": (own, MANY, lambda: [floats(1, 2, 3), zeros()]),
    "own, few": (own, 5, lambda: [floats(1, 2, 3), zeros()]),
    "store": (store, MANY, lambda: [zeros()]),
    "store, one more": (store, 4, lambda: [zeros()]),
    "empty": (store, 1, lambda: [floats()]),
    "empty, many": (own, MANY, lambda: [floats(), floats()]),
    "gather": (gather, MANY, lambda: [keys(N), zeros(), fenced(np.zeros(MANY, np.float32), float)]),
    "gather, few": (gather, 2, lambda: [ints(0, 10**9), zeros(), zeros()]),
    "gather, before": (gather, 2, lambda: [ints(0, -4), zeros(at_end=False), zeros()]),
    "scatter": (scatter, MANY, lambda: [keys(N, 0), zeros()]),
    "scatter, before": (scatter, MANY, lambda: [keys(-N - 1, 0), zeros(at_end=False)]),
    "chain, inner": (chain, MANY, lambda: [ints(0, 1), keys(2, 0), zeros()]),
    "chain, outer": (chain, MANY, lambda: [ints(0, 3), keys(1, 0), zeros()]),
    "add": (add, MANY, lambda: [keys(0, 7), zeros()]),
    "maximum": (largest, MANY, lambda: [keys(0, 7), zeros()]),
    "counter": (counter, 4, lambda: [ints(0), zeros()]),
    "in place": (in_place, 2, lambda: [ints(0, 2), zeros()]),
    "loop": (loops, MANY, lambda: [zeros(), 4, fenced(np.zeros(MANY, np.float32), float)]),
    "while": (walks, 1, lambda: [ints(1, 2, 3), zeros()]),
    "columns": (columns, (2, 4), lambda: [fenced(np.zeros((2, N), np.float32), float)]),
    "many columns": (columns, (2, MANY), lambda: [fenced(np.zeros((2, N), np.float32), float)]),
    "one index of a grid": (store, (N + 1, 2), lambda: [zeros()]),
    "one index of a large grid": (store, (MANY, 2), lambda: [zeros()]),
    "two indices of a cube": (columns, (2, N + 1, 3), lambda: [fenced(np.zeros((2, N), np.float32), float)]),
    "rows": (columns, (N, 2), lambda: [fenced(np.zeros((2, 2), np.float32), float)]),
    "component": (component, 1, lambda: [3, fenced(np.zeros((1, 3), np.float32), wp.vec3)]),
    "struct": (of_struct, MANY, lambda: [pair(N)]),
    "struct, one shorter": (of_struct, N, lambda: [pair(2)]),
    "indexed": (of_indexed, MANY, lambda: [zeros()[ints(0, 2)]]),
    "view": (store, 3, lambda: [zeros()[1:3]]),
    "every second": (store, MANY, lambda: [floats(*range(6))[::2]]),
    "reversed": (store, 4, lambda: [zeros(at_end=False)[::-1]]),
    "slice in the kernel": (part, 1, lambda: [zeros(), 2]),
    "neighbours": (stencil, N, lambda: [floats(1, 2, 3), zeros()]),
}


def contents(args: list[Any]) -> list[np.ndarray]:
    flat = [inner for a in args for inner in ((a.x, a.y) if hasattr(a, "y") else (a,))]
    return [np.array(a.numpy()) for a in flat if hasattr(a, "numpy")]


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("case", OUTSIDE)
def test_nothing_outside_is_touched(case: str, taped: bool) -> None:
    kernel, dim, make = OUTSIDE[case]
    args = make()
    before = contents(args)
    with wp.Tape() as tape, pytest.raises(wp.BoundsError) as caught:
        wp.launch(kernel, dim, args, record_tape=taped)
    assert caught.value.span is not None
    assert len(tape.records) == 0
    for old, now in zip(before, contents(args), strict=True):
        np.testing.assert_array_equal(now, old)


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_recorded_as_a_command_is_checked(case: str) -> None:
    kernel, dim, make = OUTSIDE[case]
    command = wp.launch(kernel, dim, make(), record_cmd=True)
    for _ in range(2):
        with pytest.raises(wp.BoundsError):
            command.launch()


@pytest.mark.parametrize("case", OUTSIDE)
def test_each_setting_and_each_compiler_checks_alike(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, dim, make = OUTSIDE[case]
    with pytest.raises(wp.BoundsError) as expected:
        wp.launch(kernel, dim, make())
    for name, value in (("lanes", False), ("vector_math", False), ("num_threads", 1), ("num_threads", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(wp.config, name, value)
            with pytest.raises(wp.BoundsError) as caught:
                wp.launch(kernel, dim, make())
            assert str(caught.value) == str(expected.value)


INSIDE: dict[str, tuple[Any, Any, Any]] = {
    "own": (own, N, lambda: [floats(1, 2, 3), zeros()]),
    "own, many": (own, MANY, lambda: [fenced(np.ones(MANY, np.float32), float)] * 2),
    "gather": (gather, MANY, lambda: [keys(2, -3), zeros(), fenced(np.ones(MANY, np.float32), float)]),
    "scatter": (scatter, MANY, lambda: [keys(2, -3), zeros()]),
    "chain": (chain, MANY, lambda: [ints(0, 2), keys(1, -2), zeros()]),
    "add": (add, MANY, lambda: [keys(1, -1), zeros()]),
    "maximum": (largest, MANY, lambda: [keys(1, -1), zeros()]),
    "counter": (counter, N, lambda: [ints(0), zeros()]),
    "in place": (in_place, 2, lambda: [ints(0, 1), zeros()]),
    "loop": (loops, MANY, lambda: [floats(1, 2, 3), 3, fenced(np.zeros(MANY, np.float32), float)]),
    "no loop": (loops, N, lambda: [floats(), 0, zeros()]),
    "while": (walks, 1, lambda: [ints(1, 2, -1), zeros()]),
    "columns": (columns, (2, N), lambda: [fenced(np.zeros((2, N), np.float32), float)]),
    "component": (component, 1, lambda: [2, fenced(np.zeros((1, 3), np.float32), wp.vec3)]),
    "struct": (of_struct, N, lambda: [pair(N)]),
    "indexed": (of_indexed, 2, lambda: [zeros()[ints(0, 2)]]),
    "view": (store, 2, lambda: [zeros()[1:3]]),
    "slice in the kernel": (part, 1, lambda: [zeros(), 1]),
    "one index of a grid": (store, (N, 2), lambda: [zeros()]),
    "two indices of a cube": (columns, (2, N, 2), lambda: [fenced(np.zeros((2, N), np.float32), float)]),
    "none": (store, 0, lambda: [floats()]),
}


@pytest.mark.parametrize("case", INSIDE)
def test_what_is_inside_is_what_it_was(case: str) -> None:
    kernel, dim, make = INSIDE[case]
    args, others = make(), make()
    wp.launch(kernel, dim, args)
    wp.config.check_bounds = False
    wp.launch(kernel, dim, others)
    for one, other in zip(contents(args), contents(others), strict=True):
        np.testing.assert_array_equal(one, other)


# What is known, and what is probed --------------------------------------------------------------------------


@wp.kernel
def guarded(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    if i >= n:
        return
    if i > 0 and i < y.shape[0] - 1:
        y[i] = x[i - 1] + x[i + 1]


@wp.kernel
def clamped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[wp.min(i + 1, x.shape[0] - 1)] + x[wp.max(i - 1, 0)]


@wp.kernel
def by_angle(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[int(wp.sin(a[i]) * 3.0)] = 1.0


@wp.func
def cyclic(i: int):
    remainder = i % 5
    if remainder < 0:
        remainder += 5
    return remainder


@wp.kernel
def periodic(place: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[cyclic(place[i])] + x[cyclic(place[i] + 1)] + x[place[i] % 5]


@wp.kernel
def nearly_periodic(place: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    k = place[i] % 5
    if k < -1:
        k += 6
    y[i] = x[k]


@wp.kernel
def after_the_largest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[(i + 2147483647) % 5 - 1]


@pytest.mark.parametrize("shortest", [4, 5])
def test_remainders_are_inside_what_they_are_taken_for(shortest: int) -> None:
    place = wp.array(np.arange(-20, 20, dtype=np.int32))
    y = floats(*[0.0] * 40)
    if shortest < 5:
        with pytest.raises(wp.BoundsError, match="is outside"):
            wp.launch(periodic, 40, [place, floats(*range(shortest)), y])
        return
    wp.launch(periodic, 40, [place, floats(*range(shortest)), y])
    k = np.arange(-20, 20)
    assert np.array_equal(y.numpy(), k % 5 + (k + 1) % 5 + np.fmod(k, 5) % 5)


def test_a_branch_that_leaves_a_remainder_outside_is_seen() -> None:
    place, y = wp.array(np.arange(-20, 20, dtype=np.int32)), floats(*[0.0] * 40)
    found = nearly_periodic.reaches(Variant("forward"))
    assert not found.unknown
    wp.launch(nearly_periodic, 40, [place, floats(*range(6)), y])
    with pytest.raises(wp.BoundsError, match="is outside"):
        wp.launch(nearly_periodic, 40, [place, floats(*range(4)), y])


def test_the_remainder_of_a_number_that_wraps_may_be_negative() -> None:
    """It is 0 … 4 of positive numbers, and -4 of the number that 5 more than 2³¹ - 1 wraps to."""
    found = after_the_largest.reaches(Variant("forward"))
    assert not found.unknown
    wp.launch(after_the_largest, 5, [floats(*range(4)), floats(*[0.0] * 5)])
    with pytest.raises(wp.BoundsError, match="is outside"):
        wp.launch(after_the_largest, 6, [floats(*range(4)), floats(*[0.0] * 6)])


@pytest.mark.parametrize(
    ("kernel", "unknown", "probes"),
    [
        (periodic, False, {UNKNOWN: (), ALL: (0,)}),
        (own, False, {UNKNOWN: (), ALL: ()}),
        (guarded, False, {UNKNOWN: (), ALL: ()}),
        (clamped, False, {UNKNOWN: (), ALL: ()}),
        (loops, False, {UNKNOWN: (), ALL: ()}),
        (gather, True, {UNKNOWN: (0,), ALL: (0,)}),
        (chain, True, {UNKNOWN: (0, 1), ALL: (0, 1)}),
        (component, False, {UNKNOWN: (), ALL: ()}),
        (counter, True, {}),  # what it counts is found by the launch alone
        (in_place, True, {}),
        (by_angle, True, {}),  # vector functions of the C library may give another index
    ],
)
def test_what_is_known_before_a_launch(kernel: Any, unknown: bool, probes: dict[str, Any]) -> None:
    found = kernel.reaches(Variant("forward"))
    assert (found.unknown, found.probed) == (unknown, probes)


@pytest.mark.parametrize(
    ("kernel", "args", "dim"),
    [
        (guarded, lambda: [floats(*range(9)), 9, floats(*range(9))], 9),
        (guarded, lambda: [floats(*range(9)), 9, floats(*range(9))], MANY),
        (clamped, lambda: [floats(*range(9)), floats(*range(9))], 9),
    ],
)
def test_conditions_bound_what_they_guard(kernel: Any, args: Any, dim: int) -> None:
    """Such a launch is inside by its shapes: neither a probe nor a checked variant is compiled."""
    wp.launch(kernel, dim, args())
    wp.launch(kernel, dim, args())
    compiled = [variant for variant, entry in kernel._entries.items() if type(entry) is not LazyEntry]
    assert compiled
    assert not any(variant.diagnostics or variant.probes for variant in compiled)


def test_a_condition_on_something_else_bounds_nothing() -> None:
    @wp.kernel
    def wrong(keys: wp.array(dtype=wp.int64), x: wp.array(dtype=float)):
        i = wp.tid()
        k = keys[i]
        if wp.int32(k) >= 0 and wp.int32(k) < 3:  # of its lower half alone
            x[k] = 1.0

    keys = fenced(np.array([2**32 + 1], np.int64), wp.int64)
    with pytest.raises(wp.BoundsError, match="the index 4294967297 is outside"):
        wp.launch(wrong, 1, [keys, zeros()])


def test_an_index_that_overflows_is_seen() -> None:
    @wp.kernel
    def wraps(x: wp.array(dtype=float), n: int):
        i = wp.tid()
        x[i * n] = 1.0

    with pytest.raises(wp.BoundsError):
        wp.launch(wraps, 3, [zeros(), 2**30 + 1])


def test_a_launch_that_runs_piece_by_piece_is_probed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    probed: list[tuple[int, int]] = []
    plain = BoundsPrecheck._probed

    def look(self: Any, kind: str, threads: tuple[int, int], address: int) -> bool:
        probed.append(threads)
        return plain(self, kind, threads, address)

    monkeypatch.setattr(BoundsPrecheck, "_probed", look)
    x = wp.zeros(MANY, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scatter, MANY, [ints(*[0] * MANY), x])
    pieces = [(0, 3), (3, 4), (4, MANY)]

    def in_pieces(run: Any, threads: int) -> None:
        for low, high in pieces:
            run(low, high)

    replay: Any = tape.new_replay()
    scheduling = tape.capability(ThreadScheduling)
    assert scheduling is not None
    scheduling.reschedule(replay, {0: in_pieces})
    probed.clear()
    replay.forward()
    assert probed == [(0, MANY)]


def test_arrays_that_share_memory_are_not_probed() -> None:
    """The launch changes, through another array, what leads to its indices: a probe would not see it."""

    @wp.kernel
    def through(keys: wp.array(dtype=int), same: wp.array(dtype=int), y: wp.array(dtype=float)):
        i = wp.tid()
        same[i + 1] = 9
        y[keys[i]] = 1.0

    numbers = ints(0, 0, 0)
    with pytest.raises(wp.BoundsError, match="the index 9 is outside axis 0 of `y`"):
        wp.launch(through, 2, [numbers, numbers, zeros()])
    wp.launch(through, 2, [ints(0, 0, 0), numbers, zeros()])


# Reverse, tangent, replay -----------------------------------------------------------------------------------


@wp.kernel
def picked(keys: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[keys[i]] * x[keys[i]]


@pytest.mark.parametrize("threads", [2, MANY])
def test_an_adjoint_touches_nothing_outside(threads: int) -> None:
    numbers = ints(*[1] * threads)
    x = floats(3, 4, 5, requires_grad=True)
    x.grad = zeros()
    y = wp.zeros(threads, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(picked, threads, [numbers, x, y])
    y.grad.fill_(1.0)
    tape.backward(grads={y: y.grad})
    assert x.grad.numpy().tolist() == [0, 8 * threads, 0]
    before = numbers.numpy().copy()
    numbers.assign(np.where(np.arange(threads) == threads - 1, N, before).astype(np.int32))
    y.grad.fill_(1.0)
    with pytest.raises(wp.BoundsError, match="adjoint of kernel `picked`: the index 3 is outside axis 0"):
        tape.backward(grads={y: y.grad})
    assert x.grad.numpy().tolist() == [0, 8 * threads, 0]


def test_a_replay_and_a_tangent_touch_nothing_outside() -> None:
    numbers, x, y = ints(0, 2), floats(3, 4, 5, requires_grad=True), wp.zeros(2, dtype=float)
    y.requires_grad = True
    with wp.Tape() as tape:
        wp.launch(picked, 2, [numbers, x, y])
    for f64 in (False, True):
        shadow = Shadow(tape.tracker, np.float64 if f64 else None)
        shadow.set(numbers, np.array([0, 3], np.int32))
        with pytest.raises(wp.BoundsError, match="kernel `picked`: the index 3 is outside axis 0 of `x`"):
            shadow.forward()
        with pytest.raises(wp.BoundsError):
            shadow.push({x: np.ones(3)})


# By default -------------------------------------------------------------------------------------------------


def test_a_debugger_checks_unless_it_is_told_not_to() -> None:
    wp.config.check_bounds = None
    assert BOUNDS not in own.diagnostics
    with debugging():
        assert BOUNDS in own.diagnostics
        with pytest.raises(wp.BoundsError):
            wp.launch(own, 5, [floats(1, 2, 3), zeros()])
        wp.config.check_bounds = False
        assert BOUNDS not in own.diagnostics
    wp.config.check_bounds = None
    assert BOUNDS not in own.diagnostics


def test_checked_launches_are_compiled_as_others_are() -> None:
    wp.launch(own, N, [floats(1, 2, 3), zeros()])
    wp.launch(own, N, [floats(1, 2, 3), zeros()])
    plan = own.latest
    assert not plan.checked
    assert not isinstance(plan.large, BoundsPrecheck)


@pytest.mark.parametrize("at", range(1, 12))
def test_an_interrupt_leaves_no_debugger_behind(at: int) -> None:
    """Whichever call of the block's end is interrupted."""
    wp.config.check_bounds = None
    wp.launch(own, N, [floats(1, 2, 3), zeros()])
    calls = 0

    def stop(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        if event == "c_call" and getattr(argument, "__name__", "") == "__exit__":
            return
        calls += 1
        if calls == at:
            raise KeyboardInterrupt

    try:
        with debugging():
            sys.setprofile(stop)
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    assert not is_debugging()
    assert BOUNDS not in own.diagnostics
    part = floats(*range(9))[0:3]
    wp.launch(own, 4, [part, part])  # not checked, and within the memory
