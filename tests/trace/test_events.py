"""`Trace.events`: what happens around a tape, in order, bounded, and without keeping anything alive."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.optim import SGD
from tapedebug.runtime.tape.gradient_history import KEPT
from tests.diagnose.training_loop import Fit, N, descend


def message(tape: Any) -> list[tuple[str, str, str, str]]:
    """Kind, subject, array and how of each event."""
    trace = tape.trace()
    return [
        (e.kind, e.of, "" if e.array is None else trace.arrays[e.array].label, e.how) for e in trace.events
    ]


def test_a_step_of_a_training_loop() -> None:
    fit = Fit()
    for _ in range(2):
        tape, loss = fit.record()
        tape.backward(loss)
        SGD([fit.w], lr=0.1).step([fit.w.grad])
        print(loss.numpy())
        tape.zero()
    step = [
        ("backward", "gradient", "w", ""),
        ("read", "gradient", "w", "optimiser"),
        ("write", "values", "w", "assign"),
    ]
    assert message(tape) == [
        *step,
        ("zero", "gradient", "w", "zero"),
        ("backward", "tape", "", ""),
        *step,
        ("read", "values", "loss", "numpy"),
        ("zero", "tape", "", "zero"),
        ("zero", "gradient", "w", "zero"),
    ]
    trace = tape.trace()
    clocks = [event.clock for event in trace.events]
    assert clocks == sorted(clocks)
    first, second = [event for event in trace.events if event.of == "gradient" and event.kind == "backward"]
    assert first.clock < trace.tape.began < trace.tape.ended < second.clock
    assert (first.at, second.at) == (0, 2)
    assert second.tape == tape.id
    assert second.numbers == {"pass": 1.0}
    write = [event for event in trace.events if event.kind == "write"][-1]
    assert write.settled
    assert write.call_site is not None
    read = next(event for event in trace.events if event.how == "optimiser")
    assert read.numbers["norm"] == pytest.approx(3.66, abs=0.01)


def test_norms_before_and_after_a_pass_that_found_something() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    once = float(np.linalg.norm(fit.w.grad.numpy()))
    tape.backward(loss)
    event = [e for e in tape.trace().events if e.kind == "backward" and e.of == "gradient"][-1]
    assert event.again
    assert event.numbers["pass"] == 2
    assert event.numbers["norm_before"] == pytest.approx(once, rel=1e-6)
    assert event.numbers["norm_after"] == pytest.approx(2 * once, rel=1e-6)


def test_writes_that_nobody_announced_are_found_at_the_next_pass() -> None:
    fit = Fit()
    weights = fit.w.numpy()
    tape, loss = fit.record()
    tape.backward(loss)
    del tape, loss
    gc.collect()
    weights *= 0.5
    tape, loss = fit.record()
    tape.backward(loss)
    assert ("write", "values", "w", "unseen") in message(tape)
    del tape, loss
    gc.collect()
    wp.launch(descend, dim=N, inputs=[fit.w, fit.w.grad, 0.1])
    tape, loss = fit.record()
    tape.backward(loss)
    assert ("write", "values", "w", "launch") in message(tape)
    assert ("read", "gradient", "w", "launch") in message(tape)


def test_how_a_gradient_is_read() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    kept = wp.zeros(N, dtype=float)
    fit.w.grad.numpy()
    np.asarray(fit.w.grad)
    fit.w.grad.list()
    fit.w.grad[1]
    wp.copy(kept, fit.w.grad)
    kept.assign(fit.w.grad)
    wp.clone(fit.w.grad)
    wp.launch(descend, dim=N, inputs=[kept, fit.w.grad, 0.1])
    tape.gradients[fit.w].numpy()
    reads = [how for kind, of, _, how in message(tape) if (kind, of) == ("read", "gradient")]
    assert reads == ["numpy", "numpy", "list", "item", "copy", "copy", "copy", "launch", "numpy"]


def test_it_is_bounded() -> None:
    fit = Fit()
    tape, loss = fit.record()
    for _ in range(3 * KEPT):
        tape.backward(loss)
        fit.w.grad.numpy()
        fit.w.fill_(0.5)
    trace = tape.trace()
    history = fit.w.buffer.adjoint.history
    assert KEPT <= len(history.events) <= 2 * KEPT
    assert len(history.events) + history.dropped == 2 * 3 * KEPT
    assert [event.after_gap for event in history.events].index(True) == KEPT // 2, "the first ones stay"
    assert len(tape.tracker.log.events) <= 2 * KEPT
    assert len(trace.events) <= 1000
    assert trace.events_dropped > 0
    assert any(event.numbers.get("gap") == 1 for event in trace.events)


def test_it_keeps_nothing_alive() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    fit.w.grad.numpy()
    gone = weakref.ref(tape), weakref.ref(loss), weakref.ref(loss.buffer)
    del tape, loss
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


def test_events_survive_a_file_and_refer_to_arrays_that_exist(tmp_path: Any) -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    tape.zero()
    trace = tape.trace()
    trace.save(tmp_path / "run.tapetrace")
    assert wp.trace.load_trace(tmp_path / "run.tapetrace").events == trace.events
    data = trace.to_json()
    data["events"][0]["array"] = 99
    with pytest.raises(wp.trace.TraceError, match=r"events\[0\].array: there is no array 99"):
        wp.trace.trace_from_json(data)


def test_a_tape_that_is_reset_says_when() -> None:
    fit = Fit()
    tape, loss = fit.record()
    tape.backward(loss)
    before = tape.trace().tape
    tape.reset()
    with tape:
        wp.launch(descend, dim=N, inputs=[fit.w, fit.x, 0.1])
    trace = tape.trace()
    (reset,) = [event for event in trace.events if event.kind == "reset"]
    assert before.ended < reset.clock < trace.tape.began


def test_an_interrupted_pass_did_not_happen() -> None:
    fit = Fit()
    tape, _ = fit.record()

    def fail() -> None:
        raise RuntimeError("no")

    with tape:
        tape.record_func(fail, [fit.w])
    with pytest.raises(RuntimeError):
        tape.backward(grads={fit.w: np.ones(N)})
    assert [event for event in tape.trace().events if event.kind == "backward"] == []


def test_norms_of_large_gradients_are_estimated_and_touch_only_a_sample() -> None:
    from tapedebug.runtime.tape.gradient_history import WHOLE, norm_of, sample_of

    rng = np.random.default_rng(4)
    small, large = rng.normal(size=WHOLE), rng.normal(size=40 * WHOLE)
    assert norm_of(wp.array(small, dtype=wp.float64)) == pytest.approx(np.linalg.norm(small), rel=1e-12)
    assert norm_of(wp.array(large, dtype=wp.float64)) == pytest.approx(np.linalg.norm(large), rel=0.05)
    assert sample_of(large).size < WHOLE / 10
    assert norm_of(wp.array([1e30, 1e30], dtype=float)) == pytest.approx(2**0.5 * 1e30)
    assert norm_of(wp.zeros(3, dtype=float)) == 0


@wp.kernel
def twice(x: wp.array2d(dtype=float), y: wp.array2d(dtype=float)):
    i, j = wp.tid()
    y[i, j] = 2.0 * x[i, j]


@pytest.mark.parametrize("strided", [False, True])
def test_norms_of_repeated_passes_are_those_of_present_values(strided: bool) -> None:
    """The view of a sample is made once; a copy of the values would be that of the first pass."""
    n, m = 200, 201
    x, y = (wp.zeros((n, m + 1 if strided else m), dtype=float, requires_grad=True) for _ in range(2))
    if strided:
        x, y = x[:, :m], y[:, :m]
    with wp.Tape() as tape:
        wp.launch(twice, (n, m), [x, y])
    x.grad.fill_(1.0)
    for _ in range(3):
        tape.backward(grads={y: np.ones((n, m), np.float32)})
    norms = [
        [event.numbers[name] / (n * m) ** 0.5 for name in ("norm_before", "norm_after")]
        for event in tape.trace().events
        if event.kind == "backward" and event.of == "gradient"
    ]
    assert norms == [pytest.approx([1, 3]), pytest.approx([3, 5]), pytest.approx([5, 7])]
