"""Rule `truncated`, and diagnoses of several tapes: what goes from tape to tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.diagnose.training_loop import line_of

N, STEPS, WINDOWS = 6, 5, 3


@wp.kernel
def grow(x: wp.array(dtype=float), k: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] + 0.05 * (k[0] * x[i] - x[i] * x[i] * x[i])


@wp.kernel
def gap(x: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - wanted) * (x[i] - wanted))


class Run:
    """A run in windows of one tape each; `carry` is what happens to the state between them."""

    def __init__(
        self, *, carried_loss: bool = False, carry: Any = lambda x: x, windows: int = WINDOWS
    ) -> None:
        self.k = wp.array([1.5], dtype=float, requires_grad=True)
        x = wp.array(np.linspace(0.1, 1.0, N), dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        self.tapes: list[Any] = []
        self.losses: list[Any] = []
        for _ in range(windows):
            loss = loss if carried_loss else wp.zeros(1, dtype=float, requires_grad=True)
            with wp.Tape() as tape:
                x = self.window(x, loss)
            x = carry(x)
            self.tapes.append(tape)
            self.losses.append(loss)

    def window(self, x: Any, loss: Any) -> Any:
        for _ in range(STEPS):
            y = wp.zeros(N, dtype=float, requires_grad=True)
            wp.launch(grow, dim=N, inputs=[x, self.k], outputs=[y])
            x = y
        wp.launch(gap, dim=N, inputs=[x, 0.5], outputs=[loss])
        return x

    def backward(self, order: int = 1) -> Run:
        for tape, loss in list(zip(self.tapes, self.losses, strict=True))[::order]:
            tape.backward(loss)
        return self


def truncated(run: Run, **options: Any) -> list[Any]:
    return [item for item in wp.diagnose(run.tapes, **options).findings if item.rule == "truncated"]


def on_one_tape() -> float:
    """The gradient of all windows, from one tape."""
    k = wp.array([1.5], dtype=float, requires_grad=True)
    run = Run.__new__(Run)
    run.k = k
    x, loss = wp.array(np.linspace(0.1, 1.0, N), dtype=float), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(WINDOWS):
            x = run.window(x, loss)
    tape.backward(loss)
    return float(k.grad.numpy()[0])


def test_the_gradient_over_all_tapes_is_measured_and_confirmed() -> None:
    run = Run().backward()
    diagnosis = wp.diagnose(run.tapes)
    (finding,) = diagnosis.findings
    whole, consumed = on_one_tape(), float(run.k.grad.numpy()[0])
    evidence = finding.evidence
    assert evidence["relative_error"]["self.k"] == pytest.approx(abs(consumed - whole) / abs(whole), rel=1e-4)
    assert evidence["slope_whole"] == pytest.approx(abs(whole), rel=1e-5)
    assert evidence["slope_difference"] == pytest.approx(abs(whole), rel=1e-5)
    assert evidence["slope_consumed"] == pytest.approx(abs(consumed), rel=1e-5)
    first, second = (trace.name for trace in diagnosis.traces[:2])
    off = 100 * abs(consumed - whole) / abs(whole)
    assert finding.message == (
        "self.k collects gradient from 3 tapes, without an update or a zero in between, and launch 0 (grow) "
        f"of {second} reads the x that launch 4 (grow) of {first} wrote. No gradient flows back from tape to "
        f"tape. Against the gradient over all of them the sum puts self.k off by {off:.0f} %. The slope of "
        f"all losses along that gradient is {abs(whole):.3g} by it, {abs(consumed):.3g} by the sum and "
        f"{abs(whole):.3g} by differences in float64."
    )
    assert 30 < off < 50
    assert (finding.severity, finding.tape, finding.launches) == ("warning", 1, [0])
    assert finding.location.line == line_of("y[i] = x[i] + 0.05", __file__)
    assert finding.call_site.line == line_of("wp.launch(grow, dim=N", __file__)
    ids = [tape.id for tape in run.tapes]
    assert [(edge["from_tape"], edge["to_tape"]) for edge in evidence["edges"]] == [
        (ids[0], ids[1]),
        (ids[1], ids[2]),
    ]
    assert evidence["edges"][0]["from_launch"] == STEPS - 1


def test_a_loss_that_is_carried_on_makes_it_an_error() -> None:
    diagnosis = wp.diagnose(Run(carried_loss=True).backward().tapes)
    (finding,) = [item for item in diagnosis.findings if item.rule == "truncated"]
    assert finding.severity == "error"
    assert diagnosis.verdict == "WRONG"
    assert "over all tapes together the gradient is WRONG: see truncated" in diagnosis.coverage.notes


def test_a_copy_of_the_state_carries_it_too() -> None:
    (finding,) = truncated(Run(carry=wp.clone).backward())
    assert "(grow), through a copy, of " in finding.message
    assert finding.fix.startswith("record all of it on one tape; where it is truncated on purpose")


def test_backward_from_the_last_to_the_first_hands_the_gradient_on() -> None:
    run = Run().backward(order=-1)
    assert truncated(run) == []
    assert float(run.k.grad.numpy()[0]) == pytest.approx(on_one_tape(), rel=1e-5)


def detached(x: Any) -> Any:
    return wp.clone(x, requires_grad=False)


def new_every_time(x: Any) -> Any:
    x.assign(np.random.default_rng(3).uniform(0.1, 1.0, N))
    return x


def reset_to_a_constant(x: Any) -> Any:
    x.fill_(0.5)
    return x


@pytest.mark.parametrize("carry", [detached, new_every_time, reset_to_a_constant])
def test_a_state_that_is_detached_or_reset_is_none(carry: Any) -> None:
    assert truncated(Run(carry=carry).backward()) == []


@pytest.mark.parametrize("update", [True, False])
def test_windows_with_an_update_or_a_zero_between_them_are_none(update: bool) -> None:
    run = Run()
    for tape, loss in zip(run.tapes, run.losses, strict=True):
        tape.backward(loss)
        if update:
            run.k.assign(run.k.numpy() - 0.1 * run.k.grad.numpy())
        run.k.grad.zero_()
    assert truncated(run) == []


def test_a_long_run_is_told_in_rows_of_eight() -> None:
    run = Run(windows=10).backward()
    findings = truncated(run)
    assert [len(item.evidence["tapes"]) for item in findings] == [8, 3]


def test_tapes_are_listed_in_the_order_of_recording_and_losses_go_with_them() -> None:
    run = Run().backward()
    backwards = wp.diagnose(run.tapes[::-1], loss=run.losses[::-1])
    assert [trace.tape.id for trace in backwards.traces] == [tape.id for tape in run.tapes]
    assert [len(trace.checks) for trace in backwards.traces] == [2, 2, 2]
    data = backwards.to_json()
    assert [item["tape"] for item in data["findings"]] == [1]
    text = str(backwards)
    assert text.startswith("3 tapes · 18 launches · gradient AGREE, 1 warning\n")
    assert "! warning · truncated · x, self.k · [1] " in text


def test_one_loss_for_all_and_none_for_some() -> None:
    run = Run(carried_loss=True).backward()
    assert len(wp.diagnose(run.tapes, loss=run.losses[0]).traces) == 3
    assert len(wp.diagnose(run.tapes, loss=[None, run.losses[0], None]).traces) == 3


def test_a_list_of_losses_has_one_for_each_tape() -> None:
    run = Run().backward()
    with pytest.raises(TypeError) as caught:
        wp.diagnose(run.tapes, loss=run.losses[:2])
    assert str(caught.value) == (
        "diagnose: a list of losses has one for each tape (or None); there are 3 tapes and 2 losses"
    )


def test_one_tape_alone_says_nothing_of_several() -> None:
    run = Run().backward()
    diagnosis = wp.diagnose(run.tapes[1])
    assert diagnosis.findings == []
    assert not any("tapes" in note for note in diagnosis.coverage.notes)
    assert wp.diagnose(run.tapes[:1], loss=[run.losses[0]]).verdict == "AGREE"
