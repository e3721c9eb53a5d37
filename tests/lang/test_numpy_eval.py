"""The functions and operators of the language, called outside kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapedebug as wp


def test_functions_of_numbers() -> None:
    assert wp.sin(0.5) == float(np.sin(np.float32(0.5)))
    assert wp.sin(wp.float64(0.5)) == math.sin(0.5)
    assert (wp.min(3, 4), wp.max(2.5, 1), wp.clamp(5.0, 0.0, 1.0), wp.abs(-3)) == (3, 2.5, 1.0, 3)
    assert isinstance(wp.floor(2.5), float) and isinstance(wp.sign(-2), int)
    assert wp.where(True, 1.0, 2.0) == 1.0
    assert wp.smoothstep(0.0, 1.0, 0.5) == 0.5


def test_functions_of_vectors() -> None:
    v = wp.vec3(1.0, 2.0, 2.0)
    assert wp.length(v) == 3.0 and wp.dot(v, v) == 9.0
    assert wp.normalize(wp.vec3d(0.0, 3.0, 4.0)) == wp.vec3d(0.0, 0.6, 0.8)
    assert wp.cross(wp.vec3(1.0, 0.0, 0.0), wp.vec3(0.0, 1.0, 0.0)) == wp.vec3(0.0, 0.0, 1.0)
    assert wp.lerp(v, v * 3.0, 0.5) == wp.vec3(2.0, 4.0, 4.0)
    assert wp.norm_huber(v) == 2.5 and wp.norm_huber(v=v, delta=3.0) == 4.5
    assert wp.max(v) == 2.0 and wp.argmax(v) == 1
    assert wp.outer(v, wp.vec2(1.0, 2.0)) == wp.types.matrix((3, 2), float)(1, 2, 2, 4, 2, 4)


def test_numbers_of_numpy_are_operands_on_both_sides() -> None:
    v, m = wp.vec3(2.0, 4.0, 6.0), wp.mat22(1.0, 2.0, 4.0, 8.0)
    two = np.float32(2)
    assert (two * v, v * two, two / v) == (wp.vec3(4, 8, 12), wp.vec3(4, 8, 12), wp.vec3(1, 0.5, 1 / 3))
    assert (two * m, np.float32(8) / m) == (wp.mat22(2, 4, 8, 16), wp.mat22(8, 4, 2, 1))
    assert wp.vec3i(7, -7, 5) % wp.vec3i(4, 4, 3) == wp.vec3i(3, -3, 2)
    both = np.array([1.0, 2.0, 3.0], np.float32) + v
    assert isinstance(both, np.ndarray) and both.tolist() == (v + np.array([1.0, 2.0, 3.0])).tolist()


def test_transforms_of_one_part() -> None:
    moved = wp.transform((1.0, 2.0, 3.0))
    assert moved == wp.transform(p=wp.vec3(1.0, 2.0, 3.0)) == wp.transform(1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)
    assert wp.transform(q=(1.0, 0.0, 0.0, 0.0)) == wp.transform((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))


def test_euler_angles() -> None:
    q = wp.quat_from_euler(wp.vec3(0.3, -0.2, 0.4), 2, 1, 0)
    np.testing.assert_allclose(wp.quat_to_euler(q, 2, 1, 0), [0.3, -0.2, 0.4], rtol=1e-6)


def test_whole_numbers_that_are_assigned_wrap_around() -> None:
    v = wp.types.vector(3, wp.uint8)(1, 2, 3)
    v[0], v.y, v[2:] = -1, 257, (300,)
    assert v == (255, 1, 44)


def test_decompositions_give_several_values() -> None:
    m = wp.mat33(1.0, 2.0, 3.0, 4.0, -5.0, 6.0, 7.0, 8.0, -10.0)
    u, s, v = wp.svd3(m)
    np.testing.assert_allclose(u @ wp.diag(s) @ wp.transpose(v), m, atol=1e-5)
    axis, angle = wp.quat_to_axis_angle(wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5))
    np.testing.assert_allclose([*axis, angle], [0, 0, 1, 0.5], rtol=1e-6)


def test_transforms() -> None:
    q = wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), math.pi / 2)
    t = wp.transform(wp.vec3(1.0, 2.0, 3.0), q)
    assert t.p == wp.vec3(1.0, 2.0, 3.0) and t.q == q and len(t) == 7
    np.testing.assert_allclose(wp.transform_point(t, wp.vec3(1.0, 0.0, 0.0)), [1, 3, 3], atol=1e-6)
    np.testing.assert_allclose(wp.transform_inverse(t) * t, wp.transform_identity(), atol=1e-6)
    assert wp.transform() == wp.transform_identity() == wp.transform(*wp.vec3(), *wp.quat_identity())
    t.p = wp.vec3(0.0)
    t.q = wp.quat_identity(dtype=float)
    assert t == wp.transform_identity()
    with pytest.raises(AttributeError, match="transform has no component 'r'"):
        t.r = 1.0


def test_constructors() -> None:
    assert wp.vector(1.0, 2.0) == wp.vec2(1.0, 2.0)
    assert wp.vector(length=3, dtype=wp.float64) == wp.vec3d()
    assert wp.matrix(1.0, 2.0, 3.0, 4.0, shape=(2, 2)) == wp.mat22(1.0, 2.0, 3.0, 4.0)
    assert wp.identity(2, dtype=float) == wp.mat22(1.0, 0.0, 0.0, 1.0)
    assert wp.quaternion(0.0, 0.0, 0.0, 1.0) == wp.quat_identity()
    assert wp.transformation(wp.vec3d(), wp.quatd(0.0, 0.0, 0.0, 1.0)) == wp.transform_identity(wp.float64)
    assert wp.spatial_vector(wp.vec3(1.0), wp.vec3(2.0)) == wp.spatial_vector(1.0, 1.0, 1.0, 2.0, 2.0, 2.0)


def test_operators_are_those_of_kernels() -> None:
    v = wp.vec3(1.0, 2.0, 4.0)
    assert 2.0 / v == wp.vec3(2.0, 1.0, 0.5) and v / 2.0 == v * 0.5 == 0.5 * v and +v == v and -v == v * -1.0
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    assert m * wp.vec2(1.0, 1.0) == m @ wp.vec2(1.0, 1.0) == wp.vec2(3.0, 7.0)
    assert wp.vec2(1.0, 1.0) * m == wp.vec2(4.0, 6.0)
    v.x = 5.0
    assert v == wp.vec3(5.0, 2.0, 4.0)
    assert wp.vec3i(7, -7, 8) / 2 == wp.vec3i(3, -3, 4)


WRONG = {
    "dot() takes two vectors or quaternions of one type; got vec3 and vec2\n"
    "  = hint: pass two vectors or quaternions, such as vec3 values": lambda: wp.dot(wp.vec3(), wp.vec2()),
    "`*` is not defined for two vectors; got vec3 and vec3\n"
    "  = hint: use dot(a, b), cross(a, b), or cw_mul(a, b) for the product of components": lambda: (
        wp.vec3() * wp.vec3()
    ),
    "normalize() takes numbers, vectors and other values of kernels; got list\n"
    "  = hint: convert it, for example with wp.vec3(…)": lambda: wp.normalize([1.0, 2.0, 3.0]),
    "sin() takes numbers; got vec3\n  = hint: apply it to each component": lambda: wp.sin(wp.vec3()),
    "atan2() takes 2 arguments; got 1": lambda: wp.atan2(1.0),
    "matrix() takes the shape of the matrix: matrix(…, shape=(2, 2))": lambda: wp.matrix(1.0, 2.0),
}


@pytest.mark.parametrize("message", WRONG, ids=lambda m: m.partition("(")[0])
def test_wrong_use(message: str) -> None:
    with pytest.raises(TypeError) as info:
        WRONG[message]()
    assert str(info.value) == message


def test_what_needs_a_thread_says_so() -> None:
    for name in ("tid", "atomic_add", "printf"):
        with pytest.raises(wp.TapedebugError, match=f"^{name}.. is a function of the kernel language"):
            getattr(wp, name)()


def test_parts_of_transforms_by_keyword_and_in_place() -> None:
    p, q = (1.0, 2.0, 3.0), (0.0, 0.0, 1.0, 0.0)
    whole = wp.transform(*p, *q)
    assert wp.transform(p, q) == wp.transform(q=q, p=p) == wp.transform(p, q=q) == whole
    assert wp.transform(p=p) == wp.transform(p) == wp.transform(*p, 0.0, 0.0, 0.0, 1.0)
    assert wp.transform(q=q) == wp.transform(0.0, 0.0, 0.0, *q)
    assert wp.transform(wp.transformd(whole)) == whole
    t = wp.transform_identity(None)
    wp.transform_set_translation(t, wp.vec3(*p))
    wp.transform_set_rotation(t, wp.quat(*q))
    assert t == whole


def test_components_have_the_types_of_warp() -> None:
    assert type(wp.vec3(1.0, 2.0, 3.0)[0]) is type(wp.vec3(1.0, 2.0, 3.0).x) is float
    assert type(wp.vec3i(1, 2, 3)[0]) is int
    assert type(wp.vec3d(1.0, 2.0, 3.0)[0]) is np.float64
    assert tuple(wp.mat22(1.0, 2.0, 3.0, 4.0)) == ((1.0, 2.0), (3.0, 4.0))
    m = wp.mat22(1.0, 2.0, 3.0, 4.0)
    m.set_col(0, (5.0, 6.0))
    assert (m.get_row(0), m.get_col(0)) == (wp.vec2(5.0, 2.0), wp.vec2(5.0, 6.0))
    v = wp.types.vector(2, wp.uint64)(1, 2)
    v[0] = -1
    assert v == (2**64 - 1, 2)
    assert bytes(wp.vec2(1.0, 2.0)) == np.float32([1.0, 2.0]).tobytes()
    array = np.array([1.0, 2.0], np.float32)
    assert wp.vec2.from_ptr(array.ctypes.data) == wp.vec2(1.0, 2.0)
    product = np.float64(2) * wp.vec2(1.0, 2.0)
    assert isinstance(product, np.ndarray) and product.tolist() == [2.0, 4.0]


REFUSED = {
    "vec3 has no component [None]\n  = hint: index it with an int or a slice; its shape is (3,)": (
        KeyError,
        lambda v: v[None],
    ),
    "mat22 has no component [(0, 1, 2)]\n"
    "  = hint: index it with an int, a slice or a pair of them; its shape is (2, 2)": (
        IndexError,
        lambda v: wp.mat22()[0, 1, 2],
    ),
    "components of vec3 are numbers (float32); got '1.0'\n  = hint: pass numbers, or a sequence of them": (
        TypeError,
        lambda v: v.__setitem__(0, "1.0"),
    ),
    "vec3[slice(None, 2, None)] holds 2 of the components; got (1, 2, 3)\n  = hint: assign as many numbers": (
        ValueError,
        lambda v: v.__setitem__(slice(2), (1, 2, 3)),
    ),
    "vec3 takes 3 components, one value for all of them, or none (zeros); got 2\n  = hint: pass 3 numbers": (
        ValueError,
        lambda v: wp.vec3(1.0, 2.0),
    ),
    "transform: q is 4 numbers; got 1.0\n  = hint: write transform(p=(x, y, z), q=(x, y, z, w))": (
        TypeError,
        lambda v: wp.transform((1.0, 2.0, 3.0), q=1.0),
    ),
    "transform takes its numbers, or p and q; got both\n"
    "  = hint: write transform(p=(x, y, z), q=(x, y, z, w))": (
        TypeError,
        lambda v: wp.transform(1.0, q=(1, 0, 0, 0)),
    ),
}


@pytest.mark.parametrize("message", REFUSED, ids=lambda m: m.partition("\n")[0])
def test_what_is_no_component_is_refused(message: str) -> None:
    kind, act = REFUSED[message]
    with pytest.raises(kind) as info:
        act(wp.vec3(1.0, 2.0, 3.0))
    assert str(info.value) == message
