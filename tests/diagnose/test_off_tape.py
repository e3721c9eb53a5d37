"""Rule `seed`: the objective is a number that the program computes off the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.diagnose.training_loop import alarms, found, line_of

N = 20


@wp.kernel
def curve(w: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = w[0] * x[i] * x[i] + wp.sin(w[1] * x[i])


@wp.kernel
def squared(y: wp.array(dtype=float), t: wp.array(dtype=float), error: wp.array(dtype=float)):
    i = wp.tid()
    error[i] = (y[i] - t[i]) * (y[i] - t[i])


@wp.kernel
def add(error: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, error[wp.tid()])


@wp.kernel
def weighted(error: wp.array(dtype=float), weight: float, total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, weight * error[wp.tid()])


class Fit:
    """A curve through points; `total` is the sum of `error`, times `weight`."""

    def __init__(self, weight: float = 1.0) -> None:
        self.count = N
        self.wanted = np.cos(np.linspace(0.0, 2.0, N)).astype(np.float32)
        self.w = wp.array([0.3, 0.7], dtype=float, requires_grad=True)
        self.x = wp.array(np.linspace(0.0, 2.0, N), dtype=float)
        self.t = wp.array(self.wanted, dtype=float)
        self.y, self.error = (wp.zeros(N, dtype=float, requires_grad=True) for _ in range(2))
        self.total = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as self.tape:
            wp.launch(curve, dim=N, inputs=[self.w, self.x], outputs=[self.y])
            wp.launch(squared, dim=N, inputs=[self.y, self.t], outputs=[self.error])
            wp.launch(weighted, dim=N, inputs=[self.error, weight], outputs=[self.total])

    def ones(self) -> Fit:
        self.tape.backward(grads={self.error: np.ones(N)})
        return self

    def sums(self) -> Fit:
        self.tape.backward(self.total)
        return self

    def value(self) -> float:
        return float(self.total.numpy()[0])

    def average(self) -> float:
        return self.value() / self.count


def seed_of(tape: Any) -> Any:
    (finding,) = found(tape, "seed")
    return finding


def test_a_mean_by_numpy_of_errors_that_were_all_seeded_with_1() -> None:
    fit = Fit().ones()
    reported = float(np.mean(fit.error.numpy()))
    finding = seed_of(fit.tape)
    here = line_of("reported = float(np.mean(fit.error.numpy()))", __file__)
    backward = line_of("self.tape.backward(grads={self.error: np.ones(N)})", __file__)
    slope, consumed = finding.evidence["slope_difference"], finding.evidence["slope_consumed"]
    assert finding.message == (
        f"Backward ran at test_off_tape.py:{backward} from self.error, and what the program reports at "
        f"test_off_tape.py:{here}, `float(np.mean(fit.error.numpy()))`, is computed off the tape from "
        "self.error: every entry of the consumed gradient is 20 times (the threads of launch 1 "
        "(squared)) that of this number (to 1e-07). Along it the slope of the number is "
        f"{slope:.3g} by differences in float64 and {consumed:.3g} by the gradient."
    )
    assert consumed == pytest.approx(20 * slope, rel=1e-4)
    assert finding.evidence["ratio"] == pytest.approx(20.0, rel=1e-4)
    assert (finding.severity, finding.call_site.line, reported > 0) == ("warning", backward, True)
    assert finding.fix == (
        "begin backward with 1/20 of this seed, by grads= or in the kernel that writes self.error; or report "
        "the number that backward begins from"
    )


def printed(fit: Fit) -> None:
    print(fit.error.numpy().mean())


def kept(fit: Fit) -> None:
    history = []
    history.append(np.sum(fit.error.numpy()) / len(fit.wanted))
    assert history


def named(fit: Fit) -> None:
    found = fit.error.numpy()
    mean = found.sum() / fit.error.size
    print(f"{mean:.3f}")


def by_list(fit: Fit) -> None:
    print(sum(fit.error.list()) / N)


def by_interface(fit: Fit) -> None:
    print("loss", float(np.mean(fit.error)))


def out_of_a_function(fit: Fit) -> None:
    print(fit.average())


def by_item(fit: Fit) -> None:
    count = float(N)
    print(round(fit.total[0] / count, 4))


def of_what_is_below(fit: Fit) -> None:
    wanted = fit.wanted
    print(np.mean((fit.y.numpy() - wanted) ** 2))


def with_arrays_of_ours(fit: Fit) -> None:
    t = fit.t
    off = fit.y.numpy() - t.numpy()
    print(np.dot(off, off) / len(off))


def over_lines(fit: Fit) -> None:
    print(fit.error.numpy().astype(np.float64).mean())


def in_a_report(fit: Fit) -> None:
    best = np.inf
    for number in range(2):
        value = report(fit.total, len(fit.wanted), number)
        best = min(best, value)
    assert best < np.inf


def report(total: Any, n: int, number: int) -> float:
    value: float = total.numpy().item() / n
    if number == 0:
        print(f"loss {value:.4f}")
    return value


MEANS = [
    *(printed, kept, named, by_list, by_interface, out_of_a_function, by_item, of_what_is_below),
    *(with_arrays_of_ours, over_lines, in_a_report),
]


@pytest.mark.parametrize("report", MEANS)
@pytest.mark.parametrize("seed", ["ones", "sums"])
def test_means_however_they_are_written(report: Callable[[Fit], None], seed: str) -> None:
    fit = Fit()
    fit.ones() if seed == "ones" else fit.sums()
    report(fit)
    finding = seed_of(fit.tape)
    assert (finding.severity, finding.evidence["ratio"]) == ("warning", pytest.approx(20.0, rel=1e-3))


@pytest.mark.parametrize("report", MEANS)
def test_the_same_means_are_the_objective_where_they_are_seeded(report: Callable[[Fit], None]) -> None:
    fit = Fit(weight=1.0 / N).sums()
    if report in (out_of_a_function, by_item, in_a_report):
        print(fit.value())
    else:
        report(fit)
    assert alarms(fit.tape) == []


def test_a_sum_is_reported_and_a_mean_is_seeded() -> None:
    fit = Fit()
    fit.tape.backward(grads={fit.error: np.full(N, 1.0 / N)})
    print("loss", fit.error.numpy().sum())
    finding = seed_of(fit.tape)
    assert finding.evidence["ratio"] == pytest.approx(1.0 / N, rel=1e-3)
    assert "is 1/20 of (the threads of launch 1 (squared)) that of this number" in finding.message
    assert finding.fix.startswith("begin backward with 20 of this seed")


def test_a_derivative_by_hand_that_lacks_the_count() -> None:
    fit = Fit()
    wanted = fit.wanted
    off = fit.y.numpy() - wanted
    print("loss", np.mean(off**2))
    fit.tape.backward(grads={fit.y: 2.0 * off})
    assert seed_of(fit.tape).evidence["ratio"] == pytest.approx(20.0, rel=1e-3)


def root(fit: Fit) -> None:
    print(np.sqrt(np.mean(fit.error.numpy())))


def both(fit: Fit) -> None:
    print(fit.error.numpy().sum(), fit.error.numpy().mean())


def units(fit: Fit) -> None:
    print(fit.total.numpy()[0] / 1000.0, "kJ")


def worst(fit: Fit) -> None:
    found = fit.error.numpy()
    print(found.max(), np.median(found), np.mean(found < 0.1), found.argmax())


def other_function(fit: Fit) -> None:
    print(score(fit.error.numpy()))


def score(values: Any) -> float:
    return float(values.mean())


def added_up(fit: Fit) -> None:
    epoch = 0.0
    epoch += float(fit.total.numpy()[0])
    print(epoch / N)


def unknown_count(fit: Fit) -> None:
    print(fit.total.numpy()[0] / int("20"))


def mean_of_the_curve(fit: Fit) -> None:
    print("mean height", fit.y.numpy().mean())


@pytest.mark.parametrize(
    "report", [root, both, units, worst, other_function, added_up, unknown_count, mean_of_the_curve]
)
@pytest.mark.parametrize("seed", ["ones", "sums"])
def test_what_is_no_mean_or_not_the_only_number_is_silent(report: Callable[[Fit], None], seed: str) -> None:
    fit = Fit()
    fit.ones() if seed == "ones" else fit.sums()
    report(fit)
    assert alarms(fit.tape) == []


def test_what_can_not_be_followed_is_noted() -> None:
    fit = Fit().ones()
    other_function(fit)
    assert [note for note in wp.diagnose(fit.tape).coverage.notes if "could not be followed" in note] == [
        "backward began from self.error, and the program computes something of it off the tape that could "
        "not be followed: whether that is the objective is not known (pass loss= to compare with it)"
    ]


def test_a_step_that_is_divided_by_the_count_makes_up_for_it() -> None:
    fit, many, rate = Fit().ones(), N, 0.1
    print(fit.error.numpy().sum() / many)
    fit.w.assign(fit.w.numpy() - rate / many * fit.w.grad.numpy())
    here = line_of("fit.w.assign(fit.w.numpy() - rate / many", __file__)
    finding = seed_of(fit.tape)
    assert (finding.severity, finding.fix) == ("info", "")
    assert finding.message.endswith(
        f"A step is divided at test_off_tape.py:{here}, which may make up for it."
    )


@wp.kernel
def bend(w: wp.array(dtype=float), cell: wp.array2d(dtype=float)):
    i, j = wp.tid()
    off = w[0] * 0.01 * float(i) + w[1] * wp.sin(0.05 * float(j)) - 0.5
    cell[i, j] = off * off


def test_a_mean_over_a_large_picture() -> None:
    w = wp.array([0.3, 0.7], dtype=float, requires_grad=True)
    cell = wp.zeros((100, 200), dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(bend, dim=(100, 200), inputs=[w], outputs=[cell])
    tape.backward(grads={cell: np.ones((100, 200))})
    print(np.sqrt(cell.numpy().mean()), (cell.numpy() ** 2).mean())
    assert found(tape, "seed") == [], "neither is a multiple of the sum"
    print(cell.numpy().mean())
    finding = seed_of(tape)
    assert finding.evidence["ratio"] == pytest.approx(20000.0, rel=1e-3)
    assert "is 20000 times (the threads of launch 0 (bend)) that of this number" in finding.message


def test_a_read_asks_no_module_for_names_that_it_makes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tapedebug._unsupported.missing", lambda *names: asked.append(str(names)))
    fit = Fit().ones()
    print(wp.float32, fit.error.numpy().mean())
    assert asked == []
