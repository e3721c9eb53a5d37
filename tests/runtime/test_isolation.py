"""No check changes an array, a gradient or the active tape: not when it works, fails or is interrupted."""

import gc
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._tape_observers import observers
from tapedebug.autograd import check_pairs, end_to_end, gradcheck, gradcheck_tape, jacobian, jacobian_fd, jvp
from tapedebug.runtime.isolation import isolated, uninterrupted
from tapedebug.runtime.memory.buffer import _REGISTRY
from tapedebug.runtime.replay.batch import BatchedReplay
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.state import state
from tests.autograd import kernels as k


class World:
    """Arrays with gradients, a recorded tape, scratch that a function writes, and a picture of all of it."""

    def __init__(self) -> None:
        self.x, self.y, self.z = (k.vector([0.5, -2.0, 3.0]) for _ in range(3))
        self.scratch, self.loss = k.vector([7.0, 8.0, 9.0]), k.vector([0.0])
        self.tape = wp.Tape()
        with self.tape:
            wp.launch(k.square, 3, [self.x, self.y])
            wp.launch(k.cube, 3, [self.y, self.z])
            wp.launch(k.times, 3, [self.x, self.z])
            wp.launch(k.total, 3, [self.z, self.loss])
        self.tape.backward(self.loss)
        for number, array in enumerate(self.arrays()):
            array.grad.fill_(float(number + 1))

    def arrays(self) -> list[Any]:
        return [self.x, self.y, self.z, self.scratch, self.loss]

    def picture(self) -> list[Any]:
        gc.collect()
        values = [(a._numpy_view().tobytes(), a.grad._numpy_view().tobytes()) for a in self.arrays()]
        facts = [(a.requires_grad, a.buffer.fill, listeners(a.buffer)) for a in self.arrays()]
        return [values, facts, len(self.tape.records), state.tape, list(observers), live()]

    def function(self, x: Any) -> Any:
        out = wp.zeros_like(x)
        wp.launch(k.square, 3, [x, self.scratch])
        wp.launch(k.times, 3, [self.scratch, self.y])
        self.z.assign(self.y)
        wp.launch(k.cube, 3, [self.y, out])
        x.fill_(4.0)
        return out


def listeners(buffer: Any) -> int:
    return sum(ref() is not None for ref in buffer.watch)


def live() -> list[int]:
    return [tape.id for tape in wp.live_tapes()]


QUIET = {"show_summary": False, "raise_exception": False}

CHECKS: dict[str, Callable[[World], Any]] = {
    "jacobian": lambda w: jacobian(k.times, 3, [w.x], [w.y]),
    "jacobian_fd": lambda w: jacobian_fd(k.times, 3, [w.x], [w.y]),
    "gradcheck": lambda w: gradcheck(k.times, 3, [w.x], [w.y], **QUIET),
    "gradcheck of a function": lambda w: gradcheck(w.function, inputs=[w.x], **QUIET),
    "gradcheck_tape": lambda w: gradcheck_tape(w.tape, **QUIET),
    "end_to_end": lambda w: end_to_end(w.tape, w.loss),
    "jvp": lambda w: (
        jvp(k.times, 3, [w.x], [w.y], tangents={w.x: np.ones(3)})
        and jvp(w.tape, tangents={w.x: np.ones(3)}, dtype=wp.float64)
        and jvp(w.function, inputs=[w.x], tangents={w.x: np.ones(3)})
    ),
    "check_pairs": lambda w: check_pairs(
        w.tape,
        [
            {"launch": 0, "input": "x", "output": "y"},
            {"launch": None, "input": "x", "output": "loss"},
        ],
        labels={w.x: "x", w.loss: "loss"},
    ),
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_changes_nothing(name: str) -> None:
    world = World()
    before = world.picture()
    assert CHECKS[name](world)
    assert world.picture() == before


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_within_a_recording_tape_records_nothing(name: str) -> None:
    world = World()
    recording = wp.Tape()
    with recording:
        before = world.picture()
        CHECKS[name](world)
        assert world.picture() == before
    assert recording.records == []


class Interrupter:
    """Raises `error` at the n-th call of any of the methods that it has wrapped."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
        self.left = 10**9
        self.calls = 0
        self.error = error
        for owner, names in (
            (Shadow, ("forward", "backward", "push", "set", "values", "gradient", "tangent")),
            (BatchedReplay, ("forward", "backward", "push", "_run", "_empty")),
            (wp.Tape, ("__enter__", "__exit__")),
        ):
            for name in names:
                self._wrap(monkeypatch, owner, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        real = getattr(owner, name)

        def method(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            self.left -= 1
            mine = self.left == 0  # calls in this call count, too
            result = real(*args, **kwargs)
            if mine:
                raise self.error
            return result

        monkeypatch.setattr(owner, name, method)


@pytest.mark.parametrize(
    "name, error", [(name, KeyboardInterrupt) for name in CHECKS] + [("gradcheck of a function", MemoryError)]
)
def test_an_interrupt_anywhere_leaves_everything_as_it_was(
    name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    before = world.picture()
    interrupter = Interrupter(monkeypatch, error)
    CHECKS[name](world)
    calls = interrupter.calls
    assert calls > 4
    points = sorted({int(p) for p in np.geomspace(1, calls, 6)})
    for point in points:
        interrupter.left = point
        with pytest.raises(error):
            CHECKS[name](world)
        interrupter.left = 10**9
        assert world.picture() == before, f"call {point} of {calls}"
    assert CHECKS[name](world), "and the check works again"


@pytest.mark.parametrize("after", range(1, 5))
def test_a_function_that_fails_halfway_leaves_everything_as_it_was(after: int) -> None:
    world = World()
    before = world.picture()
    left = [after]

    def failing(x: Any) -> Any:
        world.scratch.fill_(1.0)
        for array in (world.y, world.z, x):
            left[0] -= 1
            if not left[0]:
                raise KeyboardInterrupt
            wp.launch(k.square, 3, [world.scratch, array])
        world.x.grad.zero_()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gradcheck(failing, inputs=[world.x], **QUIET)
    assert world.picture() == before


def test_a_function_may_run_its_own_backward_pass() -> None:
    world = World()
    before = world.picture()

    def differentiate() -> None:
        tape = wp.Tape()
        with tape:
            wp.launch(k.square, 3, [world.x, world.y])
        tape.backward(grads={world.y: wp.ones_like(world.y)})

    with isolated():
        differentiate()
        assert world.x.grad.numpy().tolist() != [1.0, 1.0, 1.0]
    assert world.picture() == before


def test_ctrl_c_waits_until_everything_is_put_back() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done.append("put back")
    assert done == ["put back"]
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_a_guard_in_a_thread_leaves_signals_alone() -> None:
    handlers = []

    def run() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_nobody_hears_of_the_tapes_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []

    class Ear:
        def tape_created(self, tape: wp.Tape) -> None:
            heard.append("made")

        def tape_exited(self, tape: wp.Tape) -> None:
            heard.append("recorded")

        def backward_done(self, tape: wp.Tape, call: Any) -> None:
            heard.append("backward")

    monkeypatch.setattr("tapedebug._tape_observers.observers", [Ear()])
    x, y = k.vector([0.5, -2.0, 3.0]), k.vector([0.0, 0.0, 0.0])
    gradcheck(k.times, 3, [x], [y], check_undefined_grad=True, **QUIET)
    assert heard == []
    World()
    assert heard == ["made", "recorded", "backward"]


def test_numpy_writes_to_watched_arrays_are_put_back() -> None:
    x = k.vector([1.0, 2.0])
    with isolated([x]):
        x.numpy()[:] = 5.0
    assert x.numpy().tolist() == [1.0, 2.0]


def test_the_guard_leaves_no_watch_behind() -> None:
    arrays = [k.vector([1.0]) for _ in range(3)]
    gc.collect()
    before = {id(b): b.watch for b in _REGISTRY.values()}
    with isolated():
        assert all(len(a.buffer.watch) == 1 for a in arrays)
        made = k.vector([2.0])
        made.fill_(3.0)
    assert {id(b): b.watch for b in _REGISTRY.values() if id(b) in before} == before
    assert made.numpy().tolist() == [3.0], "what is new in the block is not put back"
