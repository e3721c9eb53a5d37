"""Slopes by differences are within their error bars; kinks, jumps and chaos are told apart."""

from collections.abc import Callable

import numpy as np
import pytest

from tapedebug._progress import Progress
from tapedebug._time_limit import OutOfTime, enforced
from tapedebug.autograd.finite_diff.richardson import LEAST_STEPS, DerivativeEstimate, slope


def default(values: np.ndarray) -> np.ndarray:
    """The error bars that a check with the documents' tolerances asks for."""
    return 0.05 * (1e-3 + 1e-2 * np.abs(values))


def at(
    f: Callable[[np.ndarray], np.ndarray], x: float, enough: Callable = default, eps: float = 1e-4
) -> DerivativeEstimate:
    start = np.atleast_1d(np.float64(np.float32(x)))

    def displaced(step: float) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.atleast_1d(f(start + step))

    return slope(displaced, displaced(0.0), eps=eps, magnitude=abs(float(start[0])), enough=enough)


SMOOTH = {
    "x cubed at 100": (lambda x: x**3, 100.0, lambda x: 3 * x * x),
    "x cubed at 1000": (lambda x: x**3, 1000.0, lambda x: 3 * x * x),
    "large offset": (lambda x: x * x + 1000, 0.5, lambda x: 2 * x),
    "identity at 1000": (lambda x: x, 1e3, lambda x: 1.0),
    "fast sine": (lambda x: np.sin(1e4 * x), 0.7, lambda x: 1e4 * np.cos(1e4 * x)),
    "near a pole": (lambda x: 1 / x, 1e-6, lambda x: -1 / x**2),
    "very near a pole": (lambda x: 1 / x, 1e-15, lambda x: -1 / x**2),
    "very near the end of the domain": (np.sqrt, 1e-20, lambda x: 0.5 / np.sqrt(x)),
    "fast beside zero": (lambda x: np.sin(1e20 * x), 1e-20, lambda x: 1e20 * np.cos(1e20 * x)),
    "near the end of the domain": (np.sqrt, 1e-5, lambda x: 0.5 / np.sqrt(x)),
    "huge": (lambda x: 1e30 * x * x, 0.3, lambda x: 2e30 * x),
    "tiny": (lambda x: 1e-20 * x, 0.3, lambda x: 1e-20),
    "cancelling": (lambda x: (1e7 + x) - 1e7, 0.3, lambda x: 1.0),
    "a singular second derivative": (lambda x: np.abs(x) ** 1.5, 0.0, lambda x: 0.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions_are_within_their_bar_and_the_tolerance(name: str) -> None:
    f, x, derivative = SMOOTH[name]
    found = at(f, x)
    exact = derivative(np.float64(np.float32(x)))
    assert abs(found.value[0] - exact) <= found.bar[0]
    assert found.bar[0] <= 1e-3 + 1e-2 * abs(exact)
    assert not found.kink[0]


def test_richardson_reaches_1e_11_where_float32_differences_are_off_by_percents() -> None:
    found = at(lambda x: x**3, 1000.0)
    assert found.value[0] == pytest.approx(3e6, rel=1e-11)
    x, h = np.float32(1000), np.float32(1e-4)
    with np.errstate(all="ignore"):
        plain = ((x + h) ** 3 - (x - h) ** 3) / (2 * h)
    assert abs(plain / 3e6 - 1) > 0.01


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-5, 1e-6, 1e-9, -1e-9, -1e-5])
@pytest.mark.parametrize("f", [np.abs, lambda x: np.maximum(x, 0)], ids=["abs", "relu"])
def test_beside_a_kink_the_slope_of_this_side_is_found(f: Callable, distance: float) -> None:
    found = at(f, distance)
    side = np.sign(distance) if f is np.abs else float(distance > 0)
    assert found.value[0] == pytest.approx(side, abs=1e-9)
    assert found.bar[0] < 1e-3
    assert not found.kink[0]


def test_a_kink_has_a_left_and_a_right_slope() -> None:
    found = at(np.abs, 0.0)
    assert (found.left[0], found.right[0], bool(found.kink[0])) == (-1.0, 1.0, True)
    found = at(lambda x: np.maximum(x, 0), 0.0)
    assert (found.left[0], found.right[0], bool(found.kink[0])) == (0.0, 1.0, True)


ROUNDED_AWAY = {
    "acos of cos": (lambda h: np.arccos(np.clip(np.cos(h), -1, 1)), 1.0),
    "acos of a product": (lambda h: np.arccos(np.clip(1 / np.sqrt(1 + h * h), -1, 1)), 1.0),
    "twice acos": (lambda h: 2 * np.arccos(np.clip(np.cos(0.5 * h), -1, 1)), 1.0),
    "asin": (lambda h: np.arcsin(1 - h * h), -np.sqrt(2)),
    "beside a slope": (lambda h: np.arccos(np.clip(np.cos(0.3 * h), -1, 1)) + h, None),
    "an offset": (lambda h: 5 + np.arccos(np.clip(np.cos(h), -1, 1)), 1.0),
    "large": (lambda h: 1e3 * np.arccos(np.clip(np.cos(h), -1, 1)), 1e3),
    "sine from cosine": (lambda h: np.sqrt(np.maximum(1 - np.cos(h) ** 2, 0)), 1.0),
    "a chord": (lambda h: np.sqrt(np.maximum(2 - 2 * np.cos(h), 0)), 1.0),
    "acosh of cosh": (lambda h: np.arccosh(np.cosh(h)), 1.0),
    "a small direction": (lambda h: np.arccos(np.clip(np.cos(0.006 * h), -1, 1)), 0.006),
}


@pytest.mark.parametrize("name", ROUNDED_AWAY)
def test_a_kink_that_rounding_hides_from_small_steps(name: str) -> None:
    f, right = ROUNDED_AWAY[name]
    found = at(f, 0.0)
    assert found.kink[0]
    if right is None:
        assert (found.left[0], found.right[0]) == (pytest.approx(0.7, rel=1e-3), pytest.approx(1.3, rel=1e-3))
    else:
        assert (found.left[0], found.right[0]) == (
            pytest.approx(-right, rel=1e-4),
            pytest.approx(right, rel=1e-4),
        )


@pytest.mark.parametrize("offset", [0.0, 1.0, 3.7, 30.0, 3000.0])
@pytest.mark.parametrize(
    "f",
    [np.abs, lambda h: np.maximum(h, 0.0), lambda h: np.where(h > 0, 0.755 * h, 0.727 * h) + h * h],
    ids=["abs", "relu", "curved"],
)
def test_a_small_kink_on_a_large_value_is_not_lost_when_the_smallest_steps_are_rounded(
    f: Callable, offset: float
) -> None:
    for size in np.geomspace(0.02, 1.0, 18):
        found = at(lambda h, size=size: offset + size * f(h) + 0.3 * np.sin(h), 0.0)
        assert found.kink[0], size
        assert found.right[0] - found.left[0] == pytest.approx(
            size * (f(1e-6) - f(-1e-6) * -1) / 1e-6, rel=0.1
        )


@pytest.mark.parametrize("distance", [1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_a_kink_that_lies_beside_is_none_here(distance: float, offset: float) -> None:
    for f, slope_here in (
        (np.abs, 1.0),
        (lambda h: np.maximum(h, 0.0), 1.0),
        (lambda h: np.minimum(h, 0.0), 0.0),
    ):
        for scale in (1.0, 1e3):
            found = at(lambda h, f=f, scale=scale: scale * f(h + distance) + offset, 0.0)
            assert not found.kink[0]
            assert abs(found.value[0] - scale * slope_here) <= max(found.bar[0], 1e-3 * scale)


@pytest.mark.parametrize("width", [1e-3, 1e-5, 1e-7, 1e-8, 1e-9, 1e-10])
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_smooth_functions_that_are_straight_on_both_sides_are_no_kinks(width: float, offset: float) -> None:
    for f in (
        lambda h: np.sqrt(h * h + width * width) + offset,
        lambda h: np.where(np.abs(h) < width, h * h / (2 * width), np.abs(h) - width / 2) + offset,
        lambda h: h * np.tanh(h / width) + offset,
        lambda h: (np.log1p(np.exp(-np.abs(h / width))) + np.maximum(h / width, 0)) * width + offset,
    ):
        found = at(f, 0.0)
        assert not found.kink[0]
        assert abs(found.value[0] - round(2 * found.value[0]) / 2) <= max(1e-6, found.bar[0])


@pytest.mark.parametrize(
    "f",
    [
        lambda h: np.arccos(np.cos(h)) ** 2,
        lambda h: np.arccos(0.5 + h),
        lambda h: 1e8 * (1 - np.cos(h)),
        lambda h: np.log(np.exp(h) + np.exp(-h)),
        lambda h: np.trunc(h * 1e6) / 1e6,
        lambda h: np.float64(np.float32(1 + h)),
    ],
)
def test_other_rounded_functions_are_no_kinks(f: Callable) -> None:
    assert not at(f, 0.0).kink[0]


@pytest.mark.parametrize("f, x", [(np.floor, 3.0), (np.sign, 0.0), (np.ceil, -2.0)])
def test_a_jump_is_a_kink(f: Callable, x: float) -> None:
    assert at(f, x).kink[0]


def test_flat_between_jumps_is_no_kink() -> None:
    found = at(np.floor, 3.1)
    assert (found.value[0], bool(found.kink[0])) == (0.0, False)


def test_chaos_widens_the_bar_and_is_no_kink() -> None:
    def logistic(x: np.ndarray) -> np.ndarray:
        for _ in range(80):
            x = 3.9 * x * (1 - x)
        return x

    found = at(logistic, 0.3)
    assert found.bar[0] > abs(found.value[0]) * 0.1
    assert not found.kink[0]


KINKS_AND_CURVES = {
    "abs": np.abs,
    "relu": lambda h: np.maximum(h, 0.0),
    "curved on both sides": lambda h: np.where(h > 0, 0.755 * h, 0.727 * h) + h * h,
    "a jump": np.sign,
    "a wavering kink": lambda h: wavering(h),
    "a slope beside a jump": lambda h: np.floor(h) + 3 * h,
    "a kink that a wider one hides": lambda h: np.abs(h) + np.abs(h + 1e-7),
    "a kink in a curve": lambda h: np.abs(h) * (1 + np.tanh(h * 1e7)),
    **ROUNDED_AWAY,
    **{
        f"{name}, rounded off at {width:g}": lambda h, f=f, width=width: f(h, width)
        for width in (1e-3, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)
        for name, f in {
            "a hyperbola": lambda h, width: np.sqrt(h * h + width * width),
            "a parabola": lambda h, width: np.where(
                np.abs(h) < width, h * h / (2 * width), np.abs(h) - width / 2
            ),
            "tanh": lambda h, width: h * np.tanh(h / width),
            "a kink beside": lambda h, width: np.abs(h + width),
        }.items()
    },
}


@pytest.mark.parametrize("name", KINKS_AND_CURVES)
def test_steps_that_are_skipped_do_not_change_what_is_found(name: str) -> None:
    """The sweep over two equal outputs takes every step."""
    f = KINKS_AND_CURVES[name]
    f = f[0] if isinstance(f, tuple) else f
    for offset in (0.0, 1.0, 1e3):
        for size in (1e-4, 0.3, 1.0):
            one = at(lambda h, offset=offset, size=size: offset + size * f(h), 0.0)
            two = at(lambda h, offset=offset, size=size: np.repeat(offset + size * f(h), 2), 0.0)
            assert one.kink[0] == two.kink[0], (offset, size)
            if one.kink[0]:
                gap = abs(two.right[0] - two.left[0])
                for side in ("left", "right"):
                    assert getattr(one, side)[0] == pytest.approx(getattr(two, side)[0], abs=0.05 * gap)
            else:
                assert (one.value[0], one.bar[0]) == (two.value[0], two.bar[0])


def wavering(h: np.ndarray) -> np.ndarray:
    """A kink whose slopes agree in about two digits from step to step, at any step."""
    return np.abs(h) * (1 + 0.012 * np.sin(np.log(np.abs(h) + 1e-300)))


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize(("f", "evaluations"), [(np.abs, 8), (wavering, 12)])
def test_a_kink_takes_as_many_evaluations_as_confirm_it(f: Callable, evaluations: int, offset: float) -> None:
    found = at(lambda h: offset + f(h), 0.0)
    assert found.kink[0]
    assert found.evaluations == evaluations
    assert at(lambda h: offset + np.array([1, 1]) * f(h), 0.0).evaluations == 22


@pytest.mark.parametrize("size", [1.0, 0.3, 0.1, 0.03, 0.01])
def test_a_kink_of_many_digits_is_confirmed_by_one_step_near_its_rounding(size: float) -> None:
    """Such a kink on a large value took a step that rounding blurs less, and then one as small as can be."""
    steps: list[float] = []

    def displaced(step: float) -> np.ndarray:
        steps.append(abs(step))
        return np.atleast_1d(100.0 + size * (abs(step) + step * step))

    found = slope(displaced, np.array([100.0]), eps=1e-4, magnitude=0.0, enough=default)
    assert found.kink[0]
    assert found.evaluations == 8
    rounding = 4 * 2.0**-52 * 100.0 / min(steps)
    assert 1 / 32 < rounding / (2 * size) <= 1 / 16


def test_the_smallest_step_that_confirms_a_kink_is_as_small_as_without_skipping() -> None:
    taken: dict[int, list[float]] = {1: [], 2: []}
    for outputs, steps in taken.items():

        def displaced(step: float, outputs: int = outputs, steps: list[float] = steps) -> np.ndarray:
            steps.append(abs(step))
            return np.full(outputs, 0.5 + abs(step))

        slope(displaced, np.full(outputs, 0.5), eps=1e-4, magnitude=0.0, enough=default)
    assert min(taken[1]) == min(taken[2])
    assert len(taken[1]) < len(taken[2])


def test_a_time_limit_between_skipped_steps_leaves_what_the_steps_before_gave() -> None:
    taken: list[float] = []

    def displaced(step: float) -> np.ndarray:
        taken.append(step)
        if len(taken) > 2 * LEAST_STEPS + 1:
            raise OutOfTime("")
        return np.atleast_1d(0.5 + abs(step))

    found = slope(displaced, np.array([0.5]), eps=1e-4, magnitude=0.0, enough=default)
    assert found.kink[0]
    assert (found.left[0], found.right[0]) == (pytest.approx(-1.0), pytest.approx(1.0))
    assert taken[6] < taken[4] / 10, "steps were skipped"


def test_outputs_that_do_not_depend_are_exactly_zero() -> None:
    found = at(lambda x: np.array([x[0] ** 2, 7.0]), 0.5)
    assert found.value[1] == 0.0
    assert found.value[0] == pytest.approx(1.0, abs=1e-9)


def test_a_function_without_finite_values_has_no_slope() -> None:
    found = at(lambda x: np.full(1, np.nan), 1.0)
    assert np.isnan(found.value[0])
    assert np.isinf(found.bar[0])


def test_smooth_functions_cost_four_evaluations() -> None:
    assert at(lambda x: x**3 + np.sin(x), 0.3).evaluations == 4


def test_a_sharper_demand_costs_more_evaluations() -> None:
    assert at(np.exp, 0.3, enough=lambda v: 1e-13 * np.abs(v)).evaluations > 4


def test_a_sweep_that_a_time_limit_ends_has_the_error_bar_of_its_steps() -> None:
    steps: list[float] = []

    def displaced(step: float) -> np.ndarray:
        steps.append(step)
        if len(steps) > allowed:
            raise OutOfTime("time was up")
        return np.array([np.sin(1.0 + step)])

    def swept() -> DerivativeEstimate:
        steps.clear()
        return slope(
            displaced, np.array([np.sin(1.0)]), eps=0.1, magnitude=1.0, enough=lambda found: 0 * found
        )

    allowed = 7
    found = swept()
    assert abs(found.value[0] - np.cos(1.0)) <= found.bar[0] <= 1e-4
    allowed = 5
    with pytest.raises(OutOfTime):
        swept()


def test_a_sweep_counts_as_compared_after_the_steps_that_give_it_a_result() -> None:
    calls: list[int] = []

    class Limit(Progress):
        def compared(self) -> None:
            calls.append(len(tried))

    tried: list[float] = []

    def noisy(x: np.ndarray) -> np.ndarray:
        tried.append(float(x[0]))
        return np.abs(x - 1.0)

    with enforced(Limit(False, 60.0)):
        at(noisy, 1.0)
    assert calls == [1 + 2 * LEAST_STEPS]


def shown(f: Callable, is_kink: bool = True) -> DerivativeEstimate:
    """Differentiate where a kink needs no proof."""

    def displaced(step: float) -> np.ndarray:
        return np.atleast_1d(np.float64(f(np.float64(step))))

    return slope(
        displaced,
        displaced(0.0),
        eps=1e-3,
        magnitude=1.0,
        enough=default,
        is_kink=lambda left, right: is_kink,
    )


@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0])
def test_a_kink_that_needs_no_proof_takes_two_steps(offset: float) -> None:
    def f(h: np.ndarray) -> np.ndarray:
        return np.abs(h) + 0.1 * h * h + offset

    found, proven = shown(f), shown(f, is_kink=False)
    assert found.is_brief and found.kink[0] and found.evaluations == 4
    assert (found.left[0], found.right[0]) == pytest.approx((-1.0, 1.0), rel=1e-3)
    assert not proven.is_brief and proven.kink[0] and proven.evaluations > 4


@pytest.mark.parametrize("width", [1e-6, 1e-5, 1e-4, 1e-3])
def test_a_curve_as_wide_as_float32_resolves_is_no_kink_that_needs_no_proof(width: float) -> None:
    found = shown(lambda h: np.sqrt(h * h + width * width))
    assert not found.is_brief and not found.kink[0]


def test_a_jump_needs_proof() -> None:
    found = shown(lambda h: np.where(h > 0, 1.0, 0.0))
    assert found.kink[0] and not found.is_brief
