"""`config.strong_zero`: an adjoint of zero stays zero beside infinite slopes; off, it is IEEE's NaN."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import run


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def quotient(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / x[i]


@wp.kernel
def logarithm(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.log(x[i])


@wp.kernel
def power(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.pow(x[i], 0.5)


@wp.kernel
def guarded(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.where(x[i] > 0.0, wp.sqrt(x[i]), 0.0)


@wp.kernel
def guarded_length(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = wp.sqrt(x[i] * x[i])
    y[i] = wp.where(r > 0.0, x[i] / r, 0.0)


@pytest.fixture(params=[False, True], ids=["ieee", "strong"])
def strong(request):
    wp.config.strong_zero = request.param
    yield request.param
    wp.config.strong_zero = False


def gradient(kernel, values, seed):
    x = wp.array(values, dtype=float, requires_grad=True)
    y = wp.zeros(len(values), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, len(values), [x], [y])
    tape.backward(grads={y: wp.array(seed, dtype=float)})
    return x.grad.numpy()


@pytest.mark.parametrize("kernel", [root, quotient, logarithm, power], ids=lambda k: k.key)
def test_a_seed_of_zero(kernel, strong):
    found = gradient(kernel, [0.0, 4.0], [0.0, 1.0])
    assert found[0] == 0 if strong else np.isnan(found[0])
    assert np.isfinite(found[1]) and found[1] != 0


@pytest.mark.parametrize(
    ("kernel", "slope"), [(guarded, 0.25), (guarded_length, 0.0)], ids=["sqrt", "length"]
)
def test_what_where_does_not_select(kernel, slope, strong):
    found = gradient(kernel, [0.0, 4.0], [1.0, 1.0])
    assert found[0] == 0 if strong else np.isnan(found[0])
    assert found[1] == pytest.approx(slope, abs=1e-7)


def test_what_is_infinite_stays_infinite(strong):
    assert gradient(root, [0.0], [1.0])[0] == np.inf


@pytest.mark.parametrize("kernel", [root, quotient, logarithm, power, guarded], ids=lambda k: k.key)
def test_tangents_as_well(kernel, strong):
    dots = [np.array([0.0, 1.0], np.float32), np.zeros(2, np.float32)]
    entry = [np.array([0.0, 4.0], np.float32), np.zeros(2, np.float32)]
    x = wp.array(entry[0], dtype=float, requires_grad=True)
    y = wp.zeros(2, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, 2, [x], [y])
    shadow = tape.replay()
    shadow.push({x: dots[0]})
    found = shadow.tangent(y)
    assert found[0] == 0 if strong or kernel is guarded else np.isnan(found[0])
    assert np.isfinite(found[1]) and found[1] != 0


def test_gradients_that_are_finite_anyway_do_not_change(strong):
    values = np.linspace(0.1, 3, 7, dtype=np.float32)
    seed = np.array([0, 1, 0, 2, 3, 0, 1], np.float32)
    np.testing.assert_allclose(gradient(root, values, seed), seed / (2 * np.sqrt(values)), rtol=1e-6)


def test_the_setting_counts_when_backward_runs():
    x = wp.zeros(1, dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(root, 1, [x], [y])
    seeds = {y: wp.zeros(1, dtype=float)}
    tape.backward(grads=seeds)
    assert np.isnan(x.grad.numpy()[0])
    tape.zero()
    wp.config.strong_zero = True
    try:
        tape.backward(grads=seeds)
    finally:
        wp.config.strong_zero = False
    assert x.grad.numpy()[0] == 0


def test_off_it_costs_nothing():
    assert "select" not in root.source("adjoint")
    adjoints = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
    run(root, 2, [np.zeros(2, np.float32), np.zeros(2, np.float32)], adjoints=adjoints)
    assert np.isnan(adjoints[0]).all()
