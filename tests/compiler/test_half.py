"""Half precision: every conversion, exact rounding of every operation, gradients, arrays and launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run
from tests.processes import run_python

RNG = np.random.default_rng(1)
EVERY = np.arange(65536, dtype=np.uint16).view(np.float16)


@wp.kernel
def convert(
    h: wp.array(dtype=wp.float16),
    f: wp.array(dtype=wp.float32),
    d: wp.array(dtype=wp.float64),
    n: wp.array(dtype=wp.int64),
    of_f: wp.array(dtype=wp.float16),
    of_d: wp.array(dtype=wp.float16),
    of_n: wp.array(dtype=wp.float16),
    to_f: wp.array(dtype=wp.float32),
    to_n: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    of_f[i] = wp.float16(f[i])
    of_d[i] = wp.float16(d[i])
    of_n[i] = wp.float16(n[i])
    to_f[i] = float(h[i])
    to_n[i] = int(h[i])


@wp.kernel
def operate(a: wp.array(dtype=wp.float16), b: wp.array(dtype=wp.float16), out: wp.array2d(dtype=wp.float16)):
    i = wp.tid()
    x = a[i]
    y = b[i]
    out[0, i] = x + y
    out[1, i] = x - y
    out[2, i] = x * y
    out[3, i] = x / y
    out[4, i] = wp.sqrt(wp.abs(x))
    out[5, i] = x * y + y
    out[6, i] += x
    out[6, i] += y * wp.float16(0.1)
    out[7, i] = wp.where(x < y, -x, wp.floor(y))


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Bit by bit, but for the kinds of NaN."""
    bits = {2: np.uint16, 4: np.uint32}[found.itemsize]
    nan = np.isnan(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].view(bits), expected[~nan].view(bits))


def hard_floats() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of every size, those halfway between two halves, and their neighbours."""
    with np.errstate(all="ignore"):
        between = (EVERY.astype(float) + np.roll(EVERY, 1).astype(float)) / 2
    doubles = np.concatenate([between, np.nextafter(between, np.inf), np.nextafter(between, -np.inf)])
    singles = RNG.integers(0, 2**32, 3 * 65536, dtype=np.uint32).view(np.float32)
    singles[:65536] = between
    singles[65536 : 2 * 65536] = RNG.normal(size=65536) * 10.0 ** RNG.integers(-9, 6, 65536)
    return singles, doubles


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_every_conversion_is_that_of_numpy(interpreted: bool) -> None:
    f, d = hard_floats()
    h = np.tile(EVERY, 3)
    keep = slice(None, None, 97 if interpreted else 1)
    f, d, h = (x[keep].copy() for x in (f, d, h))
    n = RNG.integers(-70000, 70000, len(h))
    halves = [np.zeros(len(h), np.float16) for _ in range(3)]
    to_f, to_n = np.zeros(len(h), np.float32), np.zeros(len(h), np.int32)
    run(convert, len(h), [h, f, d, n, *halves, to_f, to_n], interpreted=interpreted)
    with np.errstate(all="ignore"):
        for found, source in zip(halves, (f, d, n), strict=True):
            same(found, source.astype(np.float16))
        same(to_f, h.astype(np.float32))
        whole = np.isfinite(h)
        np.testing.assert_array_equal(to_n[whole], h[whole].astype(np.int32))


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_every_operation_is_rounded_once(interpreted: bool) -> None:
    count = 500 if interpreted else 60000
    x, y = RNG.integers(0, 65536, (2, count), dtype=np.uint16).view(np.float16)
    out = np.zeros((8, count), np.float16)
    run(operate, count, [x, y, out], interpreted=interpreted)
    with np.errstate(all="ignore"):
        expected = [x + y, x - y, x * y, x / y, np.sqrt(np.abs(x)), x * y + y, x + y * np.float16(0.1)]
        expected.append(np.where(x < y, -x, np.floor(y)))
    for found, row in zip(out, expected, strict=True):
        same(found, row)


def test_gradients_are_halves() -> None:
    x, y = RNG.uniform(0.5, 2.0, (2, 6)).astype(np.float16)
    out = np.zeros((8, 6), np.float16)
    check_gradient(operate, 6, [x, y, out])
    adjoints = [np.zeros_like(x), np.zeros_like(y), np.ones_like(out)]
    run(operate, 6, [x, y, out], adjoints=adjoints)
    fx, fy = x.astype(float), y.astype(float)
    expected = 3 + 2 * fy + 1 / fy + 0.5 / np.sqrt(fx) - (fx < fy)
    np.testing.assert_allclose(adjoints[0], expected, rtol=4e-3)


@wp.kernel
def mixed(
    x: wp.array(dtype=wp.float16),
    v: wp.array(dtype=wp.vec3h),
    s: wp.float16,
    out: wp.array(dtype=wp.float16),
    total: wp.array(dtype=float),
):
    i = wp.tid()
    y = x[i] * s + wp.length(v[i])
    for _ in range(3):
        y = y * wp.float16(0.5) + x[i]
    out[i] = wp.sin(y)
    wp.atomic_add(total, 0, float(y))


def test_launches_tapes_and_checks() -> None:
    x = wp.array(np.linspace(0.1, 1, 5), dtype=wp.float16, requires_grad=True)
    v = wp.array(np.ones((5, 3)), dtype=wp.vec3h, requires_grad=True)
    out = wp.zeros(5, dtype=wp.float16, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(mixed, 5, inputs=[x, v, 0.3], outputs=[out, total])
    tape.backward(loss=total)
    assert x.grad.dtype is wp.float16 and x.grad.numpy().dtype == np.float16
    np.testing.assert_allclose(x.grad.numpy(), 0.3 / 8 + 1.75, rtol=2e-3)
    np.testing.assert_allclose(v.grad.numpy(), 1 / 8 / np.sqrt(3), rtol=2e-3)
    assert wp.autograd.gradcheck(mixed, 5, inputs=[x, v, 0.3], outputs=[out, total]).verdict == "AGREE"
    # A launch rounds its arguments, and so does the twin: 0.3 as a half.
    again: Any = tape.replay(dtype=wp.float64)
    y = x.numpy().astype(float) * float(np.float16(0.3)) + np.sqrt(3)
    for _ in range(3):
        y = y * 0.5 + x.numpy().astype(float)
    np.testing.assert_allclose(again.values(out), np.sin(y), rtol=1e-12)


@wp.kernel
def bits(
    x: wp.array(dtype=float),
    h: wp.array(dtype=wp.float16),
    out: wp.array(dtype=wp.int32),
    back: wp.array(dtype=float),
    half: wp.array(dtype=wp.uint16),
):
    i = wp.tid()
    out[i] = wp.cast(x[i], wp.int32)
    back[i] = wp.cast(wp.cast(x[i], dtype=wp.uint32) ^ wp.uint32(0x80000000), float)
    half[i] = wp.cast(h[i], wp.uint16)
    h[i] = wp.cast(wp.int16(half[i]), wp.float16) + wp.float16(1.0)


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_casts_keep_bits(interpreted: bool) -> None:
    x, h = RNG.normal(size=7).astype(np.float32), RNG.normal(size=7).astype(np.float16)
    before = h.copy()
    out, back, half = np.zeros(7, np.int32), np.zeros(7, np.float32), np.zeros(7, np.uint16)
    run(bits, 7, [x, h, out, back, half], interpreted=interpreted)
    np.testing.assert_array_equal(out, x.view(np.int32))
    np.testing.assert_array_equal(back, -x)
    np.testing.assert_array_equal(half, before.view(np.uint16))
    np.testing.assert_array_equal(h, before + np.float16(1))
    assert wp.cast(2.0, wp.int32) == 0x40000000 and wp.cast(0x40000000, dtype=float) == 2.0


@pytest.mark.llvm_only(reason="it starts a process whose kernels LLVM compiles")
def test_processors_without_conversions_of_their_own_get_the_same_numbers(tmp_path) -> None:
    """All tests of this file again, with the conversions in integer arithmetic."""
    done = run_python(
        "import pytest, sys\n"
        "from tapedebug.compiler import backend\n"
        "from tapedebug.compiler.llvm import library\n"
        "backend.optimization = 0\n"
        "library.has_feature = lambda name: False\n"
        f"sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-k', 'not processors', {__file__!r}]))",
        cache=tmp_path,
    )
    assert done.returncode == 0, done.stdout
