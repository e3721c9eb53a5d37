"""Operations without a derivative at some values: findings name the line, say why, and how to write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)


def line_of(text: str) -> int:
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def guarded_axis(w: wp.array(dtype=wp.vec3), q: wp.array(dtype=wp.quat)):
    i = wp.tid()
    speed = wp.length(w[i])  # guarded
    axis = w[i] / wp.max(speed, 1.0e-9)
    q[i] = wp.quat_from_axis_angle(axis, speed * 0.1)


@wp.kernel
def by_arc_cosine(w: wp.array(dtype=wp.quat), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    angle = 2.0 * wp.acos(w[i][3])  # arc cosine
    out[i] = wp.normalize(wp.vec3(w[i][0], w[i][1], w[i][2])) * angle


@wp.kernel
def heading(q: wp.array(dtype=wp.quat), loss: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.quat_rotate(q[i], wp.vec3(1.0, 0.0, 0.0))
    wp.atomic_add(loss, 0, 2.0 * v[1] + v[2])


@wp.kernel
def weighted(v: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, v[i][0] + 2.0 * v[i][1] - v[i][2])


@wp.kernel
def first_column(w: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    u, _s, _v = wp.svd3(w[i])  # a column
    out[i] = wp.vec3(u[0, 0], u[1, 0] * u[0, 1], u[2, 0])


@wp.kernel
def factors(
    w: wp.array(dtype=wp.mat33),
    u: wp.array(dtype=wp.mat33),
    s: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.mat33),
):
    i = wp.tid()
    left, sigma, right = wp.svd3(w[i])  # factors
    u[i] = left
    s[i] = sigma
    v[i] = right


@wp.kernel
def combined(
    u: wp.array(dtype=wp.mat33),
    s: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.mat33),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    p = u[i] * wp.diag(s[i]) * wp.transpose(v[i])
    wp.atomic_add(loss, 0, p[0, 0] + 2.0 * p[0, 1] + 3.0 * p[1, 0] - p[1, 2])


def diagnosed(kernel: Any, value: Any, cost: Any) -> Any:
    w = wp.array(value, dtype=kernel.params[0].type.dtype, requires_grad=True)
    out = wp.zeros(1, dtype=kernel.params[1].type.dtype, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=1, inputs=[w], outputs=[out])
        wp.launch(cost, dim=1, inputs=[out], outputs=[loss])
    tape.backward(loss)
    return wp.diagnose(tape, loss=loss, progress=False)


@pytest.mark.parametrize(
    ("kernel", "value", "cost", "line", "operation", "fix"),
    [
        (guarded_axis, [[0.0, 0.0, 0.0]], heading, "# guarded", "the length of a vector", "wp.normalize(v)"),
        (
            by_arc_cosine,
            [[0.0, 0.0, 0.0, 1.0]],
            weighted,
            "# arc cosine",
            "acos, which",
            "wp.quat_to_axis_angle",
        ),
    ],
    ids=["guarded axis", "acos"],
)
def test_the_operation_that_makes_a_gradient_0(
    kernel: Any, value: Any, cost: Any, line: str, operation: str, fix: str
) -> None:
    diagnosis = diagnosed(kernel, value, cost)
    (finding,) = diagnosis.findings
    assert finding.rule == "disconnected"
    assert finding.location is not None
    assert f"line {line_of(line)}: `" in finding.message
    assert operation in finding.message and "beside that point the gradient is not 0" in finding.message
    assert fix in finding.fix


NOISE = np.random.default_rng(0).normal(size=(3, 3))


def test_a_column_at_nearly_repeated_values_is_not_blamed_on_the_adjoint() -> None:
    diagnosis = diagnosed(first_column, [np.eye(3) + 1e-6 * NOISE], weighted)
    assert diagnosis.verdict == "WRONG"
    (finding,) = [f for f in diagnosis.findings if f.severity == "error"]
    assert finding.rule == "wrong-adjoint"
    assert f"line {line_of('# a column')}: `" in finding.message
    assert "two singular values differ by" in finding.message
    assert "is not the derivative" not in finding.message and "report it" not in finding.fix
    assert "combine the factors in the kernel that computes them" in finding.fix


def test_a_column_at_repeated_values_is_a_kink() -> None:
    assert diagnosed(first_column, [np.eye(3)], weighted).verdict == "KINK"


@pytest.mark.parametrize(("noise", "how"), [(0.0, "are equal"), (1e-6, "differ by")])
def test_factors_that_another_launch_combines(noise: float, how: str) -> None:
    w = wp.array([np.eye(3) + noise * NOISE], dtype=wp.mat33, requires_grad=True)
    u, v = (wp.zeros(1, dtype=wp.mat33, requires_grad=True) for _ in range(2))
    s = wp.zeros(1, dtype=wp.vec3, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(factors, dim=1, inputs=[w], outputs=[u, s, v])
        wp.launch(combined, dim=1, inputs=[u, s, v], outputs=[loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape, loss=loss, progress=False)
    assert diagnosis.verdict == "WRONG"
    (finding,) = [f for f in diagnosis.findings if f.severity == "error"]
    assert f"line {line_of('# factors')}: `" in finding.message and how in finding.message
    assert "adjoints that are not written" not in finding.fix
    assert "combine the factors in the kernel" in finding.fix
