"""Rule `seed`: backward from the sum where the mean is reported, and what only looks like it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose.gradient_pattern import factor_words, find_pattern
from tests.diagnose.training_loop import Fit, N, alarms, drag, found, line_of, misfit


@wp.kernel
def mean_of(total: wp.array(dtype=float), count: float, mean: wp.array(dtype=float)):
    mean[0] = total[0] / count


@wp.kernel
def root_of(total: wp.array(dtype=float), root: wp.array(dtype=float)):
    root[0] = wp.sqrt(total[0])


@wp.kernel
def pull(w: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, w[i] * w[i] * w[i])


class Sums:
    """A tape with a sum, its mean and its root."""

    def __init__(self) -> None:
        fit = Fit()
        self.w = fit.w
        y = wp.zeros(N, dtype=float, requires_grad=True)
        total, mean, root = (wp.zeros(1, dtype=float, requires_grad=True) for _ in range(3))
        with wp.Tape() as self.tape:
            wp.launch(drag, dim=N, inputs=[fit.w, fit.x], outputs=[y])
            wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[total])
            wp.launch(mean_of, dim=1, inputs=[total, float(N)], outputs=[mean])
            wp.launch(root_of, dim=1, inputs=[total], outputs=[root])
        self.total, self.mean, self.root = total, mean, root


def test_a_loss_that_was_named_is_compared_with_what_backward_began_from() -> None:
    sums = Sums()
    sums.tape.backward(sums.total)
    (finding,) = found(sums.tape, "seed", loss=sums.mean)
    here = line_of("sums.tape.backward(sums.total)", __file__)
    assert finding.message == (
        f"Backward ran at test_seed.py:{here} from total, and the objective is mean: every entry of the "
        "consumed gradient is 8 times (the threads of launch 1 (misfit)) that of the objective (to "
        "1e-07)."
    )
    assert (finding.severity, finding.fix) == ("error", "call backward(mean)")
    assert finding.launches == [2]
    assert finding.evidence["pattern"] == "factor"
    assert finding.evidence["ratio"] == pytest.approx(8.0)
    assert wp.diagnose(sums.tape, loss=sums.mean).verdict == "WRONG"
    assert found(sums.tape, "seed", loss=sums.total) == []


def test_a_mean_that_alone_is_read_is_a_warning() -> None:
    sums = Sums()
    sums.tape.backward(sums.total)
    assert found(sums.tape, "seed") == [], "nobody has read anything: no objective is known"
    print(sums.mean.numpy())
    (finding,) = found(sums.tape, "seed")
    assert (finding.severity, finding.arrays) == ("warning", ["total", "mean"])
    print(sums.total[0])
    assert found(sums.tape, "seed") == [], "the sum is read as well"


def test_a_root_that_is_read_is_no_multiple() -> None:
    sums = Sums()
    sums.tape.backward(sums.total)
    print(sums.root.list())
    assert found(sums.tape, "seed") == []


def test_seeds_of_every_sample_against_their_mean() -> None:
    fit = Fit()
    errors, loss = wp.zeros(N, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(drag, dim=N, inputs=[fit.w, fit.x], outputs=[errors])
        wp.launch(average, dim=N, inputs=[errors], outputs=[loss])
    tape.backward(grads={errors: np.ones(N)})
    (finding,) = found(tape, "seed", loss=loss)
    assert finding.severity == "error"
    assert "8 times (the threads of launch 1 (average)) that of the objective" in finding.message


@wp.kernel
def average(errors: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, errors[i] / float(N))


@pytest.mark.parametrize("seed", [-1.0, 1024.0])
def test_a_number_that_was_passed_is_meant(seed: float) -> None:
    sums = Sums()
    sums.tape.backward(grads={sums.total: np.array([seed])})
    (finding,) = found(sums.tape, "seed", loss=sums.total)
    assert (finding.severity, finding.fix) == ("info", "")


def test_a_zero_seed_is_an_error() -> None:
    sums = Sums()
    sums.tape.backward(grads={sums.total: np.array([0.0])})
    (finding,) = found(sums.tape, "seed", loss=sums.total)
    assert finding.severity == "error"
    assert "the consumed gradient is 0, that of the objective is not." in finding.message


def test_a_pass_without_a_seed_or_with_a_seed_of_0_says_so() -> None:
    sums = Sums()
    sums.tape.backward(grads={})
    (finding,) = found(sums.tape, "seed", loss=sums.total)
    here = line_of("sums.tape.backward(grads={})", __file__)
    rest = "and the objective is total: the consumed gradient is 0, that of the objective is not."
    assert finding.message == f"Backward ran at test_seed.py:{here} without a seed, {rest}"
    sums.tape.backward(grads={sums.root: np.zeros(1)})
    (finding,) = found(sums.tape, "seed", loss=sums.total)
    here = line_of("sums.tape.backward(grads={sums.root: np.zeros(1)})", __file__)
    assert finding.message == f"Backward ran at test_seed.py:{here} from root with a seed of 0, {rest}"


def test_the_loss_of_an_earlier_pass_is_no_mismatch() -> None:
    sums = Sums()
    sums.tape.backward(sums.total)
    sums.tape.backward(sums.root)
    assert found(sums.tape, "seed", loss=sums.total) == []


def test_one_term_of_what_was_seeded_may_be_looked_at() -> None:
    fit = Fit()
    y = wp.zeros(N, dtype=float, requires_grad=True)
    one, other = (wp.zeros(1, dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(drag, dim=N, inputs=[fit.w, fit.x], outputs=[y])
        wp.launch(misfit, dim=N, inputs=[y, fit.t], outputs=[one])
        wp.launch(pull, dim=N, inputs=[fit.w], outputs=[other])
    tape.backward(one)
    assert alarms(tape, loss=other) == []
    (finding,) = found(tape, "seed", loss=other)
    assert finding.evidence["pattern"] == "other"


def test_signatures() -> None:
    right: Any = np.array([[1.0, 2.0], [3.0, 4.0]])
    cases = {"equal": right, "zero": 0 * right, "sign": -right, "factor": 2 * right, "transposed": right.T}
    found_names = {name: find_pattern({0: got}, {0: right}).name for name, got in cases.items()}
    assert found_names == {name: name for name in cases}
    assert find_pattern({0: right + [[0, 0], [0, 9.0]]}, {0: right}).name == "other"
    assert find_pattern({0: right}, {0: 0 * right}).name == "other"
    assert find_pattern({0: right * np.nan}, {0: right}).name == "other"
    assert factor_words(8.0, {8: "the elements of x"}) == "8 times (the elements of x)"
    assert factor_words(0.125, {8: "the elements of x"}) == "1/8 of (the elements of x)"
    assert factor_words(2.5, {8: "the elements of x"}) == "2.5 times"
