"""Versions of functions, and kernels and functions that take families of types."""

# ruff: noqa: F811
from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, check_tangent, run

# Versions of functions --------------------------------------------------------------------------------------


@wp.func
def size(a: float):
    return wp.abs(a)


@wp.func
def size(a: wp.vec2):
    return wp.length(a) * 10.0


@wp.func
def size(a: wp.types.vector(length=Any, dtype=wp.Float), scale: float = 2.0):
    return a[0] * a[-1] * type(a[0])(scale)


@wp.func
def size(a: wp.array(dtype=wp.Float)):
    return a[0] + a.dtype(a.shape[0])


@wp.func
def size(a: wp.array2d(dtype=Any), i: int):
    return a[i, 1]


@wp.func
def size():
    return 1000.0


@wp.func
def size(a: wp.Int):
    return float(a) * 0.25


@wp.kernel
def sizes(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    u = (
        size(x[i])
        + size(wp.vec2(x[i], 4.0))
        + size(wp.vec3(x[i], 1.0, 3.0))
        + size(m, i)
        + size(m[i])
        + size()
    )
    v = size(wp.vec4(1.0, 0.0, 0.0, x[i]), scale=-1.0) + float(
        size(wp.types.vector(2, wp.float64)(wp.float64(3.0)))
    )
    y[i] = u * v + size(wp.uint8(12)) + size(i)


def test_a_call_takes_the_version_of_its_types():
    x, m, y = (np.random.default_rng(1).uniform(0.5, 1, s).astype(np.float32) for s in (3, (3, 2), 3))
    run(sizes, 3, [x, m, y])
    u = x + 10 * np.hypot(x, 4) + x * 3 * 2 + m[:, 1] + m[:, 0] + 2 + 1000
    np.testing.assert_allclose(y, u * (-x + 18) + 3 + 0.25 * np.arange(3), rtol=1e-5)
    check_gradient(sizes, 3, [x, m, y], tolerance=1e-6)
    check_tangent(sizes, 3, [x, m, y])


def test_versions_are_in_the_order_of_their_definition():
    assert [f.declaration for f in size.overloads][:3] == [
        "size(a: float32)",
        "size(a: vec2)",
        "size(a: vector(length=Any, dtype=Float), scale: float32)",
    ]


@wp.func
def twice(a: float):
    return a * 2.0


def test_a_script_calls_the_version_of_its_values():
    @wp.func
    def kind(a: float):
        return "number"

    @wp.func
    def kind(a: wp.vec3):
        return "vector"

    @wp.func
    def kind(a, b):
        return "two"

    assert [kind(1.0), kind(wp.vec3()), kind(1, 2), kind(None, b=0)] == ["number", "vector", "two", "two"]


def test_a_factory_does_not_add_versions_to_what_it_made_before():
    def make(factor):
        @wp.func
        def scaled(a: float):
            return a * factor

        return scaled

    one, two = make(2.0), make(3.0)
    assert len(one.overloads) == len(two.overloads) == 1

    @wp.kernel
    def both(y: wp.array(dtype=float)):
        y[0] = one(1.0) + 10.0 * two(1.0)

    y = np.zeros(1, np.float32)
    run(both, 1, [y])
    assert y[0] == 32.0


@wp.func
def halved(a: float):
    return a * 0.5


@wp.func
def halved(a: wp.vec2):
    return a * 0.5


@wp.func_grad(halved)
def adj_halved(a: wp.vec2, adj_ret: wp.vec2):
    wp.adjoint[a] += adj_ret * 100.0


def test_a_gradient_belongs_to_the_version_with_its_parameters():
    @wp.kernel
    def halves(x: wp.array(dtype=float), p: wp.array(dtype=wp.vec2)):
        i = wp.tid()
        p[i] = halved(p[i]) * halved(x[i])

    x, p = np.full(1, 2.0, np.float32), np.ones((1, 2), np.float32)
    dx, dp = np.zeros_like(x), np.ones_like(p)
    run(halves, 1, [x, p], adjoints=[dx, dp])
    assert (dx.tolist(), dp.tolist()) == ([0.5], [[100.0, 100.0]])


# Notebooks --------------------------------------------------------------------------------------------------

FUNCTION = """
@wp.func
def f(a: {kind}):
    return a * {factor}
"""
KERNEL = """
@wp.kernel
def k(y: wp.array(dtype=float)):
    y[0] = f(1.0)
"""


def cell(number: int, text: str, names: dict[str, Any]) -> None:
    """Run a notebook's cell in its namespace."""
    name = f"/tmp/ipykernel_2/{number}.py"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    exec(compile(text, name, "exec"), names)


def test_a_function_that_a_cell_defines_again_is_used_from_then_on():
    names: dict[str, Any] = {"wp": wp}
    cell(1, FUNCTION.format(kind="float", factor="2.0"), names)
    cell(2, KERNEL, names)
    found = []
    for number, factor in enumerate(("2.0", "3.0")):
        cell(3 + number, FUNCTION.format(kind="float", factor=factor), names)
        y = wp.zeros(1, dtype=float)
        wp.launch(names["k"], 1, inputs=[y])
        found.append(float(y.numpy()[0]))
    assert found == [2.0, 3.0]
    # other types in another cell: the function is another one, and no version of it
    cell(5, FUNCTION.format(kind="wp.vec3", factor="3.0"), names)
    with pytest.raises(wp.KernelTypeError, match=r"`a` of f\(\) is vec3; got float32"):
        wp.launch(names["k"], 1, inputs=[y])


def test_a_recorded_launch_keeps_the_function_that_it_ran():
    names: dict[str, Any] = {"wp": wp}
    cell(11, FUNCTION.format(kind="float", factor="2.0"), names)
    cell(
        12,
        KERNEL.replace(
            "y: wp.array(dtype=float)", "x: wp.array(dtype=float), y: wp.array(dtype=float)"
        ).replace("f(1.0)", "f(x[0]) * x[0]"),
        names,
    )
    x, y = wp.array([3.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(names["k"], 1, inputs=[x, y])
    cell(13, FUNCTION.format(kind="float", factor="-1.0"), names)
    tape.backward(y)
    assert x.grad.numpy()[0] == 2 * 2 * 3


# Kernels that take families of types ------------------------------------------------------------------------


@wp.func
def plus(a: Any, b: Any = 1):
    return a + type(a)(b)


@wp.kernel
def scale(x: wp.array(dtype=Any), y: wp.array(dtype=Any), s: wp.Float, n: int):
    i = wp.tid()
    y[i] = plus(x[i] * s, b=n) * x[i] if n > 1 else plus(x[i])


def test_a_launch_chooses_the_version():
    for kind, scalar in ((float, wp.float32), (wp.float64, wp.float64)):
        x = wp.array([1.0, 2.0], dtype=kind, requires_grad=True)
        y = wp.zeros(2, dtype=kind, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(scale, 2, inputs=[x, y, scalar(3.0), 2])
        tape.backward(grads={y: wp.ones(2, dtype=kind)})
        assert y.numpy().tolist() == [5.0, 16.0]
        assert x.grad.numpy().tolist() == [6 + 2, 12 + 2]
        (record,) = tape.records
        kernel = record.plan.kernel
        assert kernel.generic is scale
        assert kernel is scale.instance(
            (wp.types.ArrayType(kind), wp.types.ArrayType(kind), scalar, wp.int32)
        )
        assert kernel.key == "scale"
        assert wp.autograd.gradcheck(scale, dim=2, inputs=[x, y, scalar(3.0), 2], show_summary=False)
        assert wp.autograd.gradcheck_tape(tape, show_summary=False)
        shadow = tape.replay(dtype=np.float64)
        shadow.forward()
        np.testing.assert_allclose(shadow.values(y), [5.0, 16.0])
        trace = tape.trace().to_json()
        (shown,) = trace["kernels"]
        assert shown["params"][0]["type"] == f"array(dtype={kernel.types[0].dtype.__name__})"
        assert wp.diagnose(tape)
    assert len(scale.instances) == 2


def test_dimensions_of_arrays_in_brackets():
    assert wp.array[float, Literal[2]] == wp.array2d[float] == wp.array(dtype=float, ndim=2)
    assert wp.indexedarray[wp.vec3, Literal[3]].ndim == 3
    assert get_args(wp.array[float] | None) == (wp.array[float], type(None))
    with pytest.raises(TypeError, match="the number of dimensions as Literal"):
        wp.array[float, "two"]


def test_an_array_of_any_number_of_dimensions():
    @wp.kernel
    def corner(a: wp.array[float, Any], i: int, out: wp.array[float]):
        out[0] = float(a.shape[0])

    for shape in ((3,), (5, 2), (4, 2, 2)):
        out = wp.zeros(1)
        wp.launch(corner, 1, [wp.zeros(shape), 0, out])
        assert out.numpy()[0] == shape[0]
    with pytest.raises(wp.KernelTypeError, match="can have any number of dimensions"):

        @wp.struct
        class Holder:
            a: wp.array[float, Any]


@pytest.mark.unoptimized
def test_types_of_arrays_and_sizes_of_values():
    @wp.kernel
    def k(a: wp.array(dtype=Any), out: wp.array(dtype=float)) -> type(None):
        v = type(a).dtype(a.dtype.dtype(2.0))
        out[0] = float(v[0]) * float(v.length)

    out = wp.zeros(1)
    wp.launch(k, 1, [wp.zeros(1, dtype=wp.vec3d), out])
    assert out.numpy().tolist() == [6.0]


def test_versions_of_vectors_and_of_matrices_of_any_size():
    @wp.kernel
    def sums(x: wp.array(dtype=wp.types.matrix(shape=(Any, 2), dtype=wp.Float)), y: wp.array(dtype=Any)):
        i = wp.tid()
        for r in range(len(x[i])):
            y[i] += x[i][r] * x[i].dtype(r)

    for rows in (1, 3):
        values = np.arange(2 * rows * 2, dtype=np.float32).reshape(2, rows, 2)
        x, y = wp.array(values, dtype=wp.types.matrix((rows, 2), float)), wp.zeros(2, dtype=wp.vec2)
        wp.launch(sums, 2, inputs=[x, y])
        np.testing.assert_allclose(y.numpy(), (values * np.arange(rows)[:, None]).sum(1))


def test_numpy_arrays_and_structs_choose_versions():
    @wp.struct
    class Pair:
        a: float
        b: wp.array(dtype=float)

    @wp.kernel
    def filled(x: wp.array(dtype=Any), pair: Any):
        i = wp.tid()
        x[i] = x.dtype(pair.a * pair.b[i])

    for dtype in (np.float64, np.int32):
        x, pair = np.zeros(2, dtype), Pair()
        pair.a, pair.b = 2.0, wp.array([1.0, 3.0], dtype=float)
        wp.launch(filled, 2, inputs=[x, pair])
        wp.launch(filled, 2, inputs=[x, pair])
        assert x.tolist() == [2, 6]


def test_overload_makes_versions_before_a_launch():
    @wp.kernel
    def moved(x: wp.array(dtype=Any), by: Any):
        x[wp.tid()] += by

    one = wp.overload(moved, [wp.array(dtype=float), float])
    two = wp.overload(moved, {"x": wp.array(dtype=wp.vec3), "by": wp.vec3})

    @wp.overload
    def moved(x: wp.array(dtype=wp.float64), by: wp.float64): ...

    assert repr(one) == (
        "<kernel test_overload_makes_versions_before_a_launch__moved(x: array(dtype=float32), by: float32)>"
    )
    assert len(moved.instances) == 3
    p = wp.zeros(1, dtype=wp.vec3)
    wp.launch(moved, 1, inputs=[p, wp.vec3(1.0, 2.0, 3.0)])
    wp.launch(two, 1, inputs=[p, (1.0, 1.0, 1.0)])  # the type is known: a tuple will do
    assert p.numpy().tolist() == [[2.0, 3.0, 4.0]]
    assert len(moved.instances) == 3
    assert "x_v[" in one.source()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda k, a: (a,), "overload() decorates a function with the name of a generic kernel"),
        (lambda k, a: (k, [float]), "kernel `k`: overload() takes 2 types, one for each parameter; got 1"),
        (lambda k, a: (k, {"y": float}), "kernel `k`: overload() was given there is no parameter `y`"),
        (lambda k, a: (k, {}), "kernel `k`: overload() was given no type for `x`"),
        (lambda k, a: (k, [str, float]), "kernel `k`: <class 'str'> is not a type that `x` can have"),
        (lambda k, a: (scale.instance(SCALE), []), "kernel `scale` takes one type for each parameter"),
    ],
    ids=range(6),
)
def test_wrong_versions(arguments: Callable[..., Any], message: str):
    @wp.kernel
    def k(x: wp.array(dtype=Any), s: float):
        x[0] = x.dtype(s)

    with pytest.raises(wp.KernelTypeError) as info:
        wp.overload(*arguments(k, wp.zeros(1, dtype=float)))
    assert str(info.value).startswith(message)


SCALE = (wp.types.ArrayType(float), wp.types.ArrayType(float), wp.float32, wp.int32)


def test_arguments_that_fit_no_version():
    x, ints = wp.zeros(2, dtype=float), wp.zeros(2, dtype=int)
    wrong = [
        (
            [x, x],
            "it takes 4 arguments (x: array(dtype=Any), y: array(dtype=Any), s: Float, n: int32); got 2",
        ),
        ([x, x, 1, 1], "argument 's' (number 3) must be Float; got 1 (int)"),
        (
            [x, wp.zeros((2, 2), dtype=float), 1.0, 1],
            "must be array(dtype=Any); got array(dtype=float32, ndim=2)",
        ),
        ([x, None, 1.0, 1], "argument 'y' (number 2) must be array(dtype=Any); got None (NoneType)"),
        ([x, x, 1.0, 1.5], "argument 'n' (number 4) must be int32; got 1.5 (float)"),
    ]
    for args, message in wrong:
        with pytest.raises(wp.LaunchError) as info:
            wp.launch(scale, 2, inputs=args)
        assert message in str(info.value)
    with pytest.raises(wp.KernelTypeError) as error:
        wp.launch(scale, 2, inputs=[ints, ints, 1.0, 1])
    assert "in its version for x: array(dtype=int32), y: array(dtype=int32), s: float32, n: int32" in str(
        error.value
    )


# Functions as values ----------------------------------------------------------------------------------------


@wp.func
def applied(f: Callable, x: Any):
    return f(x) * f(x)


def test_functions_are_passed_and_captured():
    def make(f, g):
        @wp.kernel
        def composed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
            i = wp.tid()
            h = g
            y[i] = applied(f, x[i]) + applied(wp.sin, x[i]) + h(x[i])

        return composed

    for f, g, expected in (
        (twice, wp.cos, lambda x: 4 * x * x + np.cos(x)),
        (wp.exp, twice, lambda x: np.exp(2 * x) + 2 * x),
    ):
        x, y = np.array([0.5, 1.5], np.float32), np.zeros(2, np.float32)
        kernel = make(f, g)
        run(kernel, 2, [x, y])
        np.testing.assert_allclose(y, expected(x) + np.sin(x) ** 2, rtol=1e-6)
        check_gradient(kernel, 2, [x, y])


class Model:
    gain = 3.0

    @staticmethod
    @wp.func
    def act(a: float):
        return a * Model.gain

    @wp.kernel
    def step(x: wp.array(dtype=float)):
        x[wp.tid()] = Model.act(x[wp.tid()])


def test_functions_and_kernels_of_classes():
    x = np.ones(2, np.float32)
    run(Model.step, 2, [x])
    assert x.tolist() == [3.0, 3.0]
    assert Model.act(2.0) == 6.0
