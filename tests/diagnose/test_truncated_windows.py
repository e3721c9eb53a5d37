"""Rule `truncated`, windows of one run: which adjoints are handed from each to the one before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.diagnose.training_loop import alarms, line_of

N, STEPS, WINDOWS = 5, 4, 3


@wp.kernel
def step(
    x: wp.array(dtype=float),
    v: wp.array(dtype=float),
    k: wp.array(dtype=float),
    x_next: wp.array(dtype=float),
    v_next: wp.array(dtype=float),
):
    i = wp.tid()
    v_next[i] = v[i] - 0.2 * (k[0] * wp.sin(x[i]) + k[1] * v[i])
    x_next[i] = x[i] + 0.2 * v_next[i]


@wp.kernel
def energy(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


@wp.kernel
def add(source: wp.array(dtype=float), target: wp.array(dtype=float)):
    i = wp.tid()
    target[i] = target[i] + source[i]


def array(values: Any, grad: bool = True) -> Any:
    return wp.array(np.asarray(values, np.float32), dtype=float, requires_grad=grad)


class Run:
    """Carts with a spring and a damper; `k` is what the gradient is wanted of."""

    def __init__(self, count: int = N) -> None:
        self.count = count
        self.k = array([1.0, 0.3])
        self.start = np.linspace(0.2, 1.3, count), np.linspace(-0.4, 0.5, count)
        self.tapes: list[Any] = []

    def record(self, x: Any, v: Any, loss: Any = None, into: Any = None) -> tuple[Any, Any, Any]:
        with wp.Tape() as tape:
            for number in range(STEPS):
                last = into is not None and number == STEPS - 1
                after = into if last else [array(np.zeros(self.count)) for _ in range(2)]
                wp.launch(step, dim=self.count, inputs=[x, v, self.k], outputs=list(after))
                x, v = after
            if loss is not None:
                wp.launch(energy, dim=self.count, inputs=[x], outputs=[loss])
        self.tapes.append(tape)
        return tape, x, v

    def plain(self, x: Any, v: Any) -> tuple[Any, Any]:
        _, x, v = self.record(array(x), array(v))
        self.tapes.pop()
        return x.numpy().copy(), v.numpy().copy()

    def update(self) -> Run:
        self.k.assign(self.k.numpy() - 0.01 * self.k.grad.numpy())
        return self


def from_checkpoints(hand: Callable[..., dict[Any, Any]], count: int = N) -> Run:
    """Windows that are recorded again from the last to the first; `hand` gives the seeds of one."""
    run = Run(count)
    states: list[Any] = [run.start]
    for _ in range(WINDOWS - 1):
        states.append(run.plain(*states[-1]))
    adjoint: Any = None
    for values in reversed(states):
        x, v = (array(part) for part in values)
        loss = wp.zeros(1, dtype=float, requires_grad=True) if adjoint is None else None
        tape, x_end, v_end = run.record(x, v, loss)
        if adjoint is None:
            tape.backward(loss)
        else:
            tape.backward(grads=hand(x_end, v_end, *adjoint))
        adjoint = x.grad.numpy().copy(), v.grad.numpy().copy()
    return run.update()


def both(x: Any, v: Any, adjoint_x: Any, adjoint_v: Any) -> dict[Any, Any]:
    return {x: adjoint_x, v: adjoint_v}


def no_speed(x: Any, v: Any, adjoint_x: Any, adjoint_v: Any) -> dict[Any, Any]:
    return {x: adjoint_x}


def zero_speed(x: Any, v: Any, adjoint_x: Any, adjoint_v: Any) -> dict[Any, Any]:
    return {x: adjoint_x, v: np.zeros_like(adjoint_v)}


def no_place(x: Any, v: Any, adjoint_x: Any, adjoint_v: Any) -> dict[Any, Any]:
    return {v: adjoint_v}


def whole(count: int = N) -> Any:
    """The gradient of all windows, from one tape."""
    run = Run(count)
    x, v = (array(part) for part in run.start)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(WINDOWS * STEPS):
            after = [array(np.zeros(count)) for _ in range(2)]
            wp.launch(step, dim=count, inputs=[x, v, run.k], outputs=after)
            x, v = after
        wp.launch(energy, dim=count, inputs=[x], outputs=[loss])
    tape.backward(loss)
    return run.k.grad.numpy()


@pytest.mark.parametrize("count", [1, N])
def test_both_adjoints_handed_on_give_the_gradient_and_no_finding(count: int) -> None:
    run = from_checkpoints(both, count)
    assert run.k.grad.numpy() == pytest.approx(whole(count), rel=1e-5)
    assert alarms(run.tapes) == []


@pytest.mark.parametrize("count", [1, N])
@pytest.mark.parametrize(
    ("hand", "kept", "dropped"),
    [(no_speed, "x", "v"), (zero_speed, "x", "v"), (no_place, "v", "x")],
)
def test_one_of_two_adjoints_is_missing(hand: Any, kept: str, dropped: str, count: int) -> None:
    run = from_checkpoints(hand, count)
    diagnosis = wp.diagnose(run.tapes)
    (finding,) = diagnosis.findings
    right, consumed = whole(count), run.k.grad.numpy()
    assert diagnosis.verdict == "WRONG"
    assert finding.severity == "error"
    assert finding.evidence["recorded_again"]
    off = float(np.linalg.norm(consumed - right) / np.linalg.norm(right))
    assert finding.evidence["relative_error"]["self.k"] == pytest.approx(off, rel=1e-3)
    assert finding.evidence["slope_whole"] == pytest.approx(np.linalg.norm(right), rel=1e-4)
    handed = {edge["array"]: edge["handed"] for edge in finding.evidence["edges"]}
    assert list(handed.values()).count(True) == list(handed.values()).count(False) == 1
    here = line_of("tape.backward(grads=hand(x_end", __file__)
    assert f" at test_truncated_windows.py:{here} begins with the adjoint of " in finding.message
    assert handed[finding.arrays[0]] is False
    assert "as in backward(grads={" in finding.fix


def test_nothing_handed_on_from_checkpoints_that_have_losses_of_their_own() -> None:
    run = Run()
    states = [run.start, run.plain(*run.start)]
    for values in reversed(states):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape, *_ = run.record(*(array(part) for part in values), loss)
        tape.backward(loss)
    run.update()
    (finding,) = wp.diagnose(run.tapes).findings
    assert (finding.rule, finding.severity) == ("truncated", "warning")
    assert "No gradient flows back from tape to tape." in finding.message


def in_frames(between: Callable[[Run, Any, Any], None], *, updated: bool = True) -> Run:
    """One tape a frame, the state in new arrays by name; reversed from the last to the first."""
    run = Run()
    x, v = (array(part) for part in run.start)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    states = []
    for _ in range(WINDOWS):
        states.append((x, v))
        _, x, v = run.record(x, v, loss)
    taken = np.zeros(2, dtype=np.float32)
    for tape, state in reversed(list(zip(run.tapes, states, strict=True))):
        tape.backward(loss)
        taken += run.k.grad.numpy()
        between(run, tape, state)
    if updated:
        run.k.assign(run.k.numpy() - 0.01 * taken)
    return run


def test_a_zero_of_everything_between_frames_drops_the_state() -> None:
    run = in_frames(lambda run, tape, state: tape.zero())
    (finding,) = wp.diagnose(run.tapes).findings
    place = line_of("in_frames(lambda run, tape, state: tape.zero())", __file__)
    assert (finding.severity, finding.evidence["recorded_again"]) == ("error", False)
    assert (
        "No gradient flows back from tape to tape: that of x was zeroed at "
        f"test_truncated_windows.py:{place} before the pass of " in finding.message
    )
    assert finding.fix == (
        f"zero the gradient of self.k alone, not that of the state at test_truncated_windows.py:{place}; "
        "where it is truncated on purpose, call x.grad.zero_() there"
    )


def parameter_alone(run: Run, tape: Any, state: Any) -> None:
    run.k.grad.zero_()


def on_purpose(run: Run, tape: Any, state: Any) -> None:
    run.k.grad.zero_()
    for part in state:
        part.grad.zero_()  # truncated here


@pytest.mark.parametrize("between", [parameter_alone, on_purpose])
def test_what_is_handed_on_by_name_or_cut_by_name_is_no_finding(between: Any) -> None:
    assert alarms(in_frames(between).tapes) == []


def test_gradients_of_each_frame_that_no_update_follows_are_looked_at_alone() -> None:
    assert alarms(in_frames(lambda run, tape, state: tape.zero(), updated=False).tapes) == []


def one_is_cut(run: Run, tape: Any, state: Any) -> None:
    run.k.grad.zero_()
    state[1].grad.zero_()


def test_a_gradient_that_is_zeroed_by_its_own_name_is_cut_on_purpose() -> None:
    assert alarms(in_frames(one_is_cut).tapes) == []


@pytest.mark.parametrize("how", ["assign", "copy"])
def test_frames_in_the_same_buffers_that_run_backward_one_by_one(how: str) -> None:
    run = Run()
    x, v = (array(part) for part in run.start)
    ends = [array(np.zeros(N)) for _ in range(2)]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    for _ in range(WINDOWS):
        tape, *_ = run.record(x, v, loss, ends)
        tape.backward(loss)
        for begin, end in zip((x, v), ends, strict=True):
            if how == "assign":
                begin.assign(end.numpy())
            else:
                wp.copy(begin, end)
    run.update()
    (finding,) = wp.diagnose(run.tapes).findings
    assert (finding.rule, finding.severity) == ("truncated", "error")
    assert len({edge["array"] for edge in finding.evidence["edges"]}) == 2
    assert all(edge["copied"] for edge in finding.evidence["edges"])


def test_a_state_at_rest_goes_nowhere() -> None:
    run = Run()
    run.start = np.zeros(N), np.zeros(N)
    for _ in range(2):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape, *_ = run.record(*(array(part) for part in run.start), loss)
        tape.backward(loss)
    assert alarms(run.update().tapes) == []


def test_windows_with_an_update_between_them_are_truncated_on_purpose() -> None:
    run = Run()
    x, v = (array(part) for part in run.start)
    for _ in range(WINDOWS):
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape, x, v = run.record(array(x.numpy()), array(v.numpy()), loss)
        tape.backward(loss)
        run.update()
        run.k.grad.zero_()
    assert alarms(run.tapes) == []


def test_an_adjoint_that_is_scaled_on_the_way_is_left_alone() -> None:
    run = from_checkpoints(lambda x, v, adjoint_x, adjoint_v: {x: 0.5 * adjoint_x, v: 0.5 * adjoint_v})
    assert alarms(run.tapes) == []


def into_gradients(how: str, parts: str) -> Run:
    """Windows from checkpoints, whose adjoints are put into the gradients of the ends of the one before."""
    run = Run()
    states: list[Any] = [run.start]
    for _ in range(WINDOWS - 1):
        states.append(run.plain(*states[-1]))
    begin: Any = None
    for values in reversed(states):
        later, begin = begin, [array(part) for part in values]
        loss = None if later else wp.zeros(1, dtype=float, requires_grad=True)
        tape, *ends = run.record(*begin, loss)
        if later is None:
            tape.backward(loss)
            continue
        for name, end, start in zip("xv", ends, later, strict=True):
            if name not in parts:
                continue
            if how == "assign":
                end.grad.assign(start.grad.numpy())
            elif how == "copy":
                wp.copy(end.grad, start.grad)
            else:
                wp.launch(add, dim=N, inputs=[start.grad], outputs=[end.grad])
        tape.backward()
    return run.update()


@pytest.mark.parametrize("how", ["assign", "copy", "launch"])
def test_both_adjoints_put_into_gradients(how: str) -> None:
    run = into_gradients(how, "xv")
    assert run.k.grad.numpy() == pytest.approx(whole(), rel=1e-5)
    assert alarms(run.tapes) == []


@pytest.mark.parametrize("how", ["assign", "copy", "launch"])
@pytest.mark.parametrize("parts", ["x", "v"])
def test_one_adjoint_put_into_a_gradient(how: str, parts: str) -> None:
    run = into_gradients(how, parts)
    diagnosis = wp.diagnose(run.tapes)
    (finding,) = [item for item in diagnosis.findings if item.severity != "info"]
    assert (finding.rule, finding.severity, diagnosis.verdict) == ("truncated", "error", "WRONG")
    right, consumed = whole(), run.k.grad.numpy()
    off = float(np.linalg.norm(consumed - right) / np.linalg.norm(right))
    (error,) = finding.evidence["relative_error"].values()
    assert error == pytest.approx(off, rel=1e-3)
    assert [edge["handed"] for edge in finding.evidence["edges"]].count(False) == WINDOWS - 1


@pytest.mark.parametrize("cut", [False, True])
def test_frames_of_which_only_the_last_has_a_loss(cut: bool) -> None:
    run = Run()
    x, v = (array(part) for part in run.start)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    for number in range(WINDOWS):
        _, x, v = run.record(x, v, loss if number == WINDOWS - 1 else None)
    taken = np.zeros(2, dtype=np.float32)
    for tape in reversed(run.tapes):
        tape.backward(*([loss] if tape is run.tapes[-1] else []))
        taken += run.k.grad.numpy()
        if cut:
            tape.zero()
        else:
            run.k.grad.zero_()
    run.k.assign(run.k.numpy() - 0.01 * taken)
    findings = [item for item in wp.diagnose(run.tapes).findings if item.rule == "truncated"]
    assert [item.severity for item in findings] == (["error"] if cut else [])
    if not cut:
        assert taken == pytest.approx(whole(), rel=1e-5)
