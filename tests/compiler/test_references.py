"""Parameters by reference: `ref[float]`."""

# ruff: noqa: F841

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import check_gradient, check_tangent, run

pytestmark = pytest.mark.unoptimized


@wp.struct
class Part:
    weight: float
    place: wp.vec3


@wp.struct
class Body:
    part: Part
    speed: float


@wp.func
def scale(x: wp.ref[float], factor: float):
    x = x * factor


@wp.func
def twice(x: wp.ref[float], factor: float) -> float:
    scale(x, factor)
    scale(x, factor)
    return x + 1.0


@wp.func
def exchange(x: wp.ref[float], y: wp.ref[float]):
    x, y = y, x * 2.0


@wp.func
def clamp(x: wp.ref[float], limit: float):
    if x < limit:
        return
    x = limit * limit
    x += 0.5


@wp.func
def push(v: wp.ref[wp.vec3], by: float):
    v[1] = v[1] * by
    v.z += by


@wp.func
def heavier(body: wp.ref[Body], by: float):
    scale(body.part.weight, by)
    push(body.part.place, by)
    body.speed = body.speed + body.part.weight * by


@wp.func
def grow(x: wp.ref[float], n: int):
    for i in range(n):
        x = x * 1.5 + float(i)


@wp.kernel
def of_variables(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    a = x[i]
    b = twice(a, 3.0)
    exchange(a, b)
    for _ in range(n):
        scale(a, 0.5)
        if a > 2.0:
            scale(b, a)
    clamp(b, x[i] + 1.0)
    grow(a, n)
    y[i] = a * b


@wp.kernel
def of_elements(x: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int], n: int):
    i = wp.tid()
    scale(x[k[i]], v[i].x)
    exchange(x[k[i]], x[i])
    clamp(x[i], 1.2)
    grow(x[i], n)
    push(v[i], x[k[i]])
    scale(v[i].y, x[i])
    scale(v[i][2], 2.0)


@wp.kernel
def of_structs(x: wp.array[float], w: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    body = Body()
    body.part.weight = x[i]
    body.speed = w[i]
    heavier(body, w[i])
    scale(body.part.place.z, x[i])
    m = wp.mat22(x[i], 1.0, 2.0, w[i])
    scale(m[1, 1], x[i])
    y[i] = body.part.weight * body.part.place.z + body.speed + m[1, 1] * m[0, 0]


def numbers(*shape: int, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(0.4, 1.6, shape).astype(np.float32)


def test_values_of_variables_and_elements() -> None:
    y = np.zeros(1, np.float32)
    run(of_variables, 1, [np.array([0.5], np.float32), 0, y])
    # 0.5 becomes 4.5, and 5.5 is returned; exchanged: 5.5 and 9, of which 1.5² + 0.5 is left.
    assert y.tolist() == [5.5 * 2.75]
    x = np.array([3.0, 5.0], np.float32)

    @wp.kernel
    def swap(x: wp.array[float], i: int, j: int):
        exchange(x[i], x[j])

    run(swap, 1, [x, 0, 1])
    assert x.tolist() == [5.0, 6.0]
    run(swap, 1, [x, 0, 0])  # both are one element: what is assigned last stays
    assert x.tolist() == [10.0, 6.0]


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (of_variables, [numbers(4), 2, numbers(4)]),
        (of_elements, [numbers(4), numbers(4, 3, seed=4), np.array([0, 2, 1, 3], np.int32), 3]),
        (of_structs, [numbers(4), numbers(4, seed=5), numbers(4)]),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
def test_derivatives(kernel: Any, args: list[Any]) -> None:
    check_gradient(kernel, 4, args)
    check_tangent(kernel, 4, args)


@pytest.mark.parametrize("how", ["lanes", "interpreted"])
@pytest.mark.parametrize("kernel", [of_variables, of_elements], ids=lambda kernel: kernel.key)
def test_targets_agree(kernel: Any, how: str) -> None:
    more = [np.arange(16, dtype=np.int32), 3] if kernel is of_elements else []
    args = [numbers(16), *([numbers(16, 3, seed=4), *more] if more else [2, numbers(16)])]
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
    run(kernel, 16, args)
    run(kernel, 16, copies, **{how: True})
    for one, two in zip(args, copies, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-6)


def test_elements_of_structs_and_of_indexed_arrays() -> None:
    @wp.kernel
    def k(bodies: wp.array[Body], x: wp.indexedarray[float]):
        i = wp.tid()
        heavier(bodies[i], 2.0)
        scale(x[i], 3.0)

    bodies = wp.array([Body(Part(2.0, wp.vec3(1.0)), 1.0)], dtype=Body, requires_grad=True)
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(k, 1, [bodies, wp.indexedarray(x, [wp.array([1], dtype=int)])])
    tape.backward(grads={bodies: wp.array([Body(Part(0.0, wp.vec3(0.0)), 1.0)], dtype=Body)})
    found = bodies.numpy()[0]
    assert found["part"]["weight"] == 4.0 and found["part"]["place"].tolist() == [1.0, 2.0, 3.0]
    assert found["speed"] == 9.0 and x.numpy().tolist() == [1.0, 6.0]
    assert bodies.grad.numpy()[0]["part"]["weight"] == 4.0  # the speed gains 2 · (2 · weight)


@wp.func_native("x = x * y; y = 2.0f * y;", "adj_y = 2.0f * adj_y + adj_x * before; adj_x = adj_x * factor;")
def multiply(x: wp.ref[float], y: wp.ref[float], before: float, factor: float): ...


@wp.kernel
def native_kernel(x: wp.array[float], v: wp.array[wp.vec3]):
    i = wp.tid()
    y = x[i] * 3.0
    multiply(v[i].y, y, v[i].y, y)
    x[i] = y * v[i].x


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler")
def test_of_native_functions() -> None:
    args = [numbers(3), numbers(3, 3, seed=4)]
    again = [a.copy() for a in args]
    run(native_kernel, 3, again)
    np.testing.assert_allclose(again[1][:, 1], args[1][:, 1] * 3 * args[0], rtol=1e-6)
    np.testing.assert_allclose(again[0], 6 * args[0] * args[1][:, 0], rtol=1e-6)
    check_gradient(native_kernel, 3, args)


@wp.func
def whole(x: wp.ref[float]):
    x = 2


@wp.func
def copied(x: wp.ref[float], all: wp.array[float]):
    x = all[0]


@wp.func
def made() -> Body:
    return Body()


def literal(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    scale(2.0, 1.0)


def sum_of_two(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    scale(a[0] + a[1], 1.0)


def field_of_a_result(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    scale(made().speed, 1.0)


def integer(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    scale(k[0], 1.0)


def same_variable(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    b = a[0]
    exchange(b, b)


def components(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    exchange(v[0][k[0]], v[0][k[1]])


def index_with_effects(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    scale(a[wp.atomic_add(k, 0, 1)], 1.0)


def other_type(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    b = a[0]
    whole(b)


def derivative(a: wp.array[float], v: wp.array[wp.vec3], k: wp.array[int]):
    b = a[0]
    a[0] = wp.grad(twice)(b, 2.0)[0]


WRONG: dict[Callable[..., Any], str] = {
    literal: "`x` of scale() is passed by reference; `2.0` is no variable",
    sum_of_two: "`a[0] + a[1]` is no variable, element of an array, or part of one",
    field_of_a_result: "`made().speed` is no variable",
    integer: "`x` of scale() is float32; got int32",
    same_variable: "exchange() is passed `b` and `b` by reference, which may be the same",
    components: "`v[0][k[0]]` and `v[0][k[1]]` by reference, which may be the same",
    index_with_effects: "`wp.atomic_add(k, 0, 1)` would be called twice",
    other_type: "`x` is float32; got int32",
    derivative: "grad(twice) has no value: twice() changes what it is passed by reference",
}


@pytest.mark.parametrize("python", WRONG, ids=lambda python: python.__name__)
def test_wrong_arguments(python: Callable[..., Any]) -> None:
    with pytest.raises(wp.KernelError) as error:
        wp.launch(wp.kernel(python), 1, [wp.zeros(2), wp.zeros(2, dtype=wp.vec3), wp.zeros(2, dtype=int)])
    assert WRONG[python] in str(error.value)


def test_an_array_that_is_passed_beside_a_part_of_its_elements() -> None:
    @wp.func
    def first(x: wp.ref[float], all: wp.array[wp.vec3]):
        x = all[0].y

    @wp.kernel
    def k(v: wp.array[wp.vec3], a: wp.array[float]):
        copied(a[1], a)  # written in place: `all` shows it
        first(v[0].x, v)

    with pytest.raises(wp.KernelError, match=r"`v\[0\].x` by reference and, as `all`, the array"):
        wp.launch(k, 1, [wp.zeros(2, dtype=wp.vec3), wp.zeros(2)])


def test_references_belong_to_functions_of_kernels() -> None:
    with pytest.raises(wp.TapedebugError, match="changes variables of its caller"):
        scale(2.0, 3.0)

    @wp.kernel
    def k(x: wp.ref[float]):
        pass

    with pytest.raises(wp.KernelError, match="only parameters of a @func are references"):
        wp.launch(k, 1, [2.0])
