"""Each write through this package announces itself before and after, to every tape that uses the memory."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.tape.write_barrier import before_write
from tests.runtime.kernels import scale, total


@wp.kernel
def checked(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    assert x[i] > 0.0
    y[i] = 2.0 * x[i]


@dataclass(eq=False)
class Listener:
    """Stands for the tracker of a tape that uses a buffer, and notes what the barrier announces."""

    buffer: Any
    before: list[tuple[str, list[float]]] = field(default_factory=list)
    after: list[list[float]] = field(default_factory=list)

    @classmethod
    def on(cls, a: Any) -> Listener:
        """Listen to the memory of an array, of which a NumPy view stays open."""
        listener = cls(a.buffer)
        a.buffer.watch = (*a.buffer.watch, weakref.ref(listener))
        return listener

    def now(self) -> list[float]:
        return self.buffer.data.view(np.float32).tolist()

    @property
    def ledgers(self) -> dict[Any, Listener]:
        return {self.buffer: self}

    @property
    def states(self) -> list[Any]:
        return [self]

    @property
    def array(self) -> Any:
        return self._array

    def overwritten_outside(self, buffer: Any, a: Any, site: Any, how: str) -> None:
        assert buffer is self.buffer and a.buffer is buffer
        self.before.append((how, self.now()))

    def written(self, ledger: Any, a: Any) -> None:
        self.after.append(self.now())

    def window_opened(self, ledger: Any, start: int, stop: int) -> None: ...
    def window_closed(self, ledger: Any) -> None: ...
    def looked_at(self, a: Any, event: Any) -> None: ...


def launch(x: Any, y: Any) -> None:
    wp.launch(scale, 2, inputs=[x, y, 2.0])


def launch_on_a_tape(x: Any, y: Any) -> None:
    with wp.Tape():
        launch(x, y)


def launch_off_the_tape(x: Any, y: Any) -> None:
    with wp.Tape():
        wp.launch(scale, 2, inputs=[x, y, 2.0], record_tape=False)


def checked_launch(x: Any, y: Any) -> None:
    wp.launch(checked, 2, inputs=[x, y])


def checked_launch_on_a_tape(x: Any, y: Any) -> None:
    with wp.Tape():
        checked_launch(x, y)


def launch_of_a_command(x: Any, y: Any) -> None:
    wp.launch(scale, 2, inputs=[x, y, 2.0], record_cmd=True).launch()


def tracked_launch(x: Any, y: Any) -> None:
    with wp.Tape(track="elements"):
        launch(x, y)


def copy(x: Any, y: Any) -> None:
    wp.copy(y, x + x)


def copy_on_a_tape(x: Any, y: Any) -> None:
    double = x + x
    with wp.Tape():
        wp.copy(y, double)


def assign(x: Any, y: Any) -> None:
    y.assign([2.0, 4.0])


def assign_on_a_tape(x: Any, y: Any) -> None:
    with wp.Tape():
        y.assign([2.0, 4.0])


def python(x: Any, y: Any) -> None:
    wp.launch_python(lambda v: 2 * v, lambda values, adjoints: 2 * adjoints[0], [x], [y])


def python_on_a_tape(x: Any, y: Any) -> None:
    with wp.Tape():
        python(x, y)


WRITES = {
    launch: "launch",
    launch_on_a_tape: "launch",
    launch_off_the_tape: "launch",
    checked_launch: "launch",
    checked_launch_on_a_tape: "launch",
    launch_of_a_command: "launch",
    tracked_launch: "launch",
    copy: "copy",
    copy_on_a_tape: "launch",
    assign: "assign",
    assign_on_a_tape: "launch",
    python: "launch",
    python_on_a_tape: "launch",
}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_a_write_is_announced_before_and_after(write: Callable[[Any, Any], None]) -> None:
    x, y = wp.array([1.0, 2.0], dtype=float), wp.array([7.0, 8.0], dtype=float)
    listener, view, writes = Listener.on(y), y.numpy(), y.buffer.writes
    write(x, y)
    assert listener.before == [(WRITES[write], [7.0, 8.0])]
    assert listener.after == [[2.0, 4.0]]
    assert y.buffer.writes == writes + 1
    assert view.tolist() == [2.0, 4.0]


@pytest.mark.parametrize("taped", [False, True])
@pytest.mark.parametrize("name", ["zero_", "fill_"])
def test_a_fill_is_announced_and_the_content_known_after(name: str, taped: bool) -> None:
    y = wp.array([7.0, 8.0], dtype=float)
    listener = Listener.on(y)
    value = () if name == "zero_" else (3.0,)
    if taped:
        with wp.Tape():
            getattr(y, name)(*value)
    else:
        getattr(y, name)(*value)
    assert [content for _, content in listener.before] == [[7.0, 8.0]]
    assert y.buffer.fill == (bytes(1) if name == "zero_" else np.float32(3).tobytes())
    launch(wp.array([1.0, 2.0], dtype=float), y)
    assert y.buffer.fill is None, "a known constant is forgotten"


def recorded() -> tuple[Any, Any, Any]:
    x, y, loss = (wp.array([1.0] * n, dtype=float, requires_grad=True) for n in (2, 2, 1))
    with wp.Tape() as tape:
        wp.launch(scale, 2, inputs=[x, y, 2.0])
        wp.launch(total, 2, inputs=[y, loss])
    return tape, x, loss


def test_a_reverse_pass_announces_the_gradients() -> None:
    tape, x, loss = recorded()
    listener, view = Listener.on(x.grad), x.grad.numpy()
    listener._array = x.grad
    tape.backward(loss)
    assert listener.before == [("backward", [0.0, 0.0])]
    assert listener.after == [[2.0, 2.0]]
    assert view.tolist() == [2.0, 2.0]
    tape.zero()
    assert listener.before[1:] == [("zero", [2.0, 2.0])]
    assert listener.after[1:] == [[0.0, 0.0]]


def test_zeroing_a_gradient_is_one_write() -> None:
    tape, x, loss = recorded()
    tape.backward(loss)
    writes = x.grad.buffer.writes
    tape.zero()
    assert x.grad.buffer.writes == writes + 1
    assert x.grad.buffer.fill == bytes(1)


def test_an_adjoint_launch_announces_the_adjoints() -> None:
    x, y = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(2))
    into, given = wp.zeros(2), wp.array([3.0, 5.0], dtype=float)
    listeners, views = [Listener.on(into), Listener.on(given)], [into.numpy(), given.numpy()]
    wp.launch(scale, 2, inputs=[x, y, 2.0], adj_inputs=[into, given, None], adjoint=True)
    assert [view.tolist() for view in views] == [[6.0, 10.0], [3.0, 5.0]]
    assert [listener.before for listener in listeners] == [[("launch", [0.0, 0.0])], []]
    assert [listener.after for listener in listeners] == [[[6.0, 10.0]], []]


def test_a_marked_write_is_announced() -> None:
    y = wp.array([7.0, 8.0], dtype=float)
    listener = Listener.on(y)
    y.mark_write()
    assert listener.before == [("mark_write", [7.0, 8.0])]


def test_the_tape_that_records_a_write_is_not_told_of_it_again() -> None:
    x, y = wp.array([1.0, 2.0], dtype=float), wp.array([7.0, 8.0], dtype=float)
    with wp.Tape() as first:
        launch(x, y)
    with wp.Tape() as second:
        launch(x, y)
    assert [write.at for write in first.outside] == [1]
    assert not second.outside


def test_memory_of_tapes_that_are_gone_is_watched_no_more() -> None:
    y = wp.array([7.0, 8.0], dtype=float)
    Listener.on(y)  # it is gone at once
    assert y.buffer.watch
    before_write(y, None, "launch")
    assert y.buffer.watch == ()


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a kept tape"])
def test_a_recorded_launch_leaves_three_objects_to_the_garbage_collector(beside: bool) -> None:
    """Its record and arguments, and the versions of the buffer that it writes; a kept tape adds none.

    A loop launches from one place, which is one object for all of them.
    """

    def record(arrays: list[wp.array]) -> wp.Tape:
        with wp.Tape() as tape:
            for x, y in itertools.pairwise(arrays):
                wp.launch(scale, 1, inputs=[x, y, 2.0])
        return tape

    def left_by(launches: int) -> int:
        """Return the number of objects that a tape of so many launches adds."""
        arrays = [wp.zeros(1, requires_grad=True) for _ in range(launches + 1)]
        record(arrays)
        kept = [record(arrays) for _ in range(2 if beside else 0)]
        gc.collect()
        before = len(gc.get_objects())
        kept.append(record(arrays))
        gc.collect()
        return len(gc.get_objects()) - before

    left_by(1)  # the first launch compiles, and loads modules
    assert (left_by(400) - left_by(200)) / 200 == pytest.approx(3, abs=0.1)


def test_a_recorded_launch_is_noted_like_any_other_write() -> None:
    """Generated code announces it (`announce_recorded`), and `record_launch` by `before_write`: same rows."""
    rows = []
    for record in (wp.launch, None):
        x, y = wp.ones(2, requires_grad=True), wp.ones(2, requires_grad=True)
        assert y.grad is not None
        with wp.Tape() as kept:
            wp.launch(scale, 2, inputs=[y, x, 1.0])
        with wp.Tape() as tape:
            for factor in (2.0, 3.0):
                if record is not None:
                    record(scale, 2, inputs=[x, y, factor])
                else:
                    tape.record_launch(scale, 2, inputs=[x, y, factor])
        history = y.buffer.history
        assert history is not None
        rows.append([(*row[:1], *row[2:5], *row[7:]) for row in history.rows])
        assert [row[6] for row in history.rows] == [tape.id] * 2
        assert history.written == history.rows[-1][1]
        assert [(write.at, write.array is y, write.how) for write in kept.outside] == [(1, True, "launch")]
    assert rows[0] == rows[1]
    assert [row[-1] for row in rows[0]] == [0, 1]
