"""`grad(f)` in kernels: against differences of the float64 twin, and differentiated in turn."""

from __future__ import annotations

import importlib.util
import inspect
import re

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, run, twin

pytestmark = pytest.mark.unoptimized

GRADIENT = wp.grad(wp.atan2)


@wp.func
def square(x: float):
    return x * x


@wp.func
def polynomial(x: float, n: int):
    total = float(0.0)
    power = float(1.0)
    for k in range(n):
        total += power * float(k + 1)
        power *= x
    return total


@wp.func
def nested(x: float, n: int):
    total = x
    for i in range(n):
        for j in range(i + 1):
            if j == 1:
                continue
            total += wp.sin(total * x) * 0.25
            if total > 3.0:
                break
    return total


@wp.func
def root(x: float, v: wp.vec3) -> float:
    y = float(1.0)
    while wp.abs(y * y - x) > 1.0e-4:
        y = 0.5 * (y + x / y)
    if y > 1.2:
        y = wp.sin(y) * v.x
    return y * wp.dot(v, v)


@wp.func
def several(x: float, v: wp.vec3):
    w = wp.normalize(v) * x
    return w.x * x, wp.cross(w, v), 3


@wp.func
def early(x: float) -> float:
    if x < 1.0:
        return x * x * x
    for _k in range(4):
        x = x * 1.25 + 0.5 * wp.sin(x)
        if x > 4.0:
            return x * x
    return wp.cos(x)


@wp.func
def turned(q: wp.quat, v: wp.vec3):
    return wp.quat_rotate(wp.normalize(q), v)


@wp.func
def own(x: float):
    return wp.max(x - 1.0, 0.0) * x


@wp.func_grad(own)
def adj_own(x: float, adj_ret: float):
    wp.adjoint[x] += 10.0 * x * x * adj_ret


@wp.func
def through_own(x: float, n: int):
    total = x
    for _k in range(n):
        if total < 3.0:
            total += own(wp.sin(total)) * 0.1
    return own(total) * x


@wp.func
def element(a: wp.array(dtype=float), i: int, x: float):
    return a[i] * x * x + a[0]


@wp.func
def slope(x: float, v: wp.vec3):
    by_x, by_v = wp.grad(root)(x, v)
    return by_x * x + wp.dot(by_v, wp.vec3(0.5, x, 2.0))


@wp.kernel
def k_square(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = square(x[i])
    g = wp.grad(square)
    d[i] = g(x[i])


@wp.kernel
def k_polynomial(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = polynomial(x[i], i)
    by_x, by_n = wp.grad(polynomial)(x[i], i)
    d[i] = by_x + float(by_n)


@wp.kernel
def k_nested(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = nested(x[i], 4)
    by_x, _ = wp.grad(nested)(n=4, x=x[i])
    d[i] = by_x


@wp.kernel
def k_root(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = root(x[i], wp.vec3(x[i], 0.5, x[i] * x[i]))
    by_x, by_v = wp.grad(root)(x[i], wp.vec3(x[i], 0.5, x[i] * x[i]))
    d[i] = by_x + wp.dot(by_v, wp.vec3(1.0, 0.0, 2.0 * x[i]))


@wp.kernel
def k_several(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.vec3(0.5, x[i], -0.25)
    a, b, _ = several(x[i], v)
    f[i] = a + b.x + b.y + b.z
    by_x, by_v = wp.grad(several)(x[i], v)
    d[i] = by_x + by_v.y


@wp.kernel
def k_early(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = early(x[i])
    for _ in range(1):
        d[i] = wp.grad(early)(x[i])


@wp.kernel
def k_turned(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    q = wp.quat(0.1, x[i], -0.5, 0.75)
    v = wp.vec3(x[i], 1.0, 2.0)
    w = turned(q, v)
    f[i] = w.x + w.y + w.z
    by_q, by_v = wp.grad(turned)(q, v)
    d[i] = by_q.y + by_v.x


@wp.kernel
def k_element(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = element(x, 1, 0.5 * x[i]) if i > 1 else x[i] * 0.0
    if i > 1:
        _, by_i, by_x = wp.grad(element)(x, 1, 0.5 * x[i])
        d[i] = 0.5 * by_x + float(by_i)


@wp.kernel
def k_slope(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = slope(x[i], wp.vec3(0.5, x[i], 1.0))
    by_x, by_v = wp.grad(slope)(x[i], wp.vec3(0.5, x[i], 1.0))
    d[i] = by_x + by_v[1]


@wp.kernel
def k_operations(x: wp.array(dtype=float), f: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    f[i] = wp.atan2(x[i], 2.0) + abs(x[i]) + wp.length(wp.vec2(x[i], 1.0)) + pow(x[i], 3.0)
    by_y, by_x = GRADIENT(x[i], 2.0)
    by_base, by_power = wp.grad(pow)(x[i], 3.0)
    d[i] = by_y + 0.0 * (by_x + by_power) + wp.grad(abs)(x[i]) + wp.grad(wp.length)(wp.vec2(x[i], 1.0)).x
    d[i] += by_base


KERNELS = [
    k_square,
    k_polynomial,
    k_nested,
    k_root,
    k_several,
    k_early,
    k_turned,
    k_slope,
    k_operations,
]


def arguments(seed: int = 3, n: int = 6) -> list[np.ndarray]:
    x = np.random.default_rng(seed).uniform(0.3, 2.2, n).astype(np.float32)
    return [x, np.zeros(n, np.float32), np.zeros(n, np.float32)]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.key)
def test_gradient_equals_differences(kernel):
    step = 1e-5

    def values(shift: float) -> np.ndarray:
        args = twin(arguments())
        args[0] += shift
        run(kernel, 6, args, f64=True)
        return args[1]

    args = twin(arguments())
    run(kernel, 6, args, f64=True)
    np.testing.assert_allclose(args[2], (values(step) - values(-step)) / (2 * step), rtol=2e-7, atol=2e-7)


@pytest.mark.parametrize("kernel", [*KERNELS, k_element], ids=lambda k: k.key)
def test_kernels_with_gradients_have_right_adjoints(kernel):
    check_gradient(kernel, 6, arguments(), tolerance=1e-6)


def test_arrays_are_constant():
    args = arguments()
    run(k_element, 6, args)
    x = args[0].astype(float)
    np.testing.assert_allclose(args[2][2:], 2 * x[1] * 0.5 * x[2:] * 0.5, rtol=1e-5)


# Gradients of the user's own -------------------------------------------------------------------------------


@wp.kernel
def k_own(x: wp.array(dtype=float), d: wp.array(dtype=float), e: wp.array(dtype=float)):
    i = wp.tid()
    d[i] = wp.grad(own)(x[i])
    e[i] = wp.grad(through_own)(x[i], 0)[0]


def test_a_gradient_of_the_users_own_is_used():
    args = arguments()
    run(k_own, 6, args)
    x = args[0].astype(float)
    np.testing.assert_allclose(args[1], 10 * x * x, rtol=1e-5)
    np.testing.assert_allclose(args[2], np.maximum(x - 1, 0) * x + 10 * x**3, rtol=1e-5)


@wp.kernel
def k_second(x: wp.array(dtype=float), d: wp.array(dtype=float)):
    i = wp.tid()
    d[i] = wp.grad(through_own)(x[i], 0)[0]


@wp.kernel
def k_in_loops(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = through_own(x[i], 3)


@wp.kernel
def k_grad_in_loops(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.grad(through_own)(x[i], 3)[0]


def test_second_derivatives_go_through_gradients_of_the_users_own():
    """d = own(x) + x·adj_own(x): own() again by its gradient, what the gradient computes by its code."""
    x, d = arguments()[:2]
    adjoints = [np.zeros_like(x), np.ones_like(x)]
    run(k_second, 6, [x, d], adjoints=adjoints)
    np.testing.assert_allclose(adjoints[0], 10 * x * x + 30 * x * x, rtol=1e-5)


def test_in_loops_and_branches_it_is_what_an_adjoint_computes():
    x, y = arguments()[:2]
    adjoints = [np.zeros_like(x), np.ones_like(x)]
    run(k_in_loops, 6, [x, y.copy()], adjoints=adjoints)
    run(k_grad_in_loops, 6, [x, y])
    np.testing.assert_allclose(y, adjoints[0], rtol=1e-5)


@wp.func
def safe_root(x: float):
    return wp.sqrt(x)


@wp.func_grad(safe_root)
def adj_safe_root(x: float, adj_ret: float):
    if x > 0.0:
        wp.adjoint[x] += wp.grad(wp.sqrt)(x) * adj_ret


@wp.kernel
def k_safe_root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = safe_root(x[i])


def test_inside_a_gradient_of_the_users_own():
    x = np.array([0.0, 4.0, 0.25], np.float32)
    adjoints = [np.zeros_like(x), np.ones_like(x)]
    run(k_safe_root, 3, [x, np.zeros_like(x)], adjoints=adjoints)
    np.testing.assert_allclose(adjoints[0], [0.0, 0.25, 1.0])


@wp.func_native("return a * a * a;", adj_snippet="adj_a += 3.0f * a * a * adj_ret;")
def native_cube(a: float) -> float: ...


@wp.kernel
def k_native(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.grad(native_cube)(x[i])


def test_of_a_native_function_there_is_a_first_derivative_and_no_second():
    x, y = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)
    run(k_native, 2, [x, y])
    assert y.tolist() == [3.0, 12.0]
    with pytest.raises(wp.KernelTypeError) as info:
        run(k_native, 2, [x, y], adjoints=[np.zeros_like(x), np.ones_like(y)])
    first, *_, hint = str(info.value).splitlines()
    assert first == "the native function `native_cube` has no second derivative"
    assert hint == (
        "  = hint: write it as a @wp.func, or decorate the kernel with @wp.kernel(enable_backward=False)"
    )


# Outside of kernels ----------------------------------------------------------------------------------------


def test_called_outside_a_kernel():
    with pytest.raises(wp.TapedebugError) as info:
        wp.grad(square)(1.0)
    assert str(info.value) == (
        "grad(square) belongs to the kernel language and was called outside a kernel\n"
        "  = hint: call it inside a function decorated with @kernel or @func"
    )


def test_of_what_is_no_function_of_the_language():
    with pytest.raises(wp.KernelTypeError) as info:
        wp.grad(np.sin)
    assert str(info.value) == (
        "grad() takes a function of the kernel language; got 'sin'\n  = hint: decorate it with @wp.func"
    )


# Beside Warp -----------------------------------------------------------------------------------------------


@pytest.mark.peer
def test_the_same_as_warp(tmp_path):
    warp = pytest.importorskip("warp")
    x, f, d = arguments()
    mine = {}
    for kernel in STRAIGHT:
        args = [x, f.copy(), d.copy()]
        run(kernel, 6, args)
        mine[kernel.key] = args[2]
    theirs = _in_warp(warp, tmp_path, x)
    assert theirs.keys() == mine.keys()
    for key, found in theirs.items():
        np.testing.assert_allclose(mine[key], found, rtol=2e-5, atol=2e-6, err_msg=key)


SHARED = (square, several)
STRAIGHT = (k_square, k_several, k_operations)  # Warp reverses loops with carried values wrongly


def _in_warp(warp, folder, x):
    """The same functions and kernels, compiled by Warp."""
    parts = ["import warp as wp", "GRADIENT = wp.grad(wp.atan2)"]
    parts += [inspect.getsource(f.python) for f in SHARED]
    parts += [
        inspect.getsource(k.python).replace(".kernel", ".kernel(enable_backward=False)") for k in STRAIGHT
    ]
    text = re.sub(r"(?<!\.)\b(abs|pow)\b", r"wp.\1", "\n\n".join(parts))
    path = folder / "in_warp.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("in_warp", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    for k in STRAIGHT:
        arrays = [warp.array(x, dtype=float), *(warp.zeros(len(x), dtype=float) for _ in range(2))]
        warp.launch(getattr(module, k.key), dim=len(x), inputs=arrays)
        found[k.key] = arrays[2].numpy()
    return found
