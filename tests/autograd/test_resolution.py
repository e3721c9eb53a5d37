"""Near a minimum float32 has few digits of a gradient left: which are right, and which would be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import end_to_end
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes import input_check

N = 32


@wp.kernel
def blur(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = 0.25 * a[(i + 1) % 32] + 0.5 * a[i] + 0.25 * a[(i + 31) % 32]


@wp.func
def square(x: float):
    return x * x


@wp.func
def square_off(x: float, factor: float):
    return x * x


@wp.func_grad(square_off)
def adj_square_off(x: float, factor: float, adj: float):
    wp.adjoint[x] += factor * 2.0 * x * adj


@wp.kernel
def mse(a: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, square(a[i] - t[i]) / 32.0)


@wp.kernel
def mse_off(a: wp.array(dtype=float), t: wp.array(dtype=float), factor: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, square_off(a[i] - t[i], factor) / 32.0)


@wp.kernel
def beside_large(
    a: wp.array(dtype=float), t: wp.array(dtype=float), large: float, loss: wp.array(dtype=float)
):
    i = wp.tid()
    wp.atomic_add(loss, 0, (large + square(a[i] - t[i])) - large)


@wp.kernel
def beside_large_off(
    a: wp.array(dtype=float), t: wp.array(dtype=float), large: float, loss: wp.array(dtype=float)
):
    i = wp.tid()
    wp.atomic_add(loss, 0, (large + square_off(a[i] - t[i], 1.02)) - large)


@wp.kernel
def logistic(x: wp.array(dtype=float), steps: int, loss: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _k in range(steps):
        s = 3.9 * s * (1.0 - s)
    wp.atomic_add(loss, 0, s)


@wp.kernel
def bounces(x: wp.array(dtype=float), width: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] + 10.0 * wp.abs(wp.sin(x[i] / width)) * width)


def vector(values: Any, *, grad: bool = True) -> Any:
    return wp.array(np.asarray(values), dtype=float, requires_grad=grad)


def fit(distance: float, factor: float | None = None, pictures: int = 1) -> tuple[wp.Tape, Any]:
    """Pictures that are `distance` (relative) away from those that were blurred."""
    rng = np.random.default_rng(0)
    loss, tape = vector([0.0]), wp.Tape()
    for _ in range(pictures):
        sharp = rng.normal(size=N)
        target = vector(0.25 * np.roll(sharp, -1) + 0.5 * sharp + 0.25 * np.roll(sharp, 1), grad=False)
        x, y = vector(sharp * (1 + distance * rng.normal(size=N))), vector(np.zeros(N))
        with tape:
            wp.launch(blur, N, [x], [y])
            if factor is None:
                wp.launch(mse, N, [y, target], [loss])
            else:
                wp.launch(mse_off, N, [y, target, factor], [loss])
    return tape, loss


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Each reverse pass adds an item: True if it is one at other inputs than those of the program."""
    counted: list[bool] = []
    plain = WholeTape.reversed

    def reversed_at(self: WholeTape, seeds: Any, **given: Any) -> Any:
        counted.append(given.get("at") is not None)
        return plain(self, seeds, **given)

    monkeypatch.setattr(WholeTape, "reversed", reversed_at)
    return counted


def test_reverse_passes_at_displaced_inputs_serve_all_inputs(passes: list[bool]) -> None:
    counts = []
    for pictures in (1, 3):
        passes.clear()
        result = end_to_end(*fit(3e-7, pictures=pictures))
        assert result.verdict == "AGREE"
        assert all(check.stationary for check in result.inputs)
        counts.append((passes.count(True), passes.count(False)))
    assert counts[0] == counts[1]
    # 3 roundings of the inputs, 3 distances, the shortest displacement, and that beside the first distance
    assert counts[0][0] <= 3 + 3 + 1 + 1
    # consumed, exact and as memory stands at the end, and five times scaled
    assert counts[0][1] <= 3 + 5


def test_a_gradient_beside_an_adjoint_that_coarse_differences_confirm_takes_no_further_pass(
    passes: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    tape, loss = fit(0.1)
    assert end_to_end(tape, loss).verdict == "AGREE"
    plain = len(passes)
    passes.clear()
    coarse = input_check._weighed
    monkeypatch.setattr(input_check, "_weighed", lambda *given: ("UNDECIDABLE", "", coarse(*given)[2]))
    (check,) = end_to_end(tape, loss).inputs
    assert (check.verdict, len(passes)) == ("AGREE", plain)
    assert "it is off the float64 adjoint by" in check.note
    assert "in the forward values" not in check.note, "that would take a pass"


def test_a_fit_near_its_minimum_agrees_and_says_how_far_it_is_off() -> None:
    tape, loss = fit(1e-4)
    result = end_to_end(tape, loss)
    (check,) = result.inputs
    assert result.verdict == "AGREE", str(result)
    off = float(np.linalg.norm(check.consumed - check.reference) / np.linalg.norm(check.reference))
    assert 5e-5 < off < 1e-2
    assert off <= result.rel_error < 10 * off, "the error of the largest entry is told, too"
    assert not check.stationary
    assert f"{off:.0e}".replace("e-0", "e-") in check.note
    assert "in the forward values" in check.note
    assert any(note == f"{check.name}: {check.note}" for note in result.coverage.notes)


@pytest.mark.parametrize("distance", [1e-6, 1e-7, 0.0])
def test_at_the_minimum_a_gradient_agrees_as_far_as_float32_resolves_it(distance: float) -> None:
    tape, loss = fit(distance)
    result = end_to_end(tape, loss)
    (check,) = result.inputs
    assert result.verdict == "AGREE", str(result)
    assert result.rel_error > 1e-2, "the error is told as it is"
    assert check.stationary
    assert "as far as float32 resolves it near a stationary point: a" in result.coverage.summary
    assert "agrees to" not in result.coverage.summary
    assert "near a stationary point its size is" in check.note


@pytest.mark.parametrize("factor", [-1.0, 0.0, 1.1, 1.01])
@pytest.mark.parametrize("distance", [1e-4, 1e-6, 0.0])
def test_a_wrong_gradient_near_a_minimum_is_wrong(distance: float, factor: float) -> None:
    """At 1e-6 and below the error is smaller than what rounding does to the gradient; float64 shows it."""
    tape, loss = fit(distance, factor)
    result = end_to_end(tape, loss)
    assert result.verdict == "WRONG", str(result)
    assert "adj_square_off" in result.coverage.summary
    assert "is not the derivative of square_off" in result.coverage.summary


@pytest.mark.parametrize("distance", [1e-4, 1e-6, 0.0])
def test_a_right_gradient_of_the_users_own_near_a_minimum_agrees(distance: float) -> None:
    assert end_to_end(*fit(distance, 1.0)).verdict == "AGREE"


@pytest.mark.parametrize(("kernel", "verdict"), [(beside_large, "AGREE"), (beside_large_off, "WRONG")])
def test_where_differences_resolve_nothing_they_are_compared_a_step_aside(kernel: Any, verdict: str) -> None:
    target = np.full(4, 0.01, dtype=np.float32)
    x, t, loss = vector(np.nextafter(target, np.float32(1))), vector(target, grad=False), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(kernel, 4, [x, t, 1e4], [loss])
    result = end_to_end(tape, loss)
    assert result.verdict == verdict, str(result)
    assert "at inputs 1 % off" in result.inputs[0].message


def test_in_chaos_the_reason_says_how_far_rounding_moves_the_gradient() -> None:
    x, loss = vector(np.linspace(0.3, 0.4, 3)), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(logistic, 3, [x, 30], [loss])
    result = end_to_end(tape, loss)
    (check,) = result.inputs
    assert result.verdict == "UNDECIDABLE", str(result)
    assert check.rounding
    assert check.reason.startswith("float32 rounding moves it by ")
    assert "in the forward values" in check.reason
    assert "the float32 and the float64 run diverge (loss " in check.reason


def test_a_loss_that_bends_within_the_smallest_steps_says_what_is_not_resolved() -> None:
    x, loss = vector(np.linspace(0.3, 0.4, 5)), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(bounces, 5, [x, 1e-13], [loss])
    result = end_to_end(tape, loss)
    (check,) = result.inputs
    assert result.verdict == "UNDECIDABLE", str(result)
    assert "differences of the loss do not resolve the gradient in" in check.reason
    assert "directions" in check.reason


@pytest.mark.parametrize("large", [1e3, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("steps", [1, 100])
def test_a_staircase_of_rounding_does_not_refute_a_right_adjoint(large: float, steps: int) -> None:
    """The loss in float64 does not change at all over small steps, and their difference is 0 ± 0."""
    target = np.full(4, 0.01, dtype=np.float32)
    x, t, loss = vector(target + steps * np.spacing(target)), vector(target, grad=False), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(beside_large, 4, [x, t, large], [loss])
    assert end_to_end(tape, loss).verdict in ("AGREE", "UNDECIDABLE")


@wp.kernel
def fourth_power(a: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, square(square(a[i] - t[i])))


@pytest.mark.parametrize("distance", [1e-5, 1e-6])
def test_a_minimum_that_is_flatter_than_a_parabola_is_a_stationary_point(distance: float) -> None:
    at = np.random.default_rng(3).normal(size=N)
    x, t, y, loss = vector(at + distance), vector(at, grad=False), vector(np.zeros(N)), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(blur, N, [x], [y])
        wp.launch(blur, N, [t], [t_blurred := vector(np.zeros(N), grad=False)])
        wp.launch(fourth_power, N, [y, t_blurred], [loss])
    result = end_to_end(tape, loss, x)
    assert result.verdict == "AGREE", str(result)
    assert result.inputs[0].note


@wp.kernel
def diffuse(heat: wp.array(dtype=float), following: wp.array(dtype=float)):
    i = wp.tid()
    left, right = heat[wp.max(i - 1, 0)], heat[wp.min(i + 1, 31)]
    following[i] = heat[i] + 0.8 * (left - 2.0 * heat[i] + right)


def test_an_unstable_run_is_no_stationary_point_although_its_gradient_is_small_beside_its_curvature() -> None:
    """Each direction that it amplifies is near its minimum; the float32 gradient is rounding all the same."""
    start = heat = vector(1.0 + np.cos(np.pi * (np.arange(N) + 0.5) / N))
    target, loss = vector(1.0 + 0.3 * np.sin(7.0 * np.linspace(0.0, 1.0, N)), grad=False), vector([0.0])
    with wp.Tape() as tape:
        for _ in range(24):
            following = wp.zeros_like(heat)
            wp.launch(diffuse, N, [heat], [following])
            heat = following
        wp.launch(mse, N, [heat, target], [loss])
    result = end_to_end(tape, loss, start)
    (check,) = result.inputs
    assert result.verdict == "UNDECIDABLE", str(result)
    assert check.rounding
    assert "in the forward values" in check.reason


@wp.kernel
def curve(p: wp.array(dtype=float), u: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p[0] + p[1] * u[i] + p[2] * u[i] * u[i] + p[3] * wp.sin(p[4] * u[i])


def diverging_fit(steps: int, rate: float) -> list[tuple[wp.Tape, Any, Any]]:
    u = np.linspace(-1.0, 1.0, 64)
    wanted = 0.3 + u - 0.5 * u * u + 0.2 * np.sin(5.0 * u)
    p, places = vector([0.0, 0.0, 0.0, 0.1, 4.0]), vector(u, grad=False)
    found = []
    for _ in range(steps):
        y = vector(np.zeros(64))
        with wp.Tape() as tape:
            wp.launch(curve, 64, [p, places], [y])
        seed = vector(2.0 * (y.numpy() - wanted) / 64.0, grad=False)
        tape.backward(grads={y: seed})
        found.append((tape, y, seed))
        p = vector(p.numpy() - rate * p.grad.numpy())
    return found


def test_a_fit_that_diverged_has_no_wrong_adjoint() -> None:
    """`sin` of 1e30: no float64 step is short enough for a difference, and float32 has no digit of it."""
    verdicts = []
    for tape, y, seed in diverging_fit(24, 5.0):
        result = end_to_end(tape, {y: seed.numpy()})
        if np.isfinite(result.inputs[0].consumed).all():
            verdicts.append(result.verdict)
            assert result.verdict in ("AGREE", "UNDECIDABLE"), str(result)
    assert {"AGREE", "UNDECIDABLE"} <= set(verdicts)


@wp.kernel
def misfit_within(x: wp.array(dtype=float), t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    r = (0.3333333 * x[i] + 1.0) - (0.3333333 * t[i] + 1.0)
    wp.atomic_add(loss, 0, r * r)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("distance", [1e-5, 1e-6, 1e-7])
def test_rounding_within_a_kernel_is_no_wrong_adjoint(distance: float, seed: int) -> None:
    """The residual is computed within the launch, where float32 leaves one digit of it."""
    at = np.random.default_rng(seed).uniform(1.0, 2.0, N)
    x, t, loss = vector(at * (1.0 + distance)), vector(at, grad=False), vector([0.0])
    with wp.Tape() as tape:
        wp.launch(misfit_within, N, [x, t], [loss])
    assert end_to_end(tape, loss).verdict == "AGREE"
