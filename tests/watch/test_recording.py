"""Recording of launches of NVIDIA Warp: arrays that change or go between them, and errors of our own."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import tapedebug as td
from tapedebug.operations.recorded_memory import SMALL
from tapedebug.watch.tape import WatchedTape

pytestmark = [pytest.mark.peer, pytest.mark.unoptimized]
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def recorded(session):
    (tape,) = session.tapes
    return tape


def results(tape, count=1):
    """The values that a replay of the tape gives the arrays that its first launches write."""
    replay = tape.new_replay().forward()
    return [replay.values(tape.operations[index].accesses[-1].array).tolist() for index in range(count)]


@wp.kernel
def offset(x: wp.array(dtype=wp.vec3), by: wp.vec3, y: wp.array(dtype=wp.vec3)):
    y[wp.tid()] = x[wp.tid()] + by


def test_memory_that_is_used_again_after_it_was_freed_has_its_own_values():
    place = np.zeros(8, np.float32)  # stands for memory that an allocator gives to one array after another

    def placed(values, dtype=float):
        place[: len(values)] = values
        return wp.array(ptr=place.ctypes.data, dtype=dtype, shape=len(values), device="cpu")

    with td.watch_warp() as session:
        for number in range(8):
            x, y = placed([float(number), 2.0] if number % 2 else [float(number)] * 4), programs.zeros(4)
            with wp.Tape() as tape:
                wp.launch(programs.square, x.size, [x], [y])
            tape.backward(grads={y: programs.zeros(4)})
            del x, y, tape
        kept = session.tapes
    expected = [[n * n, 4.0, 0.0, 0.0] if n % 2 else [n * n] * 4 for n in range(8)]
    assert [results(tape) for tape in kept] == [[values] for values in expected]


def test_an_array_that_a_tape_uses_is_not_freed():
    with td.watch_warp() as session, wp.Tape():
        for number in range(20):
            x, y = programs.array([float(number), 1.0]), programs.zeros(2)
            wp.launch(programs.square, 2, [x], [y])
            del x, y
    assert results(recorded(session), 20) == [[float(n * n), 1.0] for n in range(20)]


def test_views_that_are_made_anew_for_each_launch_are_the_same_arrays():
    x, y = programs.array(np.arange(8.0)), programs.zeros(8)
    with td.watch_warp() as session, wp.Tape():
        for _ in range(3):
            for first in (0, 4):
                wp.launch(programs.square, 4, [x[first : first + 4]], [y[first : first + 4]])
    tape = recorded(session)
    arrays = [operation.args[0] for operation in tape.operations]
    assert [array.offset for array in arrays] == [0, 16] * 3
    assert len(set(arrays)) == 2
    assert len(tape.regions) == 2
    np.testing.assert_array_equal(tape.new_replay().forward().values(tape.array(y)), np.arange(8.0) ** 2)


@pytest.mark.parametrize("count", [4, SMALL])
@pytest.mark.parametrize("which", ["input", "output"])
def test_values_that_numpy_changes_between_launches_are_found(count, which):
    x, y = programs.array(np.ones(count)), programs.zeros(count)
    z = programs.zeros(count)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.square, count, [x], [y])
        (x if which == "input" else y).numpy()[:] += 1.0
        wp.launch(programs.square, count, [x], [z])
        wp.launch(programs.scale, count, [y, 3.0])
    tape = recorded(session)
    assert [(write.at, write.array) for write in tape.outside_writes] == [
        (1 if which == "input" else 2, tape.array(x if which == "input" else y))
    ]
    replay = tape.new_replay().forward()
    assert replay.matches_live()
    np.testing.assert_array_equal(replay.values(tape.array(z)), z.numpy())


def test_a_change_inside_a_view_of_a_larger_array_is_found():
    x, y = programs.array(np.arange(16.0)), programs.zeros(16)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.square, 4, [x[4:8]], [y[4:8]])
        x.numpy()[5] = 9.0
        wp.launch(programs.square, 4, [x[4:8]], [y[8:12]])
    tape = recorded(session)
    (write,) = tape.outside_writes
    assert (write.at, write.array.offset, write.array.shape) == (1, 16, (4,))
    assert tape.new_replay().forward().matches_live()


def test_a_gradient_that_an_array_gets_later_is_seen():
    x, y = programs.array([1.0, 2.0], requires_grad=False), programs.zeros(2)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.square, 2, [x], [y])
        x.requires_grad = True
        wp.launch(programs.square, 2, [x], [y])
    first, second = recorded(session).operations
    assert [access.active for access in first.accesses] == [False, True]
    assert [access.active for access in second.accesses] == [True, True]


def test_arguments_that_the_program_changes_later_are_stored_as_they_were():
    x = programs.array([[1.0, 2.0, 3.0]], dtype=wp.vec3)
    y, z = (wp.zeros(1, dtype=wp.vec3, requires_grad=True) for _ in range(2))
    by = wp.vec3(1.0, 0.0, 0.0)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(offset, 1, [x, by, y])
        by[0] = 5.0
        wp.launch(offset, 1, [x, by, z])
    assert session.not_covered == []
    tape = recorded(session)
    assert [list(operation.args[1]) for operation in tape.operations] == [[1.0, 0.0, 0.0], [5.0, 0.0, 0.0]]
    assert results(tape, 2) == [[[2.0, 2.0, 3.0]], [[6.0, 2.0, 3.0]]]
    assert tape.new_replay().forward().matches_live()


def test_a_vector_may_be_an_array_of_numpy():
    x, y = programs.array([[1.0, 2.0, 3.0]], dtype=wp.vec3), wp.zeros(1, dtype=wp.vec3)
    by = np.array([1.0, 0.0, 0.0], np.float32)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(offset, 1, [x, by, y])
        by[:] = 7.0
    assert session.not_covered == []
    assert results(recorded(session)) == [[[2.0, 2.0, 3.0]]]


def test_a_struct_that_gets_other_arrays_keeps_those_of_each_launch():
    state, other = programs.State(), programs.State()
    state.q, state.v, state.k = programs.array([1.0, 2.0]), programs.array([0.5, -0.5]), 2.0
    other.q, other.v, other.k = programs.zeros(2), programs.zeros(2), 1.0
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.advance, 2, [state, other, 0.1])
        first, other.q, state.k = other.q, programs.zeros(2), 3.0
        wp.launch(programs.advance, 2, [state, other, 0.1])
    tape = recorded(session)
    assert [o.accesses[-2].array for o in tape.operations] == [tape.array(first), tape.array(other.q)]
    replay = tape.new_replay().forward()
    assert replay.matches_live()
    np.testing.assert_array_equal(replay.values(tape.array(first)), first.numpy())


def test_memory_of_a_tensor_that_gets_other_memory_stays():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = programs.zeros(3)
    with td.watch_warp() as session:
        with wp.Tape():
            wp.launch(programs.square, 3, [wp.from_torch(tensor)], [y])
        for _ in range(3):
            tensor.data = tensor.data * 100.0
    x = recorded(session).operations[0].args[0]
    owners = [owner.data_ptr() for owner in x.region.owner if hasattr(owner, "data_ptr")]
    assert x.region.address in owners, "memory that a comparison reads is not freed"
    assert x.current().tolist() == [1.0, 2.0, 3.0]
    assert results(recorded(session)) == [[1.0, 4.0, 9.0]]


def test_a_launch_that_warp_refuses_is_not_recorded():
    x, y = programs.array([1.0, 2.0]), wp.zeros(2, dtype=int)
    with td.watch_warp() as session:
        with wp.Tape(), pytest.raises(RuntimeError, match="passed array has dtype"):
            wp.launch(programs.square, 2, [x], [y])
        with wp.Tape():
            with pytest.raises(RuntimeError, match="can only launch functions decorated with"):
                wp.launch(len, 2, [x])
            wp.launch(programs.square, 2, [x], [programs.zeros(2)])
    assert [len(tape.operations) for tape in session.tapes] == [1]


@pytest.mark.parametrize("method", ["find_writes", "add"])
def test_an_error_of_ours_leaves_the_launch_to_warp_and_is_listed(monkeypatch, method):
    def refuse(*args):
        raise MemoryError("no memory for copies")

    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    monkeypatch.setattr(WatchedTape, method, refuse)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.scale, 2, [x, 3.0])
        wp.launch(programs.square, 2, [x], [y])
    np.testing.assert_array_equal(y.numpy(), [9.0, 36.0])
    assert [(gap.what, gap.reason) for gap in session.not_covered] == [
        ("the launch of scale", "MemoryError: no memory for copies"),
        ("the launch of square", "MemoryError: no memory for copies"),
    ]
    assert session.not_covered[0].place.text.strip() == "wp.launch(programs.scale, 2, [x, 3.0])"


def test_memory_of_a_long_training_loop_stays_flat():
    constant, parameter = programs.array(np.ones(50_000)), programs.array(np.zeros(50_000))
    y, used, tapes = programs.zeros(50_000), [], []
    gc.collect()
    gc.disable()  # tapes of which none is diagnosed are in no cycle of references
    try:
        with td.watch_warp() as session:
            for step in range(40):
                parameter.assign(np.full(50_000, float(step), np.float32))
                with wp.Tape() as tape:
                    wp.launch(programs.square, 50_000, [constant], [y])
                    wp.launch(programs.square, 50_000, [parameter], [y])
                tape.backward(grads={y: constant})
                used.append(session._recording.budget.used)
                tapes.append(weakref.ref(td._tape_observers.recorded_tape(tape)))
                del tape
            assert [len(tape.operations) for tape in session.tapes] == [2] * 4
    finally:
        gc.enable()
    assert set(used[8:]) == {used[8]}
    nbytes = 4 * 50_000
    assert used[8] <= 7 * nbytes * 2, "of each retained tape what it overwrites, and once what is constant"
    assert sum(tape() is not None for tape in tapes) <= 6


CALLS = 34
"""Calls of Python functions that the second launch on the same arrays may cost: about 0.3 µs each."""


def test_a_launch_costs_few_calls():
    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    seen = []

    def count(frame, event, _):
        if event == "call" and "tapedebug" in frame.f_code.co_filename:
            seen.append(frame.f_code.co_qualname)

    with td.watch_warp(), wp.Tape():
        wp.launch(programs.square, 2, [x], [y])
        sys.setprofile(count)
        try:
            wp.launch(programs.square, 2, [x], [y])
        finally:
            sys.setprofile(None)
    assert len(seen) <= CALLS, seen
