"""Kinks of functions that are rounded on their way (`acos(cos x)` is |x|) are told as other kinks are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck

f64 = wp.float64


@wp.kernel
def angle_between(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.acos(wp.dot(wp.normalize(x[i]), wp.vec3(0.0, 0.0, 1.0)))


@wp.kernel
def angle_of_rotation(x: wp.array(dtype=wp.quat), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * wp.acos(wp.normalize(x[i])[3])


@wp.kernel
def clamped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.acos(wp.clamp(wp.cos(x[i]), -1.0, 1.0))


@wp.kernel
def arc_sine(x: wp.array(dtype=f64), y: wp.array(dtype=f64)):
    i = wp.tid()
    y[i] = wp.asin(f64(1.0) - x[i] * x[i])


@wp.kernel
def sine_of_angle(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    c = wp.cos(x[i])
    y[i] = wp.length(wp.vec2(1.0 - c, wp.sin(x[i])))


@wp.kernel
def of_tangent(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    z = wp.vec3(0.0, 0.0, 1.0)
    y[i] = wp.atan2(wp.length(wp.cross(x[i], z)), wp.dot(x[i], z))


@wp.kernel
def squared_angle(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    angle = wp.acos(wp.dot(wp.normalize(x[i]), wp.vec3(0.0, 0.0, 1.0)))
    y[i] = angle * angle + x[i][0]


@wp.kernel
def soft_length(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(wp.dot(x[i], x[i]) + 1.0e-12) + x[i][1]


UP = [[0.0, 0.0, 1.0]]
KINKS = [
    (angle_between, wp.vec3, UP, float),
    (angle_of_rotation, wp.quat, [[0.0, 0.0, 0.0, 1.0]], float),
    (clamped, float, [0.0], float),
    (arc_sine, f64, [0.0], f64),
    (sine_of_angle, float, [0.0], float),
    (of_tangent, wp.vec3, UP, float),
]
SMOOTH = [
    (soft_length, wp.vec3, [[0.0, 0.0, 0.0]], float),
    (angle_between, wp.vec3, [[0.1, 0.0, 1.0]], float),
    (angle_between, wp.vec3, [[1e-2, 2e-2, 1.0]], float),
    (arc_sine, f64, [0.01], f64),
]


def verdicts(kernel: Any, kind: Any, value: Any, result: Any) -> tuple[Any, Any]:
    x = wp.array(value, dtype=kind, requires_grad=True)
    y = wp.zeros(1, dtype=result, requires_grad=True)
    check = gradcheck(kernel, dim=1, inputs=[x], outputs=[y], raise_exception=False, show_summary=False)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=1, inputs=[x], outputs=[y])
    tape.backward(y)
    return check, wp.diagnose(tape, loss=y, progress=False)


@pytest.mark.parametrize("case", KINKS, ids=lambda case: case[0].key)
def test_kinks(case: Any) -> None:
    check, diagnosis = verdicts(*case)
    assert (check.verdict, diagnosis.verdict) == ("KINK", "KINK")
    (finding,) = diagnosis.findings
    assert (finding.rule, finding.severity) == ("flat-op", "info")
    assert "has a kink in x: its slope is " in finding.message


def test_both_slopes_are_told() -> None:
    _, diagnosis = verdicts(*KINKS[0])
    (messages,) = diagnosis.trace.checks
    np.testing.assert_allclose([messages.left, messages.right], [-1.0, 1.0], rtol=1e-3)


@pytest.mark.parametrize("case", SMOOTH, ids=lambda case: f"{case[0].key}{case[2]}")
def test_smooth_ones_agree(case: Any) -> None:
    check, diagnosis = verdicts(*case)
    assert (check.verdict, diagnosis.verdict, diagnosis.findings) == ("AGREE", "AGREE", [])


def test_a_smooth_function_of_a_kink_is_none() -> None:
    check, diagnosis = verdicts(squared_angle, wp.vec3, UP, float)
    assert (check.verdict, diagnosis.verdict) == ("AGREE", "AGREE")
