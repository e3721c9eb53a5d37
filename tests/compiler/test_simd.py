"""Kernels in lanes: the same numbers as thread by thread, for every width of vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._syntax import parsed
from tapedebug.compiler import backend
from tapedebug.compiler.llvm import machine
from tapedebug.compiler.llvm.instruction_types import ALIGNED_STACK
from tapedebug.compiler.llvm.simd import vectorize as translator
from tapedebug.compiler.variant import Variant
from tapedebug.lang.lowering import converted
from tapedebug.lang.rules.conversions import IS_X86
from tapedebug.lang.types import ArrayType
from tests.compiler.generator import program
from tests.compiler.harness import run, twin
from tests.compiler.simd_comparison import (
    SIZES,
    WIDTHS,
    compare,
    is_in_lanes,
    results,
    scalar_functions,
    set_width,
)
from tests.compiler.test_generated import arguments, load
from tests.sweeps import cases

pytestmark = pytest.mark.sweep(most=1)  # each width is that of a third of the tests


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """No vector functions, except where a test turns them on."""
    with scalar_functions():
        yield
    wp.config.lanes, wp.config.compiler = True, "llvm"


def uniform(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(0.2, 1.4, shape)


@wp.kernel
def everything(
    x: wp.array(dtype=float),
    v: wp.array(dtype=wp.vec3),
    which: wp.array(dtype=int),
    n: int,
    y: wp.array(dtype=float),
    w: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    a = x[i]
    b = v[i] * a
    if a > 0.8:
        b = b + v[n - 1 - i]
    if i > 0:
        a = a + x[i - 1]
    if i < n - 1:
        a = a * x[i + 1]
    elif a > 0.5:
        a = a - 1.0
    else:
        a = wp.sqrt(a)
    for k in range(which[i] % 5):
        a = a + x[k] * b[0]
        if a > 3.0:
            a = a * 0.5
    while a > 1.0:
        a = a * 0.7 - x[which[i] % n] * 0.1
    y[i] = a // 0.3 + float(i % 7) * a
    w[i] = wp.cross(b, v[which[i] % n])


def test_every_kind_of_control_flow_and_index(bits: int) -> None:
    n = 75
    which = np.random.default_rng(0).integers(0, 50, n).astype(np.int32)
    args = [uniform(n), uniform(n, 3), which, n, np.zeros(n), np.zeros((n, 3))]
    assert is_in_lanes(everything) and is_in_lanes(everything, "tangent")
    compare(everything, n, args, exact=False)
    forward = [
        results(everything, n, twin(args), f64=True, lanes=on, replay=frozenset())["forward"]
        for on in (True, False)
    ]
    for one, two in zip(*forward, strict=True):
        np.testing.assert_array_equal(one, two)


@wp.kernel
def stencil(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float), c: float):
    i, j = wp.tid()
    if i > 0 and j > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1:
        out[i, j] = u[i, j] + c * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("shape", [(9, 50), (3, 3), (1, 64), (33, 17)])
def test_rows_of_any_length(bits: int, shape: tuple[int, int]) -> None:
    assert is_in_lanes(stencil) and is_in_lanes(stencil, "adjoint")
    compare(stencil, shape, [uniform(*shape), np.zeros(shape), 0.1], exact=False)


@wp.kernel
def compared(x: wp.array(dtype=float), start: int, limit: int, y: wp.array(dtype=float)):
    i = wp.tid()
    n = x.shape[0]
    k = start + 2 * i
    a = x[i]
    if k < limit:
        a = a + 2.0 * x[n - 1 - i]
    if k <= limit:
        a = a + 3.0 * x[n - 1 - i]
    if k > limit:
        a = a + 5.0 * x[n - 1 - i]
    if limit <= k:
        a = a + 7.0 * x[n - 1 - i]
    if k != limit:
        a = a + 11.0 * x[n - 1 - i]
    if k == limit:
        a = a + 13.0 * x[n - 1 - i]
    if k > limit - 40 and not limit + 40 < k:
        a = a * x[n - 1 - i]
    if k < limit - 40 or k > limit + 40:
        a = a + 17.0 * x[n - 1 - i]
    if k == limit or (i > 2 and k != limit + 32):
        a = a * x[i]
    if not k < limit:
        a = a + 19.0 * x[n - 1 - i]
    if not k <= limit:
        a = a + 23.0 * x[n - 1 - i]
    if not k > limit:
        a = a + 29.0 * x[n - 1 - i]
    if not k >= limit:
        a = a + 31.0 * x[n - 1 - i]
    if not k == limit:  # noqa: SIM201
        a = a + 37.0 * x[n - 1 - i]
    y[i] = a


AROUND = [-33, -32, -31, -30, -29, -3, -2, -1, 0, 1, 2, 3, 29, 30, 31, 32, 33]


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("start", [-40, 1, 2**31 - 100, 2**31 - 30, -(2**31)])
def test_comparisons_with_integers_that_count(bits: int, start: int) -> None:
    """All lanes, some or none: also where integers pass their limit from one lane to the next."""
    n = 120
    x = uniform(n).astype(np.float32)
    for distance in [*AROUND, *(64 + d for d in AROUND), 96, 97, 98, 2**31, 2**31 + 1, 2**31 + 98]:
        limit = (start + distance + 2**31) % 2**32 - 2**31
        found = []
        for lanes in (True, False):
            y = np.zeros(n, np.float32)
            run(compared, n, [x, start, limit, y], lanes=lanes)
            found.append(y)
        np.testing.assert_array_equal(*found, err_msg=f"limit = {limit}")


@wp.kernel
def from_the_end(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i - 3] + 2.0 * x[i - 2] + 3.0 * x[i]


def test_additions_to_neighbours_that_wrap_around(bits: int) -> None:
    assert is_in_lanes(from_the_end, "adjoint")
    compare(from_the_end, 70, [uniform(70), np.zeros(70)], exact=False)


@wp.kernel
def into_neighbours(x: wp.array(dtype=float), which: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if which[i] > 1:
        wp.atomic_add(y, i, x[i])
        wp.atomic_add(y, i + 2, x[i] * 0.5)
        wp.atomic_add(y, i + 16, x[i] * 0.25)
        wp.atomic_add(y, i + 1, 3.0)
    elif which[i] == 1:
        wp.atomic_add(y, i + 3, x[i])
        wp.atomic_add(y, 3 + i, x[i] * 7.0)


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("pattern", ["all", "none", "some", "one", "runs"])
def test_additions_to_neighbours_by_some_lanes(bits: int, pattern: str) -> None:
    """Also where the last threads add to the last elements of the array."""
    n = 16 * 7 + 5
    rng = np.random.default_rng(4)
    which = {
        "all": np.full(n, 2),
        "none": np.full(n, 1),
        "some": rng.integers(0, 3, n),
        "one": np.arange(n) % 37,
        "runs": np.repeat(rng.integers(0, 3, n // 20 + 1), 20)[:n],
    }[pattern].astype(np.int32)
    assert is_in_lanes(into_neighbours)
    compare(into_neighbours, n, [uniform(n), which, np.ones(n + 16)], exact=False)


@wp.kernel
def into_rows(x: wp.array(dtype=float), a: int, b: int, c: int, y: wp.array(dtype=float)):
    i = wp.tid()
    d = x[i]
    wp.atomic_add(y, a + i, d)
    wp.atomic_add(y, i + b, 3.0 * d)
    wp.atomic_add(y, b + i + 1, 5.0 * d)
    wp.atomic_add(y, c + i, 7.0 * d)


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("apart", [0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 40])
def test_additions_to_rows_that_may_meet(bits: int, apart: int) -> None:
    """Stretches are loaded before any is stored only where no element is in two of them."""
    n, x, y0 = 69, uniform(69), np.zeros(192)
    assert is_in_lanes(into_rows)
    for rows in ([40, 40 + apart, 40 + 2 * apart], [40, 40 - apart, 41], [90, 41, 90 + apart], [10, 100, 10]):
        compare(into_rows, n, [x, *rows, y0], exact=False)


@wp.kernel
def above_each_other(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    out[i, j] = u[i - 1, j] + 2.0 * u[i, j]


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_adjoint_of_rows_that_wrap_around(bits: int, rows: int) -> None:
    """In an array of one row, `u[i - 1, j]` is `u[i, j]`."""
    assert is_in_lanes(above_each_other, "adjoint")
    seeds = np.random.default_rng(8).integers(1, 9, (rows, 64)).astype(float)
    compare(above_each_other, (rows, 64), [seeds, np.zeros((rows, 64))], exact=False)


@wp.kernel
def sums(
    x: wp.array(dtype=float), k: wp.array(dtype=int), one: wp.array(dtype=float), count: wp.array(dtype=int)
):
    i = wp.tid()
    if x[i] > 0.5:
        wp.atomic_add(one, 0, x[i] * x[i])
    for j in range(3):
        wp.atomic_add(one, j + 1, x[i])
    wp.atomic_add(count, 0, k[i])


def test_sums_over_lanes(bits: int) -> None:
    n = 203
    k = np.arange(n, dtype=np.int32) * 20_000_000
    args = [uniform(n), k, np.zeros(4), np.zeros(1, np.int32)]
    compare(sums, n, args, exact=False)


@wp.kernel
def kept(x: wp.array(dtype=float), turns: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    for k in range(turns[i]):
        a = a * x[i] + 0.1
        for _ in range(turns[k]):
            a = a * 0.9
    while a > 0.01:
        a = a * a * 0.3
    y[i] = a


def test_what_loops_keep_is_kept_for_each_lane(bits: int) -> None:
    n = 50
    turns = np.random.default_rng(1).integers(0, 6, n).astype(np.int32)
    assert is_in_lanes(kept, "adjoint")
    compare(kept, n, [uniform(n), turns, np.zeros(n)], exact=False)


@wp.kernel
def again(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    while a > 0.5:
        a = a * 0.8 - x[n * 3 + 1] * 0.1
    y[i] = a + x[n * 3 + 1]


def test_what_is_the_same_for_all_lanes_is_known_where_it_was_computed(bits: int) -> None:
    assert is_in_lanes(again)
    compare(again, 40, [uniform(40), 5, np.zeros(40)], exact=False)


@wp.kernel
def shifted(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    below = wp.max(i - 1, 0)
    above = wp.min(i + 1, n - 1)
    y[i] = x[below] * x[above] + x[(i + 3) % n]


def test_indices_that_count_but_at_the_ends(bits: int) -> None:
    compare(shifted, 70, [uniform(70), 70, np.zeros(70)], exact=False)


@wp.kernel
def scattered(
    x: wp.array(dtype=float), to: wp.array(dtype=int), y: wp.array(dtype=float), z: wp.array(dtype=float)
):
    i = wp.tid()
    z[to[i]] = x[i]
    a = x[i]
    for k in range(4):
        a = a * 1.5 - x[k]
    wp.atomic_add(y, to[i], a)


def test_the_last_thread_stays_and_additions_keep_their_order(bits: int) -> None:
    n = 90
    to = np.random.default_rng(2).integers(0, 7, n).astype(np.int32)
    compare(scattered, n, [uniform(n), to, np.zeros(7), np.zeros(7)], exact=False)
    forward = [
        results(
            scattered, n, [uniform(n), to, np.zeros(7), np.zeros(7)], f64=True, lanes=on, replay=frozenset()
        )["forward"]
        for on in (True, False)
    ]
    for one, two in zip(*forward, strict=True):
        np.testing.assert_array_equal(one, two)


@wp.kernel
def latest(x: wp.array(dtype=float), one: wp.array(dtype=float), other: wp.array(dtype=float)):
    i = wp.tid()
    one[0] = x[i]
    if x[i] > 0.7:
        other[1] = x[i]


@pytest.mark.sweep(most=3)
@pytest.mark.parametrize("n", [32, 45])
def test_of_stores_to_one_element_that_of_the_last_thread_stays(bits: int, n: int) -> None:
    x = uniform(n)
    x[-5:] = 0.3
    assert is_in_lanes(latest)
    one, other = np.zeros(1), np.zeros(2)
    run(latest, n, [x, one, other], f64=True, lanes=True)
    assert (one[0], other[1]) == (x[-1], x[x > np.float32(0.7)][-1])


@wp.kernel
def integers(
    a: wp.array(dtype=int), b: wp.array(dtype=int), c: wp.array(dtype=int), d: wp.array(dtype=wp.int64)
):
    i = wp.tid()
    c[i] = a[i] // b[i] + a[i] % b[i] * 3 + (a[i] << (b[i] & 7)) + wp.abs(a[i]) + wp.sign(b[i])
    d[i] = wp.int64(a[i]) // wp.int64(7) + wp.int64(b[i])


def test_integers_wrap_and_divide_as_they_do_elsewhere(bits: int) -> None:
    edges = np.array([0, 1, -1, 7, -7, 2**31 - 1, -(2**31), 12345, -98765, 3], np.int32)
    a, b = (part.ravel().copy() for part in np.meshgrid(edges, edges))
    assert is_in_lanes(integers)
    compare(integers, a.size, [a, b, np.zeros_like(a), np.zeros(a.size, np.int64)])


@wp.kernel
def divided_by_constants(a: wp.array(dtype=int), c: wp.array(dtype=int), d: wp.array(dtype=int)):
    i = wp.tid()
    n = a[i]
    c[i] = n % 512 + 3 * (n // 512) + 5 * (n % 7) + 7 * (n // 7) + n % -3 + n // -8
    d[i] = n // -1 + 3 * (n % -1) + 5 * (n // 1) + 7 * (n // 2147483647) + n % -2147483647


def test_integers_are_divided_by_constants_without_floats(bits: int) -> None:
    edges = np.array([0, 1, -1, 511, -511, 512, -512, 513, 2**31 - 1, -(2**31), 1 - 2**31], np.int32)
    a = np.concatenate([edges, np.random.default_rng(0).integers(-(2**31), 2**31, 100).astype(np.int32)])
    text = divided_by_constants._text(Variant("forward", lanes=True))
    assert text.lanes is not None
    assert "fdiv" not in (backend._in_lanes(parsed(text.code), "entry", text.lanes) or "fdiv")
    compare(divided_by_constants, a.size, [a, np.zeros_like(a), np.zeros_like(a)])


@wp.kernel
def whole_numbers(
    x: wp.array(dtype=float),
    i8: wp.array(dtype=wp.int8),
    i16: wp.array(dtype=wp.int16),
    i32: wp.array(dtype=wp.int32),
    i64: wp.array(dtype=wp.int64),
    u8: wp.array(dtype=wp.uint8),
    u16: wp.array(dtype=wp.uint16),
    u32: wp.array(dtype=wp.uint32),
    u64: wp.array(dtype=wp.uint64),
):
    i = wp.tid()
    i8[i], i16[i], i32[i], i64[i] = wp.int8(x[i]), wp.int16(x[i]), wp.int32(x[i]), wp.int64(x[i])
    u8[i], u16[i], u32[i], u64[i] = wp.uint8(x[i]), wp.uint16(x[i]), wp.uint32(x[i]), wp.uint64(x[i])


@pytest.mark.parametrize("f64", [False, True])
def test_floats_become_the_nearest_integer_that_the_type_holds(bits: int, f64: bool) -> None:
    """Also the largest of them and those beyond, in every lane: NaN becomes 0."""
    of = np.float64 if f64 else np.float32
    powers = [2**power for size in (8, 16, 32, 64) for power in (size - 1, size)]
    limits = [of(number) for power in powers for number in (power, -power)]
    edges = [0.0, -0.0, 0.99, -0.99, 1.5, -1.5, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan]
    x = np.array([*edges, *(each for limit in limits for each in _neighbours(limit))], of)
    assert is_in_lanes(whole_numbers, f64=f64)
    kinds = [np.dtype(f"{sign}{size}") for sign in "iu" for size in (1, 2, 4, 8)]
    found = [np.zeros(x.size, kind) for kind in kinds]
    run(whole_numbers, x.size, [x, *found], f64=f64, lanes=True)
    for kind, values in zip(kinds, found, strict=True):
        convert = converted(f"{kind.kind}{8 * kind.itemsize}")
        np.testing.assert_array_equal(values, np.array([convert(number) for number in x], kind))
    text = whole_numbers._text(Variant("forward", f64=f64, lanes=True))
    assert text.lanes is not None
    assert (".sat." in (backend._in_lanes(parsed(text.code), "entry", text.lanes) or "")) is not IS_X86


def _neighbours(number: Any) -> list[Any]:
    """A float, and those beside it."""
    return [number, np.nextafter(number, -number), np.nextafter(number, 2 * number)]


@wp.kernel
def strided(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_arrays_with_strides(bits: int) -> None:
    x, y = uniform(2 * 45)[::2], np.zeros(3 * 45)[::3]
    run(strided, 45, [x, y], f64=True, lanes=True)
    np.testing.assert_array_equal(y, x * x)


@wp.kernel
def halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = x[i] * x[i] + wp.float16(0.1)


def test_halves() -> None:
    x = uniform(50).astype(np.float16)
    found = [np.zeros_like(x) for _ in range(2)]
    for lanes, y in zip((True, False), found, strict=True):
        run(halves, 50, [x, y], lanes=lanes)
    np.testing.assert_array_equal(*found)


@wp.kernel
def neighbours(x: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0:
        x[i] = x[i - 1] + 1.0


@wp.kernel
def numbered(count: wp.array(dtype=int), x: wp.array(dtype=int)):
    x[wp.tid()] = wp.atomic_add(count, 0, 1)


@wp.kernel
def few_instructions(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 2.0


@wp.kernel
def many_instructions(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float), z: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    a = x[i]
    for _ in range(12):
        a = wp.cross(a, wp.vec3(a[1] + 0.1, a[2], a[0])) + a
    y[i] = wp.length(a)
    z[i] = a


def assembly_of(kernel: Any, kind: str = "forward") -> str:
    """Return the assembly of a kernel in lanes of 512 bits."""
    arrays = frozenset(n for n, param in enumerate(kernel.params) if isinstance(param.type, ArrayType))
    text = kernel._text(Variant(kind, frozenset() if kind == "forward" else arrays, lanes=True))
    return translator.vectorize(text.code, "entry", replace(text.lanes, bits=512))


def fetches(kernel: Any, kind: str = "forward", cache: int = 3) -> list[int]:
    """Return how many bytes ahead of the accesses it prefetches into a cache, in order."""
    assembly = assembly_of(kernel, kind)
    calls = re.findall(rf"call void @llvm.prefetch.p0\(ptr (%ahead\d+), i32 0, i32 {cache},", assembly)
    return [int(re.search(rf"{re.escape(call)} = .* i64 (\d+)", assembly)[1]) for call in calls]


NEAR, FAR = translator.AHEAD


def test_long_blocks_fetch_what_the_next_ones_access() -> None:
    assert fetches(few_instructions) == []
    line = [NEAR + 64 * k for k in range(3)]
    assert fetches(many_instructions) == [*line, line[0], *line]
    compare(many_instructions, 40, [uniform(40, 3), np.zeros(40), np.zeros((40, 3))], exact=False)


def test_what_later_blocks_access_is_fetched_into_a_larger_cache() -> None:
    assert FAR > NEAR
    near = fetches(many_instructions)
    assert fetches(many_instructions, cache=2) == [FAR - NEAR + distance for distance in near]


@wp.kernel
def two_sines(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    a = x[i]
    y[i] = a * wp.sin(a) + wp.sin(a + wp.float64(1.0))


def machine_code(assembly: str) -> str:
    """Return the instructions of each function of a module, as text."""
    module = machine._optimized((assembly,), loops=False, components=False)
    return str(machine.target_machine().emit_assembly(module))


@pytest.mark.skipif(not IS_X86, reason="instructions of x86")
def test_vectors_on_the_stack_are_in_one_line_of_the_cache() -> None:
    """Callers align the stack to 16 bytes: each vector would straddle two lines in half of all processes."""
    wp.config.vector_math = True
    text = two_sines._text(Variant("forward", lanes=True))
    assembly = translator.vectorize(text.code, "entry", replace(text.lanes, bits=512, math=True))
    assert re.search(r"andq\s+\$-64, %rsp", machine_code(assembly))
    plain = assembly.replace(ALIGNED_STACK, "")
    assert not re.search(r"andq\s+\$-\d+, %rsp", machine_code(plain)), "LLVM does so by itself"


@wp.kernel
def nine_points(u: wp.array2d(dtype=float), out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if i > 0 and i < u.shape[0] - 1 and j > 0 and j < u.shape[1] - 1:
        above = u[i - 1, j - 1] + 2.0 * u[i - 1, j] + u[i - 1, j + 1]
        beside = 2.0 * u[i, j - 1] + 4.0 * u[i, j] + 2.0 * u[i, j + 1]
        below = u[i + 1, j - 1] + 2.0 * u[i + 1, j] + u[i + 1, j + 1]
        out[i, j] = (above + beside + below) / 16.0


@wp.kernel
def planes(u: wp.array3d(dtype=float), out: wp.array3d(dtype=float)):
    i, j, k = wp.tid()
    if i > 0 and i < u.shape[0] - 1 and j > 0 and j < u.shape[1] - 1 and k > 0 and k < u.shape[2] - 1:
        across = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k]
        out[i, j, k] = across + u[i, j, k - 1] + u[i, j, k + 1] - 6.0 * u[i, j, k]


def test_what_holds_in_most_blocks_of_threads_is_said_to_be_likely() -> None:
    assert "call i1 @llvm.expect.i1(" in assembly_of(nine_points)
    assert "call i1 @llvm.expect.i1(" not in assembly_of(few_instructions)


@wp.kernel
def chain(x: wp.array(dtype=wp.vec3), far: int, y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    a = x[i]
    for _ in range(12):
        a = wp.cross(a, wp.vec3(a[1] + 0.1, a[2], a[0])) + a
    y[i] = a + x[i + 1] + x[i + far]


def test_what_follows_other_accesses_is_not_fetched_ahead() -> None:
    """The last row of an array that a thread accesses is new to the caches, and within a row one access."""
    assert fetches(nine_points) == [NEAR] * 2, "u[i + 1, …] and out"
    assert fetches(nine_points, "adjoint") == [NEAR] * 4, "out, and u[i + 1, …] in three branches"
    assert fetches(planes) == [NEAR] * 4, (
        "u[i - 1, …], u[i, j + 1, k], u[i + 1, …] and out: planes are far apart"
    )
    vector = [NEAR + 64 * k for k in range(3)]
    assert fetches(chain) == vector * 3, "x[i + 1], x[i + far] and y"
    compare(nine_points, (9, 40), [uniform(9, 40), np.zeros((9, 40))], exact=False)


def test_threads_that_depend_on_their_order_are_not_in_lanes() -> None:
    assert not is_in_lanes(neighbours)
    assert not is_in_lanes(numbered)
    x = np.zeros(40)
    run(neighbours, 40, [x], f64=True, lanes=True)
    np.testing.assert_array_equal(x, np.arange(40.0))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=60, sample=6)))
def test_random_programs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_width(monkeypatch, WIDTHS[seed % 3])
    kernel = load(program(seed, (6, 9, 12)[seed % 3]))
    if not is_in_lanes(kernel):
        pytest.skip("its threads depend on their order")
    n = SIZES[seed % 5]
    for runs in (False, True):
        compare(kernel, n, arguments(np.random.default_rng(seed), n, runs=runs), exact=False)


def test_many_random_programs_are_in_lanes() -> None:
    kernels = [load(program(seed, 9)) for seed in range(40)]
    assert sum(map(is_in_lanes, kernels)) >= 15


FUNCTIONS = {
    "sin": (-50, 50), "cos": (-50, 50), "tan": (-1.4, 1.4), "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9),
    "sinh": (-5, 5), "cosh": (-5, 5), "tanh": (-5, 5), "exp": (-20, 20), "log": (1e-6, 50),
    "log2": (1e-6, 50), "log10": (1e-6, 50), "erf": (-3, 3), "erfc": (-3, 3), "cbrt": (-9, 9),
}  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [wp.float32, wp.float64])
def test_vector_functions_err_by_few_units(bits: int, name: str, kind: Any) -> None:
    """Four units in the last place is what glibc promises of them; special values are those of others."""
    wp.config.vector_math = True
    function = getattr(wp, name)

    def apply(x: wp.array(dtype=kind), y: wp.array(dtype=kind)):
        i = wp.tid()
        y[i] = function(x[i])

    kernel = wp.Kernel(apply, key=f"apply_{name}")
    low, high = FUNCTIONS[name]
    dtype = np.float32 if kind is wp.float32 else np.float64
    x = np.random.default_rng(0).uniform(low, high, 3001).astype(dtype)
    x = np.concatenate([x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], dtype)])
    lanes, plain = np.zeros_like(x), np.zeros_like(x)
    run(kernel, x.size, [x, lanes], lanes=True)
    run(kernel, x.size, [x, plain])
    np.testing.assert_array_equal(np.isfinite(lanes), np.isfinite(plain))
    whole = np.isfinite(plain)
    np.testing.assert_array_equal(lanes[~whole], plain[~whole])
    unit = np.spacing(np.maximum(np.abs(plain[whole]), np.finfo(dtype).tiny))
    assert (np.abs(lanes[whole] - plain[whole]) / unit).max() <= 5


@wp.kernel
def roots(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


def test_square_roots_are_rounded_correctly(bits: int) -> None:
    """All digits with an even and an odd exponent, and what is not usual: nothing else makes a difference."""
    digits = np.arange(2**24, dtype=np.uint32) + np.uint32(127 << 23)
    edges = np.array([0.0, -0.0, 1e-45, 1e-38, 1e-31, 1e30, 3e38, np.inf, -1.0, np.nan], np.float32)
    with np.errstate(all="ignore"):
        scaled = [np.ldexp(digits[::101].view(np.float32), e) for e in (-126, -101, -99, 98, 100, 126)]
    for x in (digits.view(np.float32), edges, *scaled):
        y = np.zeros_like(x)
        run(roots, x.size, [x, y], lanes=True)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, np.sqrt(x))


def test_threads_left_over_get_the_numbers_of_full_blocks() -> None:
    """An element's value does not depend on where in the array it is."""
    wp.config.vector_math = True

    @wp.kernel
    def wave(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.sin(x[i]) * wp.exp(x[i])

    x = np.full(45, 1.2345, np.float32)
    y = np.zeros_like(x)
    run(wave, 45, [x, y], lanes=True)
    assert len(set(y.tolist())) == 1


def test_settings_turn_lanes_off() -> None:
    @wp.kernel
    def wave(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = wp.sin(x[i])

    plain, scalar = wave.forward(), wave.forward(lanes=True)
    wp.config.vector_math = True
    vectors = wave.forward(lanes=True)
    assert len({id(entry) for entry in (plain, scalar, vectors)}) == 3
    wp.config.lanes = False
    assert wave.forward(lanes=True) is plain
    wp.config.lanes, wp.config.compiler = True, "numba"
    assert wave.forward(lanes=True) is wave.forward()


@wp.kernel
def several_loops(x: wp.array(dtype=float), n: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    if x[i] > 0.5:
        t = x[i]
        for _ in range(n[i]):
            t = t * 0.5 + 1.0
        s = s + t
    for _ in range(n[0]):
        u = x[i] + s
        u = u * u
        s = s + u
    y[i] = s


def test_variables_are_zero_where_a_branch_or_loop_first_sets_them() -> None:
    """At the start of the function, LLVM's time for them would grow with the square of the loops."""
    text = several_loops._text(Variant("forward", lanes=True))
    assert text.lanes is not None
    start, body = translator.vectorize(text.code, "f", text.lanes).split("br i1", 1)
    assert start.count(".slot = alloca") > 2
    assert "zeroinitializer, ptr" not in start
    zeros = re.findall(r"store <\d+ x float> zeroinitializer, ptr (%\S+\.slot)", body)
    assert len(set(zeros)) > 1
    values = np.array([0.2, 0.9, 0.7] * 7), np.array([2, 0, 3] * 7), np.zeros(21)
    compare(several_loops, 21, list(values))
