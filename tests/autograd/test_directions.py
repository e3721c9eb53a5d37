"""Smooth functions of `normalize(w)` and `length(w)` have their derivatives at w = 0, and beside it.

References are Taylor series: of the quaternion `(sin(h |w|) w / |w|, cos(h |w|))`, of its logarithm, of a
rotated vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, hvp, jvp

TYPES = {"float32": wp.float32, "float64": wp.float64}
DT = 0.125
X, V = np.array([0.3, -0.5, 0.2]), np.array([0.7, 0.1, -0.4])


def skew(w: np.ndarray) -> np.ndarray:
    x, y, z = w
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def exponential(w: np.ndarray) -> np.ndarray:
    """The quaternion of a rotation by w DT."""
    h = 0.5 * DT * np.linalg.norm(w)
    return np.array([*(0.5 * DT * np.sinc(h / np.pi) * w), np.cos(h)])


def rotated(w: np.ndarray) -> np.ndarray:
    """X, rotated by w DT."""
    angle, k = DT * np.linalg.norm(w), skew(w) * DT
    one, two = np.sinc(angle / np.pi), 0.5 * np.sinc(0.5 * angle / np.pi) ** 2
    return X + one * (k @ X) + two * (k @ k @ X)


def logarithm(q: np.ndarray) -> np.ndarray:
    n = float(np.linalg.norm(q[:3]))
    ratio = 1 / q[3] - n * n / (3 * q[3] ** 3) if n < 1e-4 else np.arctan2(n, q[3]) / n
    return 2 * ratio * q[:3]


def kernels(s: Any) -> dict[str, Any]:
    vec3, quat = wp.types.vector(3, s), wp.types.quaternion(s)

    @wp.kernel
    def integrated(w: wp.array(dtype=vec3), out: wp.array(dtype=quat)):
        i = wp.tid()
        out[i] = wp.quat_from_axis_angle(wp.normalize(w[i]), wp.length(w[i]) * s(DT))

    @wp.kernel
    def scaled_first(w: wp.array(dtype=vec3), out: wp.array(dtype=quat)):
        i = wp.tid()
        v = w[i] * s(DT)
        out[i] = wp.quat_from_axis_angle(wp.normalize(v), wp.length(v))

    @wp.func
    def axis_of(v: vec3):
        return wp.normalize(v)

    @wp.kernel
    def by_hand(w: wp.array(dtype=vec3), out: wp.array(dtype=quat)):
        i = wp.tid()
        half = s(0.5 * DT) * wp.length(w[i])
        a = axis_of(w[i])
        if half < s(100.0):
            out[i] = wp.quaternion(a * wp.sin(half), wp.cos(half))

    @wp.kernel
    def rodrigues(w: wp.array(dtype=vec3), out: wp.array(dtype=vec3)):
        i = wp.tid()
        x = vec3(s(X[0]), s(X[1]), s(X[2]))
        k = wp.normalize(w[i])
        angle = wp.length(w[i]) * s(DT)
        c = wp.cos(angle)
        out[i] = x * c + wp.cross(k, x) * wp.sin(angle) + k * (wp.dot(k, x) * (s(1.0) - c))

    @wp.kernel
    def put_together(w: wp.array(dtype=vec3), out: wp.array(dtype=vec3)):
        i = wp.tid()
        out[i] = wp.length(w[i]) * wp.normalize(w[i])

    @wp.kernel
    def twist(w: wp.array(dtype=vec3), out: wp.array(dtype=vec3)):
        i = wp.tid()
        axis, angle = wp.quat_to_axis_angle(wp.quaternion(w[i], s(1.0)))
        out[i] = axis * angle

    @wp.kernel
    def half_way(w: wp.array(dtype=vec3), out: wp.array(dtype=quat)):
        i = wp.tid()
        zero = wp.quaternion(vec3(s(0.0), s(0.0), s(0.0)), s(1.0))
        turned = wp.quat_from_axis_angle(wp.normalize(w[i]), wp.length(w[i]) * s(2.0 * DT))
        out[i] = wp.quat_slerp(zero, turned, s(0.5))

    return {k.key.rpartition("__")[2]: k for k in (
        integrated, scaled_first, by_hand, rodrigues, put_together, twist, half_way
    )}  # fmt: skip


REFERENCES = {
    "integrated": exponential,
    "scaled_first": exponential,
    "by_hand": exponential,
    "rodrigues": rotated,
    "put_together": lambda w: w,
    "twist": lambda w: logarithm(np.array([*w, 1.0])),
    "half_way": exponential,
}
POINTS = np.array(
    [
        [0, 0, 0],
        [1e-12, 0, 0],
        [1e-8, -2e-8, 0],
        [1e-5, 0, 1e-5],
        [0, 1e-3, 2e-3],
        [0.3, -0.2, 0.1],
        [-1, 2, 1],
    ],
    dtype=float,
)


def jacobian(f: Any, w: np.ndarray) -> np.ndarray:
    """Return the derivative by differences of sixth order, in float64."""
    h = 3e-2
    columns = []
    for unit in np.eye(3):
        near, next_, far = ((f(w + k * h * unit) - f(w - k * h * unit)) for k in (1, 2, 3))
        columns.append((45 * near - 9 * next_ + far) / (60 * h))
    return np.stack(columns, axis=1)


def recorded(name: str, scalar: Any, points: np.ndarray) -> Any:
    kernel = kernels(scalar)[name]
    kind = kernel.params[1].type.dtype
    w = wp.array(points, dtype=wp.types.vector(3, scalar), requires_grad=True)
    out = wp.zeros(len(points), dtype=kind, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=len(points), inputs=[w], outputs=[out])
    return tape, kernel, w, out


@pytest.mark.parametrize("scalar", TYPES)
@pytest.mark.parametrize("name", REFERENCES)
def test_first_derivatives(name: str, scalar: str) -> None:
    points = np.tile(POINTS, (7, 1))  # more than a vector of threads
    tape, _, w, out = recorded(name, TYPES[scalar], points)
    seed = np.random.default_rng(0).normal(size=out.numpy().shape)
    tolerance = 1e-5 if scalar == "float32" else 1e-7
    expected = [jacobian(REFERENCES[name], p) for p in w.numpy().astype(float)]
    tape.backward(grads={out: wp.array(seed, dtype=out.dtype)})
    gradient = [j.T @ s for j, s in zip(expected, seed, strict=True)]
    np.testing.assert_allclose(w.grad.numpy(), gradient, rtol=0, atol=tolerance)
    v = np.random.default_rng(1).normal(size=points.shape)
    pushed = [j @ d for j, d in zip(expected, v, strict=True)]
    np.testing.assert_allclose(jvp(tape, tangents={w: v})[out], pushed, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", ["integrated", "scaled_first", "by_hand", "put_together", "twist"])
def test_second_derivatives(name: str) -> None:
    points = POINTS[[0, 4, 5, 6]]
    tape, _, w, out = recorded(name, wp.float64, points)
    kind, width = out.dtype, out.numpy().shape[1]
    seed = np.random.default_rng(0).normal(size=(len(points), width))

    @wp.kernel
    def total(q: wp.array(dtype=kind), c: wp.array(dtype=kind), loss: wp.array(dtype=wp.float64)):
        i = wp.tid()
        for k in range(width):
            wp.atomic_add(loss, 0, q[i][k] * c[i][k])

    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with tape:
        wp.launch(total, dim=len(points), inputs=[out, wp.array(seed, dtype=kind)], outputs=[loss])
    v = np.random.default_rng(1).normal(size=points.shape)
    found = hvp(tape, loss=loss, tangents={w: v}).product[w]
    for p, s, d, row in zip(points, seed, v, found, strict=True):

        def gradient(x: np.ndarray, s: np.ndarray = s) -> np.ndarray:
            return jacobian(REFERENCES[name], x).T @ s

        np.testing.assert_allclose(row, jacobian(gradient, p) @ d, rtol=0, atol=1e-6)


@wp.kernel
def spring(w: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.normalize(w[i]) * (wp.length(w[i]) - 1.0)


@wp.kernel
def distance(w: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(w[i])


@wp.kernel
def direction(w: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = 2.0 * wp.normalize(w[i])


@wp.kernel
def other_length(w: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.normalize(w[i]) * wp.length(w[i] + wp.vec3(1.0, 0.0, 0.0))


@wp.kernel
def half_turned(w: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.normalize(w[i]) * wp.atan2(wp.length(w[i]), -1.0)


@pytest.mark.parametrize(
    "kernel", [spring, distance, direction, other_length, half_turned], ids=lambda k: k.key
)
def test_what_is_not_smooth_keeps_its_convention(kernel: Any) -> None:
    w = wp.array(np.zeros((1, 3)), dtype=wp.vec3, requires_grad=True)
    out = wp.zeros(1, dtype=kernel.params[1].type.dtype, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=1, inputs=[w], outputs=[out])
    seed = wp.array(np.ones(out.numpy().shape), dtype=out.dtype)
    tape.backward(grads={out: seed})
    assert not w.grad.numpy().any()


def test_gradcheck_agrees_at_rest() -> None:
    _, kernel, w, out = recorded("integrated", wp.float32, POINTS[[0, 5]])
    check = gradcheck(kernel, dim=2, inputs=[w], outputs=[out], raise_exception=False, show_summary=False)
    assert check.verdict == "AGREE", str(check)
