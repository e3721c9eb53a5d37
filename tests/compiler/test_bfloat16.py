"""The type bfloat16: conversions, rounding of operations, gradients, arrays, launches and traces."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._float_types import MissingFloatTypeError, bfloat16_dtype
from tapedebug.lang.lowering import in_python
from tapedebug.trace import load_trace
from tests.compiler.harness import run
from tests.processes import modules_after

ml_dtypes = pytest.importorskip("ml_dtypes")
pytestmark = pytest.mark.unoptimized

RNG = np.random.default_rng(1)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(65536, dtype=np.uint16).view(BFLOAT16)
vec3 = wp.types.vector(3, wp.bfloat16)


@wp.kernel
def convert(
    b: wp.array(dtype=wp.bfloat16),
    f: wp.array(dtype=wp.float32),
    d: wp.array(dtype=wp.float64),
    n: wp.array(dtype=wp.int64),
    of_f: wp.array(dtype=wp.bfloat16),
    of_d: wp.array(dtype=wp.bfloat16),
    of_n: wp.array(dtype=wp.bfloat16),
    to_f: wp.array(dtype=wp.float32),
    to_n: wp.array(dtype=wp.int32),
):
    i = wp.tid()
    of_f[i] = wp.bfloat16(f[i])
    of_d[i] = wp.bfloat16(d[i])
    of_n[i] = wp.bfloat16(n[i])
    to_f[i] = float(b[i])
    to_n[i] = int(b[i])


@wp.kernel
def operate(
    a: wp.array(dtype=wp.bfloat16), b: wp.array(dtype=wp.bfloat16), out: wp.array2d(dtype=wp.bfloat16)
):
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
    out[6, i] += y * wp.bfloat16(0.1)
    out[7, i] = wp.where(x < y, -x, wp.floor(y))


def same(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare bit by bit, but for the kinds of NaN."""
    bits = {2: np.uint16, 4: np.uint32}[found.itemsize]
    nan = np.isnan(expected)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.isnan(found), nan)
    np.testing.assert_array_equal(found[~nan].view(bits), expected[~nan].view(bits))


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_every_conversion_is_that_of_ml_dtypes(interpreted: bool) -> None:
    keep = slice(None, None, 97 if interpreted else 1)
    f = RNG.integers(0, 2**32, 65536, dtype=np.uint32).view(np.float32)
    f[:32768] = (EVERY[:32768].view(np.uint16).astype(np.uint32) << 16 | 0x8000).view(np.float32)  # halfway
    b, f = EVERY[keep].copy(), f[keep].copy()
    with np.errstate(all="ignore"):
        d = f.astype(np.float64)
        n = RNG.integers(-70000, 70000, len(b))
        made = [np.zeros(len(b), BFLOAT16) for _ in range(3)]
        to_f, to_n = np.zeros(len(b), np.float32), np.zeros(len(b), np.int32)
        run(convert, len(b), [b, f, d, n, *made, to_f, to_n], interpreted=interpreted)
        for found, source in zip(made, (f, d, n), strict=True):
            same(found, source.astype(BFLOAT16))
        same(to_f, b.astype(np.float32))
        small = np.abs(b.astype(np.float64)) < 2.0**31
        np.testing.assert_array_equal(to_n[small], b[small].astype(np.float64).astype(np.int32))


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
def test_every_operation_is_rounded_once(interpreted: bool) -> None:
    count = 300 if interpreted else 20000
    x, y = RNG.integers(0, 65536, (2, count), dtype=np.uint16).view(BFLOAT16)
    out = np.zeros((8, count), BFLOAT16)
    run(operate, count, [x, y, out], interpreted=interpreted)
    with np.errstate(all="ignore"):
        expected = [x + y, x - y, x * y, x / y, np.sqrt(np.abs(x)), x * y + y, x + y * BFLOAT16.type(0.1)]
        expected.append(np.where(x < y, -x, np.floor(y)))
    for found, row in zip(out, expected, strict=True):
        same(found, row)


def test_a_nan_stays_one_when_it_is_rounded() -> None:
    assert in_python()["bfloat16_bits"](np.uint32(0x7F800001).view(np.float32)) == 0x7FC0
    assert np.isnan(in_python()["to_bf16"](np.float32(np.nan)))


@wp.kernel
def mixed(
    x: wp.array(dtype=wp.bfloat16),
    v: wp.array(dtype=vec3),
    s: wp.bfloat16,
    out: wp.array(dtype=wp.bfloat16),
    total: wp.array(dtype=float),
):
    i = wp.tid()
    y = x[i] * s + wp.length(v[i])
    for _ in range(3):
        y = y * wp.bfloat16(0.5) + x[i]
    out[i] = wp.sin(y)
    wp.atomic_add(total, 0, float(y))


def arrays() -> tuple[Any, ...]:
    x = wp.array(np.linspace(0.1, 1, 5), dtype=wp.bfloat16, requires_grad=True)
    v = wp.array(np.ones((5, 3)), dtype=vec3, requires_grad=True)
    out = wp.zeros(5, dtype=wp.bfloat16, requires_grad=True)
    return x, v, out, wp.zeros(1, dtype=float, requires_grad=True)


def test_launches_tapes_checks_and_diagnoses(tmp_path: Any) -> None:
    x, v, out, total = arrays()
    with wp.Tape() as tape:
        wp.launch(mixed, 5, inputs=[x, v, 0.3], outputs=[out, total])
    tape.backward(loss=total)
    assert x.grad.dtype is wp.bfloat16 and x.grad.numpy().dtype == BFLOAT16
    np.testing.assert_allclose(x.grad.numpy().astype(float), 0.3 / 8 + 1.75, rtol=1e-2)
    np.testing.assert_allclose(v.grad.numpy().astype(float), 1 / 8 / np.sqrt(3), rtol=1e-2)
    assert wp.autograd.gradcheck(mixed, 5, inputs=[x, v, 0.3], outputs=[out, total]).verdict == "AGREE"
    # A launch rounds its arguments, and so does the twin, which holds other values as float64.
    again: Any = tape.replay(dtype=wp.float64)
    wide = x.numpy().astype(float)
    y = wide * float(wp.bfloat16(0.3)) + np.sqrt(3)
    for _ in range(3):
        y = y * 0.5 + wide
    np.testing.assert_allclose(again.values(out), np.sin(y), rtol=1e-12)
    assert wp.diagnose(tape, loss=total).verdict == "AGREE"
    trace = tape.trace(values="arrays")
    trace.save(tmp_path / "kept.tdtrace")
    assert load_trace(tmp_path / "kept.tdtrace").values("x", 0).tolist() == x.list()


@wp.struct
class Pair:
    weight: wp.bfloat16
    scale: float


@wp.kernel
def add_up(x: wp.array(dtype=wp.bfloat16), p: Pair, sums: wp.array(dtype=wp.bfloat16)):
    i = wp.tid()
    wp.atomic_add(sums, 0, x[i] * p.weight * wp.bfloat16(p.scale))
    wp.atomic_max(sums, 1, x[i])
    if i == 0:
        print(x[i])
        sums[2] = wp.cast(wp.uint16(0x4049), wp.bfloat16)


def test_structs_atomics_bits_and_prints(capfd: pytest.CaptureFixture[str]) -> None:
    pair, sums = Pair(), wp.zeros(3, dtype=wp.bfloat16)
    pair.weight, pair.scale = wp.bfloat16(0.5), 4.0
    wp.launch(add_up, 4, inputs=[wp.array([1.5, 2, 3, -4], dtype=wp.bfloat16), pair, sums])
    assert sums.list() == [5.0, 3.0, 3.140625]
    assert capfd.readouterr().out == "1.5\n"


def test_arrays_are_made_of_numbers_and_of_bits() -> None:
    values = [1.0, -2.5, np.inf, 0.001]
    a = wp.array(values, dtype=wp.bfloat16)
    assert a.numpy().dtype == BFLOAT16
    assert wp.array(a.numpy()).dtype is wp.bfloat16
    assert (
        wp.array(a.numpy().view(np.uint16), dtype=wp.bfloat16).list()
        == a.list()
        == [1, -2.5, np.inf, 0.00099945068359375]
    )
    assert wp.full(2, 1.01, dtype=wp.bfloat16).list() == [1.0078125] * 2
    assert isinstance(wp.bfloat16(1), wp.bfloat16) and not isinstance(1.0, wp.bfloat16)
    assert np.dtype(wp.bfloat16) == BFLOAT16
    assert vec3(1, 2, 3.01)[2] == 3.015625
    with pytest.raises(wp.ArrayError, match="an array of bfloat16 cannot be shared through DLPack"):
        a.__dlpack__()


def test_functions_outside_kernels_round_as_kernels_do() -> None:
    assert wp.sin(wp.bfloat16(1)) == wp.bfloat16(0.839844) and isinstance(wp.sin(wp.bfloat16(1)), wp.bfloat16)
    assert wp.cast(wp.bfloat16(1), wp.uint16) == 0x3F80


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(MissingFloatTypeError, match="`ml_dtypes`, which has it, is not installed") as e:
        bfloat16_dtype()
    assert "pip install ml_dtypes; or use float16" in str(e.value)


def test_the_package_is_imported_only_for_bfloat16() -> None:
    assert "ml_dtypes" not in modules_after("import tapedebug; tapedebug.zeros(1).numpy()")
