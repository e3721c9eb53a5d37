"""Packing of arguments into slots: what is reused of an earlier launch equals what would be made anew."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.launch.argument_packing import dims, known_dims
from tests.runtime.kernels import repeat, scale


@wp.kernel
def keep(v: wp.vec3, m: wp.mat22, k: wp.vec2i, f: wp.array(dtype=float), n: wp.array(dtype=int)):
    for i in range(3):
        f[i] = v[i]
    for i in range(2):
        f[3 + 2 * i] = m[i, 0]
        f[4 + 2 * i] = m[i, 1]
        n[i] = k[i]


def scaled(factor: object) -> float:
    y = wp.zeros(1)
    wp.launch(scale, 1, inputs=[wp.ones(1), y, factor])
    return float(y.numpy()[0])


def test_equal_numbers_are_not_taken_for_each_other() -> None:
    """Packed values are looked up by value: 0.0 equals -0.0, and 1 equals True and 1.0."""
    for _ in range(2):
        assert math.copysign(1.0, scaled(0.0)) == 1.0
        assert math.copysign(1.0, scaled(-0.0)) == -1.0
        assert math.isnan(scaled(math.nan))
        assert [scaled(1), scaled(1.0), scaled(True), scaled(np.float32(1))] == [1.0] * 4
        assert scaled(0.1) == np.float32(0.1)
        assert scaled(1e300) == math.inf
    y = wp.zeros(1)
    wp.launch(repeat, 1, inputs=[wp.ones(1), 1, True, y])
    with pytest.raises(wp.LaunchError, match=r"argument 'n' \(number 2\) must be int32; got 1.0 \(float\)"):
        wp.launch(repeat, 1, inputs=[wp.ones(1), 1.0, True, y])


def test_more_numbers_than_are_kept() -> None:
    found = [scaled(n + 0.5) for n in range(600)]
    assert found == [n + 0.5 for n in range(600)]
    assert scaled(0.5) == 0.5


def test_a_vector_is_packed_as_it_is_now() -> None:
    v, m, k = wp.vec3(0.1, -0.0, 3.0), wp.mat22(1.0, 2.0, 3.0, 4.0), wp.vec2i(5, -6)
    f, n = wp.zeros(7), wp.zeros(2, dtype=int)
    wp.launch(keep, 1, [v, m, k, f, n])
    assert f.numpy().tolist() == np.float32([0.1, 0, 3, 1, 2, 3, 4]).tolist()
    assert math.copysign(1.0, f.numpy()[1]) == -1.0
    assert n.numpy().tolist() == [5, -6]
    v[1], m[1, 0] = 7.0, 8.0
    wp.launch(keep, 1, [v, m, (8, 9), f, n])
    assert f.numpy().tolist() == np.float32([0.1, 7, 3, 1, 2, 8, 4]).tolist()
    assert n.numpy().tolist() == [8, 9]


def test_sizes_are_found_again_only_where_they_are_integers() -> None:
    made = dims((2, 3))
    assert made == ((2, 3), 6, struct.pack("=4q", 2, 3, 1, 1))
    assert known_dims((2, 3)) is made
    assert known_dims((2.0, 3)) is None
    assert known_dims([2, 3]) is made
    assert known_dims([2.0, 3]) is None
    assert known_dims(dims((5,))[0]) is known_dims(5)
    assert known_dims(5.0) is None
    y = wp.zeros(6)
    wp.launch(repeat, 5, inputs=[y, 1, True, y])
    for dim in (5.0, (2.0, 3), "5", None):
        with pytest.raises(wp.LaunchError, match="dim is an int or a tuple of 1 to 4 ints; got"):
            wp.launch(repeat, dim, inputs=[y, 1, True, y])


def test_sizes_are_not_kept_without_end() -> None:
    for n in range(5000):
        dims((n, 1))
    assert known_dims((4999, 1)) is not None
    assert known_dims((1, 1)) is None


def test_an_array_that_gets_a_gradient_is_launched_with_it() -> None:
    x, y = wp.ones(1), wp.zeros(1, requires_grad=True)
    for wanted in (False, True):
        x.requires_grad = wanted
        with wp.Tape() as tape:
            wp.launch(scale, 1, [x, y, 2.0])
        tape.backward(grads={y: np.ones(1, np.float32)})
        assert (x.grad is not None and x.grad.numpy().tolist() == [2.0]) is wanted


def test_the_plan_of_the_last_launch_is_for_arguments_like_those_alone():
    x, y, whole, row = wp.ones(2), wp.zeros(2), wp.ones(2, dtype=int), wp.ones((2, 4))[:, 1]

    def latest(*args: object, dim: object = 2) -> object:
        wp.launch(scale, dim, list(args))
        return scale.latest

    latest(x, y, 2.0)
    first = latest(x, y, 2.0)
    assert latest(x, y, 3.0) is first
    assert y.numpy().tolist() == [3, 3]
    latest(x, y, 4)
    assert latest(x, y, 4) is not first
    assert y.numpy().tolist() == [4, 4]
    latest(row, y, 5.0)
    assert latest(row, y, 5.0) is not first
    assert y.numpy().tolist() == [5, 5]
    assert latest(x, y, 6.0, dim=[1]) is first
    assert y.numpy().tolist() == [6, 5]
    for given, message in (
        ([whole, y, 2.0], "argument 'x'"),
        ([x, y, "2"], "argument 'a'"),
        ([x, y, None], "argument 'a'"),
        ([None, y, 2.0], "argument 'x'"),
        ([x, y], "takes 3 arguments"),
        ([x, y, 2.0, 3.0], "takes 3 arguments"),
    ):
        with pytest.raises(wp.LaunchError, match=message):
            wp.launch(scale, 2, given)
    assert latest(x, y, 7.0) is first
    wp.launch(scale, 2, [np.ones(2, np.float32), y, 8.0])
    assert y.numpy().tolist() == [8, 8]


def test_no_plan_outlives_the_settings_that_it_was_made_for():
    x, y = wp.ones(2), wp.zeros(2)
    wp.launch(scale, 2, [x, y, 2.0])
    before = scale.latest
    wp.launch(scale, 2, [x, y, 2.0])
    assert scale.latest is not None
    wp.config.check_bounds = True
    try:
        assert scale.latest is None
        with pytest.raises(wp.BoundsError):
            wp.launch(scale, 3, [x, y, 2.0])
    finally:
        wp.config.check_bounds = None
    wp.launch(scale, 2, [x, y, 2.0])
    wp.launch(scale, 2, [x, y, 2.0])
    assert scale.latest is before or before is None


def test_a_change_of_a_setting_looks_at_kernels_launched_since_the_last_one_alone(monkeypatch):
    found = []
    aside = wp.Kernel.put_plans_aside
    monkeypatch.setattr(
        wp.Kernel, "put_plans_aside", lambda kernel: (found.append(kernel.key), aside(kernel))
    )
    monkeypatch.setattr(wp.config, "check_bounds", True)
    found.clear()
    monkeypatch.setattr(wp.config, "check_bounds", None)
    assert found == []
    wp.launch(scale, 2, [wp.ones(2), wp.zeros(2), 2.0])
    monkeypatch.setattr(wp.config, "check_bounds", True)
    assert found == ["scale"]
    with pytest.raises(wp.BoundsError):
        wp.launch(scale, 3, [wp.ones(2), wp.zeros(2), 2.0])


def test_which_plan_was_used_last_is_no_part_of_a_kernel():
    from tapedebug.compiler.fingerprint import fingerprint_of

    x, y = wp.ones(2), wp.zeros(2)
    found = set()
    for factor in (2.0, 2.0, 3, 3):
        wp.launch(scale, 2, [x, y, factor])
        identity = fingerprint_of(scale)
        assert identity is not None
        found.add(identity.digest)
    assert len(found) == 1
