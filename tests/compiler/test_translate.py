"""The two compilers of generated text, against each other: bit for bit the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._config import CHOICES
from tapedebug.compiler import backend
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.llvm.expressions import TranslationError, constant
from tapedebug.compiler.llvm.library import LIBRARY, call_of
from tapedebug.compiler.llvm.translate import translated
from tapedebug.lang.lowering import FUNCTIONS, Misfit
from tests.compiler.generator import program
from tests.compiler.harness import run
from tests.compiler.test_generated import THREADS, arguments, load
from tests.sweeps import cases


@pytest.fixture
def both(monkeypatch, tmp_path):
    """Runs a function with each of the compilers, from an empty cache."""

    def start(work: Any) -> list[Any]:
        found = []
        for name in backend.COMPILERS:
            monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path / name))
            monkeypatch.setattr(wp.config, "compiler", name)
            found.append(work())
            assert list((tmp_path / name).glob("*.o")), "nothing was compiled"
        return found

    return start


def bits(array: np.ndarray) -> np.ndarray:
    """The bytes; any NaN is one NaN."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    return np.frombuffer(array.tobytes(), np.uint8)


def assert_same(one: list[np.ndarray], two: list[np.ndarray]) -> None:
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(bits(a), bits(b))


def test_the_setting_names_the_compilers() -> None:
    assert CHOICES["compiler"] == tuple(backend.COMPILERS)
    with pytest.raises(ValueError, match=r"config\.compiler is one of llvm, numba; got 'gcc'"):
        wp.config.compiler = "gcc"


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(500, 500 + cases(full=4, sample=2)))
def test_generated_programs(both, seed: int) -> None:
    source, f64 = program(seed, 7), seed % 3 == 0
    width = np.float64 if f64 else np.float32

    def work() -> list[np.ndarray]:
        kernel = load(source)
        found = []
        for kind in ("forward", "adjoint", "tangent"):
            rng = np.random.default_rng(seed)
            args = [
                a.astype(width) if isinstance(a, np.ndarray) and a.dtype == float else a
                for a in arguments(rng)
            ]
            arrays = [a for a in args if isinstance(a, np.ndarray)]
            other = [rng.normal(size=a.shape).astype(width) if a.dtype == width else None for a in arrays]
            how = {} if kind == "forward" else {"adjoints" if kind == "adjoint" else "tangents": other}
            run(kernel, THREADS, args, f64=f64, **how)
            found += arrays + [a for a in other if a is not None]
        return found

    assert_same(*both(work))


@wp.kernel
def numbers(
    a: wp.array(dtype=wp.float32),
    b: wp.array(dtype=wp.float64),
    i: wp.array(dtype=wp.int32),
    u: wp.array(dtype=wp.uint8),
    w: wp.array(dtype=wp.int64),
    t: wp.array(dtype=wp.bool),
    r: wp.array2d(dtype=wp.float64),
):
    k = wp.tid()
    x = wp.float64(a[k])
    y = b[k]
    r[k, 0] = wp.float64(i[k] // i[k + 1])
    r[k, 1] = wp.float64(i[k] % i[k + 1])
    r[k, 2] = wp.float64(u[k] * u[k + 1] + u[k])
    r[k, 3] = wp.float64(w[k] << (w[k + 1] & wp.int64(63)))
    r[k, 4] = wp.float64(i[k] >> wp.int32(3))
    r[k, 5] = wp.float64(wp.int32(a[k] * 1.0e10))
    r[k, 6] = wp.float64(wp.uint8(a[k] * 100.0))
    r[k, 7] = wp.pow(x, y) + wp.tan(y) + wp.erf(x)
    r[k, 8] = wp.acos(x * y) + wp.sign(y) + wp.round(y) + wp.float64(wp.round(a[k]))
    r[k, 9] = x % y
    r[k, 10] = wp.where(t[k], x, -y)
    r[k, 11] = x / (y - y)
    r[k, 12] = wp.float64(wp.abs(i[k])) + wp.float64(-u[k])
    t[k] = not t[k + 1]


@wp.kernel
def on_three_axes(x: wp.array3d(dtype=float), y: wp.array3d(dtype=float)):
    i, j, k = wp.tid()
    y[i, j, k] = wp.sin(x[i, j, k]) * float(i - j + 2 * k)


def test_launches_on_several_axes(both) -> None:
    x = np.random.default_rng(5).normal(size=(3, 4, 5)).astype(np.float32)

    def work() -> list[np.ndarray]:
        on_three_axes.renew()
        y, adjoints = np.zeros_like(x), [np.zeros_like(x), np.ones_like(x)]
        run(on_three_axes, x.shape, [x, y])
        run(on_three_axes, x.shape, [x, y.copy()], adjoints=adjoints)
        return [y, *adjoints]

    for one, other in zip(*both(work), strict=True):
        np.testing.assert_array_equal(one, other)


def test_numbers_of_every_type(both) -> None:
    def work() -> list[np.ndarray]:
        rng = np.random.default_rng(3)
        n = 64
        args = [
            rng.normal(size=n).astype(np.float32),
            rng.normal(size=n),
            rng.integers(-3, 4, n).astype(np.int32),
            rng.integers(0, 256, n).astype(np.uint8),
            rng.integers(-(2**62), 2**62, n),
            rng.random(n) < 0.5,
            np.zeros((n, 13)),
        ]
        kernel = Kernel(numbers.python)
        run(kernel, n - 1, args)
        return args

    one, two = both(work)
    assert np.isfinite(one[-1][:, :7]).all() and one[-1][:, :7].any(axis=0).all()
    assert_same(one, two)


@wp.func_native("return 3.0f * x;")
def thrice(x: float) -> float: ...


@wp.kernel
def others(x: wp.array(dtype=float), h: wp.array(dtype=wp.float16)):
    i = wp.tid()
    state = wp.rand_init(42, i)
    print("x", x[i])
    assert x[i] > 0.0
    h[i] = h[i] * wp.float16(2.5)
    x[i] = thrice(x[i]) + wp.randf(state) + wp.noise(state, x[i])


def test_journals_random_numbers_halves_and_native_functions(both, capfd) -> None:
    def work() -> list[np.ndarray]:
        x, h = wp.array([1.0, 2.5], dtype=float), wp.array([1.0, 2.0], dtype=wp.float16)
        wp.launch(Kernel(others.python), dim=2, inputs=[x, h])
        assert capfd.readouterr().out == "x 1.0\nx 2.5\n"
        return [x.numpy(), h.numpy()]

    assert_same(*both(work))


def entry(body: str) -> str:
    return "def entry(lo, hi, args):\n" + "".join(f"    {line}\n" for line in body.splitlines())


REFUSED = {
    "mixed types": ("x = i32(1) + 2", "line 2: i32(1) + 2: operands i32, i64"),
    "mixed comparison": ("x = f32(1.0) < f64(1.0)", "operands f32, f64"),
    "an unknown function": ("x = magic(lo)", "there is no library function 'magic'"),
    "too many operands": ("x = m_sin(f32(1.0), f32(1.0))", "'m_sin' does not take 2 operands"),
    "operands that do not fit": ("x = m_sin(lo)", "line 2: m_sin(lo): operands i64"),
    "a name of another block": ("if lo < hi:\n    x = lo\ny = x", "line 4: x: the name means nothing here"),
    "a change of type": ("x = lo\nx = f32(1.0)", "`x` is i64; got f32"),
    "a store of another type": ("p = ptr_f32(args, 0)\np[0] = lo", "i64 is stored where f32 is"),
    "a condition that is a number": ("if lo:\n    pass", "a condition is b1; got i64"),
    "a float as an index": ("p = ptr_f32(args, 0)\nx = p[f32(1.0)]", "*f32 is indexed with f32"),
    "steps of two": ("for t in range(lo, hi, 2):\n    pass", "the step is 1 or -1"),
    "no range": ("for t in args:\n    pass", "no range"),
    "division of integers": ("x = lo / hi", "no such operator of i64"),
    "another statement": ("return lo", "no such statement"),
    "break outside a loop": ("break", "no such statement"),
    "another expression": ("x = [lo]", "no such expression"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_refused(what: str) -> None:
    body, message = REFUSED[what]
    with pytest.raises(TranslationError) as caught:
        translated(entry(body), "entry")
    assert message in str(caught.value)


@pytest.mark.parametrize("compiler", backend.COMPILERS)
def test_refused_text_is_a_bug_that_shows_itself(compiler: str) -> None:
    with pytest.raises(backend.CompilerError, match=r"(?s)was refused:.*x = magic\(lo\)"):
        backend.COMPILERS[compiler](entry("x = magic(lo)"), "entry")


def test_constants_are_rounded_once() -> None:
    assert constant(0.1, "f64") == "0x3FB999999999999A"
    assert constant(0.1, "f32") == "0x3FB99999A0000000"
    assert constant(float("-inf"), "f32") == "0xFFF0000000000000"
    assert constant(1e300, "f32") == "0x7FF0000000000000"
    assert constant(-0.0, "f64") == "0x8000000000000000"
    assert (constant(3, "u8"), constant(1, "b1")) == ("3", "true")


def test_every_library_function_has_a_python_twin() -> None:
    from tapedebug.compiler.python_library import NAMESPACE

    assert LIBRARY.keys() | FUNCTIONS.keys() | {"stack_new"} <= NAMESPACE.keys()


def test_library_refuses_what_does_not_fit() -> None:
    for name, operands in {
        "select": ("i32", "f32", "f32"),
        "c_div": ("i32", "i64"),
        "shl": ("f32", "f32"),
    }.items():
        with pytest.raises(Misfit):
            call_of(name, operands)
