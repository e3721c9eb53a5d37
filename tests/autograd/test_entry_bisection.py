"""One wrong entry that only differences see: what a snippet shares with its twin and its tangent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end


@wp.func_native("return x * x * x;", adj_snippet="adj_x += factor * 3.0f * x * x * adj_ret;")
def cubed(x: float, factor: float) -> float: ...


@wp.kernel
def one_of_them(x: wp.array(dtype=float), place: int, factor: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    f = float(1.0)
    if i == place:
        f = factor
    wp.atomic_add(loss, 0, cubed(x[i], f))


@wp.kernel
def relu(x: wp.array(dtype=float), w: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[0]):
        s += w[i, j] * x[j]
    y[i] = wp.max(s, 0.0)


@wp.kernel
def cancelling(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (1.0e4 + x[i] * x[i]) - 1.0e4)


@wp.kernel
def logs(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.log(x[i]) + wp.sqrt(x[i]))


@wp.kernel
def summed(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * y[i])


def floats(values: Any) -> Any:
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


def checked(kernel: Any, x: Any, *more: Any) -> Any:
    loss = floats([0.0])
    with wp.Tape() as tape:
        wp.launch(kernel, x.shape[0], inputs=[x, *more, loss])
    tape.backward(loss)
    return end_to_end(tape, loss)


@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize("size", [16, 400, 10_000])
def test_the_entry_is_found_and_named(size: int, error: float) -> None:
    result = checked(one_of_them, floats(np.random.default_rng(3).random(size) + 0.3), 11, 1.0 - error)
    (check,) = result.inputs
    assert result.verdict == "WRONG", str(result)
    if size > 16 or error < 1e-2:  # else single entries were displaced anyway
        assert "the adjoint disagrees with differences of the loss at x[11]: AD " in check.reason
        assert check.rel_error == pytest.approx(error, rel=0.05)


def test_a_small_input_hides_nothing() -> None:
    """Directions scaled by the input alone would count the entry a hundredth of the others."""
    x = np.full(400, 2.0)
    x[11] = 2e-3
    x[12] = 0.3
    result = checked(one_of_them, floats(x), 12, 0.7)
    assert result.verdict == "WRONG", str(result)
    assert "x[12]" in result.inputs[0].reason


def test_what_is_not_found_is_not_claimed() -> None:
    """1e-5 of one entry of 10,000 is 1e-7 of the gradient, as much as float32 rounding."""
    x = floats(np.random.default_rng(3).random(10_000) + 0.3)
    result = checked(one_of_them, x, 11, 1.0 - 1e-5)
    (check,) = result.inputs
    right = 3.0 * x.numpy().astype(np.float64) ** 2
    off = np.linalg.norm(check.consumed - right) / np.linalg.norm(right)
    assert result.verdict == "AGREE"
    assert off <= check.agreement < 1e-6


def net(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x, loss = floats(rng.normal(size=40)), floats([0.0])
    layers = [floats(rng.normal(size=(40, 40)) / 6.0) for _ in range(3)]
    at = x
    with wp.Tape() as tape:
        for w in layers:
            y = wp.zeros(40, dtype=float, requires_grad=True)
            wp.launch(relu, 40, inputs=[at, w, y])
            at = y
        wp.launch(summed, 40, inputs=[at, loss])
    tape.backward(loss)
    return end_to_end(tape, loss)


@pytest.mark.parametrize("seed", range(4))
def test_kinks_close_by_refute_nothing(seed: int) -> None:
    assert net(seed).verdict == "AGREE"


def test_cancellation_refutes_nothing() -> None:
    result = checked(cancelling, floats(np.random.default_rng(1).random(400) + 0.5))
    assert result.verdict == "AGREE", str(result)


def test_inputs_near_the_edge_of_where_a_function_is_defined_refute_nothing() -> None:
    x = np.linspace(1.0, 2.0, 300)
    x[:5] = [1e-4, 3e-4, 1e-3, 1e-5, 3e-6]
    assert checked(logs, floats(x)).verdict == "AGREE"
