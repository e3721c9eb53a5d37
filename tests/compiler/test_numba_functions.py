"""Kernels that call functions which users compile with Numba: values, gradients, the cache, errors."""

from __future__ import annotations

import importlib.util
import linecache
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import njit

import tapedebug as wp
from tapedebug.compiler import backend
from tapedebug.compiler.variant import Variant
from tests.compiler.harness import check_gradient, run, twin
from tests.processes import run_python


@njit
def bump(x, n):
    return np.float32(n * math.exp(-x * x) + math.sin(3.0 * x))


@njit(error_model="numpy")
def polar(x, y):
    return math.hypot(x, y), math.atan2(y, x), x > y


@njit
def helper(x):
    return x * x + np.float32(0.5)


SCALE = 1.5


@njit
def nested(x, scale=2.0):
    total = np.zeros(3)
    for k in range(3):
        total[k] = helper(x) * (k + 1) * scale
    return np.float32(total.sum() * SCALE)


@wp.func
def twice(x: float) -> float:
    return bump(x, 2) + bump(x * 0.5, 1)


@wp.kernel
def several(
    x: wp.array(dtype=float),
    y: wp.array(dtype=float),
    r: wp.array(dtype=wp.float64),
    a: wp.array(dtype=wp.int64),
):
    i = wp.tid()
    y[i] = bump(x[i], i + 1) * x[i] + twice(x[i])
    radius, angle, greater = polar(wp.float64(x[i]), wp.float64(y[i]))
    r[i] = radius * angle
    if greater:
        r[i] += wp.float64(nested(x[i]))
    a[i] = wp.int64(greater) + count(i)


@njit
def count(i):
    return 10 * i + 1


def floats(size: int = 6) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.3, 2.0, size).astype(np.float32)


def several_arguments(size: int = 6) -> list[Any]:
    return [floats(size), np.zeros(size, np.float32), np.zeros(size), np.zeros(size, np.int64)]


def by_hand(x: np.ndarray) -> list[np.ndarray]:
    """Return the result of Numba itself, called from Python with the types of the kernel."""
    y, r, a = np.zeros_like(x), np.zeros(len(x)), np.zeros(len(x), np.int64)
    for i in range(len(x)):
        i32 = np.int32
        once = bump(x[i], i32(2)) + bump(x[i] * np.float32(0.5), i32(1))
        y[i] = bump(x[i], i32(i + 1)) * x[i] + once
        radius, angle, greater = polar(float(x[i]), float(y[i]))
        r[i] = radius * angle + (float(np.float32(nested(x[i]))) if greater else 0.0)
        a[i] = int(greater) + count(i32(i))
    return [y, r, a]


@pytest.mark.parametrize("lanes", [False, True], ids=["threads", "lanes"])
@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_values_are_those_of_numba_to_the_last_bit(
    compiler: str, lanes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wp.config, "compiler", compiler)
    several.renew()
    args = several_arguments(37)
    run(several, 37, args, lanes=lanes)
    for found, expected in zip(args[1:], by_hand(floats(37)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_plain_python_calls_the_same() -> None:
    args, others = several_arguments(), several_arguments()
    run(several, 6, args)
    run(several, 6, others, interpreted=True)
    for one, other in zip(args, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_twin_computes_in_float64_although_functions_return_float32() -> None:
    args = twin(several_arguments())
    x = args[0].copy()
    run(several, 6, args, f64=True)
    n = np.arange(1, 7)
    direct = (n * np.exp(-x * x) + np.sin(3 * x)) * x
    once = 2 * np.exp(-x * x) + np.sin(3 * x) + np.exp(-x * x / 4) + np.sin(1.5 * x)
    np.testing.assert_allclose(args[1], direct + once, rtol=1e-14)


@pytest.mark.slow
def test_gradients_equal_differences() -> None:
    check_gradient(several, 6, several_arguments())


@wp.kernel
def smooth(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bump(x[i], 3)


def test_a_function_that_raises_nothing_runs_in_lanes_and_in_chunks() -> None:
    shown = smooth.source("adjoint")
    assert "# many threads: several at once, in lanes; in chunks on several processors" in shown
    for kind in ("forward", "adjoint"):
        active = frozenset({0, 1}) if kind == "adjoint" else frozenset()
        assert backend.is_in_lanes(smooth._text(Variant(kind, active, lanes=True)))
    size = 1000
    x, seed = floats(size), np.linspace(-1, 1, size, dtype=np.float32)
    found = []
    for lanes in (False, True):
        adjoints = [np.zeros_like(x), seed.copy()]
        run(smooth, size, [x, np.zeros_like(x)], adjoints=adjoints, lanes=lanes)
        found.append(adjoints[0])
    np.testing.assert_array_equal(*found)
    wide = x.astype(float)
    exact = seed * (-6 * wide * np.exp(-wide * wide) + 3 * np.cos(3 * wide))
    np.testing.assert_allclose(found[0], exact, rtol=1e-6, atol=1e-7)


def test_tangents() -> None:
    x, dot = floats(), np.linspace(-1, 1, 6, dtype=np.float32)
    tangents = [dot, np.zeros_like(x)]
    run(smooth, 6, [x, np.zeros_like(x)], tangents=tangents)
    wide = x.astype(float)
    exact = dot * (-6 * wide * np.exp(-wide * wide) + 3 * np.cos(3 * wide))
    np.testing.assert_allclose(tangents[1], exact, rtol=1e-6, atol=1e-7)


@njit
def steep(x):
    return x**1.5 / (1.0 + x * 1000.0)


@njit
def wave(x):
    return math.sin(x)


@njit
def bent(x):
    return max(x, 0.001)


@wp.kernel
def hard(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[3 * i] = steep(x[i])
    y[3 * i + 1] = wave(x[i])
    y[3 * i + 2] = bent(x[i])


@pytest.mark.parametrize("size", [1e-4, 1e-2, 1.0, 1e3, 1e6])
def test_how_good_differences_are_does_not_depend_on_the_size_of_arguments(size: float) -> None:
    x = np.array([size * 1.0625])
    adjoints = [np.zeros(1), np.zeros(3)]
    for place, exact in enumerate(
        (
            1.5 * x**0.5 / (1 + 1000 * x) - 1000 * x**1.5 / (1 + 1000 * x) ** 2,
            np.cos(x),
            (x > 0.001).astype(float),
        )
    ):
        adjoints[0][:] = 0
        adjoints[1][:] = 0
        adjoints[1][place] = 1
        run(hard, 1, [x.copy(), np.zeros(3)], adjoints=adjoints)
        assert abs(adjoints[0][0] - exact[0]) <= 1e-7 * max(abs(exact[0]), 1e-3)


# Gradients of the user's -----------------------------------------------------------------------------------


@njit
def drag(v, k):
    return np.float32(k * v * abs(v))


@njit
def drag_slope(v, k):
    return np.float32(2 * k * abs(v))


@wp.func_grad(drag)
def adj_drag(v: float, k: float, adj_ret: float):
    wp.adjoint[v] += drag_slope(v, k) * adj_ret
    wp.adjoint[k] += v * wp.abs(v) * adj_ret


@wp.kernel
def dragged(v: wp.array(dtype=float), k: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = drag(v[i], k[i]) * v[i]


def test_a_gradient_given_by_func_grad_is_run() -> None:
    check_gradient(dragged, 5, [floats(5) - 1, floats(5), np.zeros(5, np.float32)])
    assert "drag_slope" in dragged.source("adjoint")


@njit
def spring(x):
    return x * x


@wp.func_grad(spring)
def adj_spring(x: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * adj_ret


@wp.kernel
def sprung(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = spring(x[i])


def recorded(kernel: wp.Kernel) -> tuple[wp.Tape, list[wp.array]]:
    x = wp.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    return tape, [x, y]


def test_a_wrong_gradient_is_found() -> None:
    tape, _ = recorded(sprung)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = [found for found in diagnosis.findings if found.rule == "custom-grad"]
    assert finding.severity == "error"
    assert finding.message.startswith(
        "adj_spring, the gradient of spring, is 1.5 times too large for x. In launch 0 (sprung), thread 2, "
        "at x = 3, the derivative by x is 6 and 9 is given; of 3 calls that were checked 3 are off."
    )


NOTE = "numba function bump: derivative by finite differences"


def test_checks_agree_and_say_what_they_rest_on() -> None:
    tape, arrays = recorded(smooth)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert diagnosis.findings == []
    assert NOTE in diagnosis.coverage.notes
    result = wp.autograd.gradcheck(
        smooth, dim=3, inputs=arrays[:1], outputs=arrays[1:], raise_exception=False, show_summary=False
    )
    assert result and NOTE in result.coverage.notes
    whole = wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)
    assert whole and f"launch 0 (smooth): {NOTE}" in whole.coverage.notes


def test_no_second_derivative() -> None:
    x, y = floats(2), np.zeros(2, np.float32)
    arrays = [[np.ones_like(x), np.zeros_like(y)] for _ in range(3)]
    with pytest.raises(wp.KernelTypeError, match="the numba function `bump` has no second derivative"):
        run(smooth, 2, [x, y], adjoints=arrays[0], tangents=arrays[1], adjoint_tangents=arrays[2])


# Errors while a kernel runs ---------------------------------------------------------------------------------


@njit
def ratio(x, y):
    if x < 0.0:
        raise ValueError("negative", 7)
    return np.float32(x / y)


@wp.kernel
def ratios(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = ratio(x[i], x[i] - 2.0)


def test_an_exception_names_the_call_the_thread_and_the_arguments() -> None:
    for values, what, notes in (
        ([1.0, 2.0], "ZeroDivisionError: division by zero", ("x is 2.0", "y is 0.0")),
        ([1.0, -4.0], "ValueError: negative, 7", ("x is -4.0", "y is -6.0")),
    ):
        x, y = wp.array(values, dtype=float), wp.full(2, 5.0, dtype=float)
        with pytest.raises(wp.KernelRaisedError) as caught:
            wp.launch(ratios, dim=2, inputs=[x], outputs=[y])
        line = next(k for k, text in enumerate(linecache.getlines(__file__), 1) if "ratio(x[i]" in text)
        assert str(caught.value) == "\n".join(
            [
                f"kernel `ratios`: the numba function `ratio` raised {what} in thread 1",
                f"  --> {caught.value.span.file}:{line}, in ratios",
                "   |     y[i] = ratio(x[i], x[i] - 2.0)",
                "   |            ^^^^^^^^^^^^^^^^^^^^^^^",
                *(f"  = note: {note}" for note in notes),
                "  = note: nothing of the launch is left: arrays and tape are as they were before it",
                "  = hint: call it only where it returns, or let it return a number there, too",
            ]
        )
        np.testing.assert_array_equal(y.numpy(), [5.0, 5.0])


@pytest.mark.slow
def test_a_kernel_whose_function_may_raise_has_gradients() -> None:
    check_gradient(ratios, 4, [floats(4) + 3, np.zeros(4, np.float32)])


# What is refused --------------------------------------------------------------------------------------------

FUNCTIONS = """
import numba
import numpy as np
from numba import njit

import tapedebug as wp


@njit
def scaled(x, factor=2.0):
    return x * factor

@njit
def ones(x):
    return np.ones(3) * x

@njit
def unknown(x):
    return x.missing

@njit
def says(x):
    print(x)
    return x

@njit
def kinds(x):
    return x

@njit(parallel=True)
def fast(x):
    return x

@numba.jit(forceobj=True)
def slow(x):
    return x

@numba.vectorize
def each(x):
    return x

@numba.njit
def any_number(*x):
    return 0


@wp.kernel
def k(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), h: wp.array(dtype=wp.float16)):
    i = wp.tid()
    """

REFUSED = {
    "scaled(x)": (
        "`x` of the numba function `scaled` takes a number; got the array `x`",
        "pass its elements: x[i]; or write `scaled` as a @wp.func",
    ),
    "scaled(p[i])": (
        "`x` of the numba function `scaled` takes a number; got vec3",
        "pass its components: p[i][0], …",
    ),
    "scaled(h[i])": (
        "`x` of the numba function `scaled` takes a number that Numba has on processors; got float16",
        "convert it: wp.float32(h[i])",
    ),
    "scaled(x[i], z=1.0)": (
        "the numba function `scaled(x, factor=2.0)` does not take these arguments: got an unexpected keyword "
        "argument 'z'",
        "pass what it takes",
    ),
    "ones(x[i])": (
        "the numba function `ones`, called with (float32), returns array(float64, 1d, C), which kernels "
        "cannot take",
        "return a number, or a tuple of numbers",
    ),
    "unknown(x[i])": (
        "the numba function `unknown`, called with (float32), is refused by Numba: Unknown attribute "
        "'missing' of type float32 (line 19)",
        "call it from Python with such values: Numba says more there",
    ),
    "says(x[i])": (
        "the numba function `says`, called with (float32), needs Python while it runs: it prints, raises a "
        "message made of values, or uses objmode",
        "leave that out: kernels run without the interpreter, and can print what the function returns",
    ),
    "fast(x[i])": (
        "`fast` is compiled with parallel=True, and a kernel runs in threads of its own",
        "leave parallel=True out",
    ),
    "slow(x[i])": (
        "`slow` may run in object mode, which needs the interpreter",
        "decorate `slow` with @numba.njit",
    ),
    "each(x[i])": (
        "`each` is made with @numba.vectorize, which a kernel cannot call",
        "decorate a function of numbers with @numba.njit, and call that",
    ),
    "any_number(x[i])": (
        "the numba function `any_number` takes any number of arguments (`*x`)",
        "let it take each argument by name",
    ),
    "scaled(x[i])": ("`x` holds float32; got float64", "convert the value with float(…)"),
}
MARKED = {
    "scaled(x)": "x",
    "scaled(p[i])": "p[i]",
    "scaled(h[i])": "h[i]",
    "fast(x[i])": "fast",
    "slow(x[i])": "slow",
    "each(x[i])": "each",
}


def module_of(folder: Path, source: str, name: str = "program") -> Any:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("call", REFUSED)
def test_refused(call: str, tmp_path: Path) -> None:
    module = module_of(tmp_path, f"{FUNCTIONS}x[i] = {call}\n")
    with pytest.raises(wp.KernelTypeError) as caught:
        _ = module.k.analysis
    message, hint = REFUSED[call]
    marked = MARKED.get(call, call)
    text = f"    x[i] = {call}"
    start = text.index(marked, text.index("(") if marked in ("x", "p[i]", "h[i]") else text.index("="))
    line = len(FUNCTIONS.splitlines())
    assert str(caught.value).splitlines() == [
        f"kernel `k`: {message}",
        f"  --> {tmp_path / 'program.py'}:{line}, in k",
        f"   | {text}",
        f"   | {' ' * start}{'^' * len(marked)}",
        f"  = hint: {hint}",
    ]


def test_a_replay_is_refused() -> None:
    with pytest.raises(wp.KernelTypeError, match="`spring` is a numba function, and cannot have a replay"):
        wp.func_replay(spring)


# The cache --------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import numba
import numpy as np
import tapedebug as wp
from tapedebug.compiler import numba_versions

FACTOR = {factor}

@numba.njit
def inner(x):
    found = np.zeros(2)  # memory that only Numba's runtime has
    found[1] = x * FACTOR
    return found[1]

@numba.njit
def outer(x):
    return np.float32(inner(x) {operator} 1.0)

@wp.kernel
def k(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = outer(x[i])

def forbidden(*args):
    print("compiled")
    return compiled(*args)

compiled = numba_versions.NumbaVersion._compiled
numba_versions.NumbaVersion._compiled = forbidden
x = wp.array([2.0], dtype=float, requires_grad=True)
y = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(k, dim=1, inputs=[x], outputs=[y])
tape.backward(grads={{y: wp.ones(1, dtype=float)}})
print(y.numpy()[0], x.grad.numpy()[0], outer.nopython_signatures)
"""


def test_a_second_process_compiles_nothing_and_a_changed_function_is_compiled_anew(tmp_path: Path) -> None:
    path, cache = tmp_path / "program.py", tmp_path / "cache"
    script = f"import runpy; runpy.run_path({str(path)!r}, run_name='program')"

    def ran(factor: float, operator: str) -> list[str]:
        path.write_text(PROGRAM.format(factor=factor, operator=operator), encoding="utf-8")
        done = run_python(script, cache=cache)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    *compiled, result = ran(3.0, "+")
    assert compiled and result.startswith("7.0 3.0 ")
    assert ran(3.0, "+") == ["7.0 3.0 []"]
    for factor, operator, expected in ((4.0, "+", "9.0 4.0 "), (4.0, "-", "7.0 4.0 ")):
        *compiled, result = ran(factor, operator)
        assert compiled and result.startswith(expected)


def test_what_no_other_process_can_know_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))

    @numba.extending.register_jitable
    def odd(x):
        return x + 1.0

    @njit
    def calls_odd(x):
        return np.float32(odd(x))

    @wp.kernel
    def strange(x: wp.array(dtype=float)):
        x[0] = calls_odd(x[0])

    x = np.ones(1, np.float32)
    run(strange, 1, [x])
    assert x[0] == 2.0
    assert not [*tmp_path.glob("*.o"), *tmp_path.glob("*.njit")]


def multiplied(factor: float) -> Any:
    @njit
    def product(x):
        return np.float32(x * factor)

    @wp.kernel
    def k(x: wp.array(dtype=float)):
        x[0] = product(x[0])

    return k


def test_a_function_of_the_same_name_with_another_closure_is_another() -> None:
    for factor in (2.0, 3.0):
        x = np.full(1, 5.0, np.float32)
        run(multiplied(factor), 1, [x])
        assert x[0] == 5.0 * factor


# Elsewhere in kernels ---------------------------------------------------------------------------------------


@wp.kernel
def generic(x: wp.array(dtype=wp.Any)):
    i = wp.tid()
    x[i] = x.dtype(helper(x[i])) + x.dtype(wp.static(float(helper(2.0))))


def test_in_generic_kernels_and_in_static() -> None:
    for dtype, exact in ((wp.float32, 9.25 + 0.5 - 0.25 + 4.5), (wp.float64, 14.0)):
        x = wp.array([3.0], dtype=dtype)
        wp.launch(generic, dim=1, inputs=[x])
        assert x.numpy()[0] == exact


@njit
def nothing(x):
    pass


@wp.kernel
def statement(x: wp.array(dtype=float)):
    i = wp.tid()
    nothing(x[i])
    bump(x[i], 1)
    x[i] = x[i] * 2.0


def test_as_a_statement() -> None:
    x = wp.array([3.0], dtype=float)
    wp.launch(statement, dim=1, inputs=[x])
    assert x.numpy()[0] == 6.0
