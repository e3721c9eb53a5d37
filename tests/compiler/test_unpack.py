"""Starred arguments, names without `wp.`, members of enumerations, conversions that wrap."""

from __future__ import annotations

import enum

import numpy as np

import tapedebug as wp
from tests.compiler.harness import check_gradient, check_tangent, run

LAST = (3.0,)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 4


@wp.func
def product(a: float, b: float, c: float):
    return a * b * c


@wp.kernel
def unpacked(
    x: wp.array(dtype=float),
    v: wp.array(dtype=wp.vec2),
    m: wp.array(dtype=wp.mat22),
    y: wp.array(dtype=wp.vec4),
):
    i = wp.tid()
    pair = (x[i], x[i] * x[i])
    swapped = wp.matrix_from_rows(*m[i])
    if x[0] > 0.0:
        swapped = swapped * product(*v[i], *LAST)
    y[i] = wp.vec4(product(*x[0:3]), product(*x[0:5:2]), *(swapped @ wp.vec2(*pair)))


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    sizes = [(5,), (5, 2), (5, 2, 2)]
    return [*(rng.uniform(0.5, 1.5, size).astype(np.float32) for size in sizes), np.zeros((5, 4), np.float32)]


def test_starred_arguments_are_passed_one_by_one() -> None:
    given = inputs()
    run(unpacked, 5, given)
    x, v, m, found = (values.astype(np.float64) for values in given)
    scale = v[:, 0] * v[:, 1] * LAST[0]
    right = scale[:, None] * np.einsum("nij,nj->ni", m, np.stack([x, x * x], -1))
    np.testing.assert_allclose(found[:, 2:], right, rtol=1e-5)
    np.testing.assert_allclose(found[:, 0], np.prod(x[:3]), rtol=1e-5)
    np.testing.assert_allclose(found[:, 1], x[0] * x[2] * x[4], rtol=1e-5)


def test_gradients_through_starred_arguments() -> None:
    check_gradient(unpacked, 5, inputs())
    check_tangent(unpacked, 5, inputs())


@wp.kernel
def bare(x: wp.array(dtype=float), y: wp.array(dtype=float), u: wp.array(dtype=wp.uint32)):
    i = tid()  # noqa: F821
    y[i] = sqrt(x[i]) * length(vec3(3.0, 4.0, 0.0)) + float(Level.HIGH.value) + float(int(Level.LOW))  # noqa: F821
    u[i] = wp.uint32(-1)


def test_names_without_their_module_enumerations_and_numbers_that_wrap() -> None:
    y, u = np.zeros(2, np.float32), np.zeros(2, np.uint32)
    run(bare, 2, [np.float32([4.0, 9.0]), y, u])
    assert y.tolist() == [15.0, 20.0]
    assert u.tolist() == [2**32 - 1] * 2


@wp.func
def sign(x: float):
    return 7.0 * x


@wp.kernel
def own(x: wp.array(dtype=float)):
    x[wp.tid()] = sign(x[0])


def test_a_name_of_the_program_comes_first() -> None:
    x = np.float32([2.0])
    run(own, 1, [x])
    assert x.tolist() == [14.0]
