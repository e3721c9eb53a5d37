"""Tapes of executable operations, on the reference engine: replays, outside writes, adjoint values."""

from __future__ import annotations

import numpy as np
import pytest

from tapedebug import TapeError, contract
from tapedebug._float32_slope import fitted_slope, slope
from tapedebug._progress import Progress
from tapedebug._time_limit import OutOfTime, enforced
from tapedebug.operations import Memory, Region, RunsInFloat64, outside_writes
from tapedebug.operations.adjoint_values import given_values
from tapedebug.operations.narrowed import NarrowedStep, NarrowMemory
from tapedebug.operations.replay_memory import ReplayMemory
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import (
    axpy,
    detached,
    exponentiate_in_place,
    matmul,
    relu,
    scale,
    square,
    square_in_place,
    total,
)

RNG = np.random.default_rng(0)


def layers(overwrite=False):
    """A small program: relu(w @ x)² summed, plus a term of x; with `overwrite`, `h` is used again."""
    x, w = array(RNG.normal(size=(3, 2))), array(RNG.normal(size=(3, 3)))
    h, a, s, loss = zeros(3, 2), zeros(3, 2), zeros(3, 2), zeros(1)
    with Tape() as tape:
        matmul(w, x, h)
        relu(h, a)
        square(a, s)
        axpy(0.5, x, s)
        if overwrite:
            scale(a, 3.0)
        total(s, loss)
    return tape, x, w, loss


def expected(x, w):
    h = w.values @ x.values
    g = 2 * np.maximum(h, 0) * (h > 0)
    return w.values.T @ g + 0.5, g @ x.values.T


def test_the_engine_alone_computes_right_gradients():
    tape, x, w, loss = layers()
    tape.backward(loss)
    for found, right in zip((x.grad, w.grad), expected(x, w), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-5)


def test_an_overwrite_makes_the_engines_gradients_wrong_but_not_those_of_the_versions():
    tape, x, w, loss = layers(overwrite=True)
    tape.backward(loss)
    right, _ = expected(x, w)
    assert not np.allclose(x.grad, right, rtol=1e-2)
    replay = tape.new_replay().forward()
    assert replay.matches_live()
    seeds = tape.reverse_passes[-1].seeds
    replay.backward(seeds)
    np.testing.assert_allclose(replay.gradient(x), right, rtol=1e-5)
    replay.backward(seeds, consume="current")
    np.testing.assert_array_equal(replay.gradient(x), x.grad)


def test_a_tape_is_what_the_contract_asks_for():
    tape, x, _, loss = layers()
    assert contract.is_recorded_tape(tape)
    assert isinstance(x, contract.Array)
    assert [o.name for o in tape.operations] == ["matmul", "relu", "square", "axpy", "total"]
    assert tape.operations[3].call_site.file == __file__
    assert tape.operations[3].call_site.function == "layers"
    assert tape.names(x)[0] == "x"
    assert tape.uses(loss)


def test_a_replay_in_float64_has_more_digits():
    tape, x, w, loss = layers()
    assert tape.capability(contract.Float64).obstacle() == ""
    wide = tape.new_replay(float64=True).forward()
    assert wide.values(loss).dtype == np.float64
    h = np.maximum(w.values.astype(float) @ x.values.astype(float), 0)
    np.testing.assert_allclose(wide.values(loss), [(h**2 + 0.5 * x.values).sum()], rtol=1e-14)


def test_inputs_and_operations_of_a_replay_can_be_changed():
    tape, x, _, loss = layers()
    replay = tape.new_replay()
    replay.set(x, np.zeros(x.shape))
    assert replay.forward().values(loss) == 0
    assert replay.forward().values(loss) == 0, "an input outlasts forward(0)"
    assert replay.reset().forward().values(loss) == loss.values
    assert replay.forward(skip=[3]).values(loss) != loss.values
    seen = []
    replay.forward(0, 2)
    replay.forward(2, on_operation=lambda o: seen.append(o.index))
    assert seen == [2, 3, 4]
    with pytest.raises(Exception, match="stands before 5"):
        replay.forward(3)


@pytest.mark.parametrize("float64", [False, True])
def test_an_update_between_two_passes_replaces_what_is_no_number(float64):
    x, y, loss = array([np.nan, 1.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    tape.backward(loss)
    x.values[:] = [2.0, 3.0]
    with tape:
        square(x, y)
        total(y, loss)
    replay = tape.new_replay(float64=float64)
    replay.set(x, np.array([np.nan, 1.5]))
    np.testing.assert_array_equal(replay.forward().values(y), [4.0, 3.5**2])


def test_values_that_nothing_has_used_are_dropped_only_on_request():
    tape, x, _, loss = layers()
    replay = tape.new_replay().forward(0, 2)
    replay.set(x, np.zeros(x.shape))
    for restart in (replay.forward, replay.reset, replay.reset):
        with pytest.raises(TapeError, match="before operation 2 would be lost"):
            restart()
    assert replay.reset(discard=True).forward().values(loss) == loss.values
    replay.set(x, np.zeros(x.shape))
    replay.backward({loss: np.ones(1)})  # uses them
    assert replay.reset().forward().values(loss) == loss.values


def test_reverse_passes_can_be_continued():
    tape, x, _, loss = layers()
    tape.backward(loss)
    replay = tape.new_replay().forward()
    replay.backward(tape.reverse_passes[-1].seeds, stop=2)
    replay.backward(None, start=2)
    np.testing.assert_array_equal(replay.gradient(x), x.grad)


def test_values_from_outside_are_found_and_replayed():
    x, y, z, loss = array([1.0, 2.0, 3.0, 4.0]), zeros(4), zeros(4), zeros(1)
    with Tape() as tape:
        square(x, y)
        y.values[1:3] = 7
        square(y, z)
        total(z, loss)
    x.values[:] = 0
    (write,) = tape.outside_writes
    assert (write.at, write.array, write.settled) == (1, y, False)
    replay = tape.new_replay()
    outside = []
    replay.on_outside = lambda operation: outside.append(operation.index)
    np.testing.assert_array_equal(replay.forward().values(z), [1, 49, 49, 256])
    assert outside == [1]
    assert [w.at for w in tape.outside_writes] == [1, 3], "the write after the last operation is noticed"
    wide = tape.new_replay(float64=True).forward()
    np.testing.assert_array_equal(wide.values(z), [1, 49, 49, 256])


def test_what_is_written_before_first_use_does_not_look_like_an_input():
    x, y = array([1.0, 2.0]), zeros(2)
    with Tape() as tape:
        x.values[:] = 5
        square(x, y)
    assert [(w.at, w.array) for w in tape.outside_writes] == [(0, x)]
    np.testing.assert_array_equal(tape.new_replay().values(x), [1, 2])


def test_a_write_by_an_optimiser_after_the_pass_is_settled():
    tape, x, _, loss = layers()
    tape.backward(loss)
    before = x.grad.copy()
    x.values -= 0.1 * x.grad
    replay = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds, consume="current")
    assert [w.settled for w in tape.outside_writes] == [True]
    np.testing.assert_array_equal(replay.gradient(x), before)


def test_memory_is_copied_only_for_writes_between_the_last_operation_and_the_pass(monkeypatch):
    copies = []
    plain = ReplayMemory.memory_at_end
    monkeypatch.setattr(ReplayMemory, "memory_at_end", lambda self: copies.append(1) or plain(self))
    tape, x, _, loss = layers()
    tape.backward(loss)
    seeds, right = tape.reverse_passes[-1].seeds, x.grad.copy()
    x.values -= 0.1 * x.grad
    replay = tape.new_replay().forward().backward(seeds, consume="current")
    np.testing.assert_array_equal(replay.gradient(x), right)
    assert not copies, "an update after the pass is no value that it read"
    tape, x, _, loss = layers()
    x.values[...] = 2.0
    tape.backward(loss)
    tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds, consume="current")
    assert len(copies) == 1


def test_the_last_writer_of_a_range_is_found_by_one_look_at_each_operation():
    tape, x, w, _ = layers()
    looked = []

    class Counting:
        def __init__(self, operation):
            self._operation, self.index = operation, operation.index

        @property
        def accesses(self):
            looked.append(self.index)
            return self._operation.accesses

    tape.operations[:] = map(Counting, tape.operations)
    for _ in range(5):
        written = {}
        for operation in tape.operations:
            for access in operation._operation.accesses:
                a = access.array
                if access.writes:
                    written[a.region] = operation, a
        for operation, a in written.values():
            assert tape.last_writer(a.region, a.start, a.stop) is operation
        for a in (x, w):
            assert tape.last_writer(a.region, a.start, a.stop) is None
    assert looked == list(range(len(tape.operations)))


def test_the_steps_of_a_training_loop_are_listed_and_stored_once(monkeypatch):
    tape, x, w, loss = layers()
    tape.backward(loss)
    stored = []
    for step in range(10):
        x.values[step % 2] -= 0.25
        w.values[...] *= 0.5
        tape.look()
        stored.append(tape.stored_bytes)
    assert stored[-1] < stored[0] + x.values.nbytes + w.values.nbytes, "ten steps would add 440 bytes"
    assert [write.array for write in tape.outside_writes] == [x, w] * 10
    assert all(write.settled for write in tape.outside_writes)
    clocks = [write.clock for write in tape.outside_writes]
    assert clocks == sorted(clocks)
    with tape:
        square(x, zeros(*x.shape))
    np.testing.assert_array_equal(tape.new_replay().forward().values(x), x.values)
    monkeypatch.setattr(outside_writes, "REPLACED", 4)
    tape.backward(loss)
    for _ in range(20):
        w.values[...] += 1
        tape.look()
    late = [write for write in tape.outside_writes if write.at == len(tape.operations)]
    assert 4 <= len(late) <= 9


def test_writes_on_both_sides_of_a_pass_stay_apart():
    tape, x, _, loss = layers()
    tape.backward(loss)
    x.values[...] += 1
    tape.look()
    tape.backward(loss)
    x.values[...] += 1
    tape.look()
    assert [write.settled for write in tape.outside_writes] == [True, True]
    assert len(tape.injections(len(tape.operations))) == 2


def test_gradients_that_hold_something_when_a_pass_begins_are_seeds():
    x, y, loss = array([3.0]), zeros(1), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    y.grad[:] = 10
    tape.backward(loss)
    (run,) = tape.reverse_passes
    assert run.preset == [y]
    assert run.objective is None
    replay = tape.new_replay().forward().backward(run.seeds)
    np.testing.assert_array_equal(replay.gradient(x), x.grad)


@pytest.mark.parametrize(
    ("function", "when"), [(square_in_place, "before"), (exponentiate_in_place, "after")]
)
def test_it_is_measured_which_values_an_adjoint_means(function, when):
    x, loss = array([0.3, -0.7, 1.1]), zeros(1)
    with Tape() as tape:
        function(x)
        function(x)
        total(x, loss)
    assert given_values(tape) == {0: when, 1: when, 2: "before"}
    tape.backward(loss)
    replay = tape.new_replay(float64=True)
    replay.forward().backward(tape.reverse_passes[-1].seeds)
    start = np.array([0.3, -0.7, 1.1], np.float32).astype(float)
    right = 4 * start**3 if function is square_in_place else np.exp(start) * np.exp(np.exp(start))
    np.testing.assert_allclose(replay.gradient(x), right, rtol=1e-12)


def test_an_operation_without_an_adjoint_leaves_adjoints_alone():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        detached(x, y)
        total(y, loss)
    tape.backward(loss)
    assert not x.grad.any()
    replay = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds)
    assert not replay.gradient(x).any()


def test_views_are_settled_by_their_bytes():
    x, loss = array([[1.0, 2.0], [3.0, 4.0]]), zeros(1)
    column, backwards = x[:, 1], x[::-1, 0]
    with Tape() as tape:
        square(column, backwards)
        total(x, loss)
    np.testing.assert_array_equal(x.values, [[16, 2], [4, 4]])
    tape.backward(loss)
    np.testing.assert_array_equal(x.grad, [[0, 5], [0, 9]])
    replay = tape.new_replay(float64=True).forward()
    np.testing.assert_array_equal(replay.values(x), x.values)
    np.testing.assert_array_equal(replay.backward({loss: np.ones(1)}).gradient(x), x.grad)


def test_memory_of_replays_is_aligned_and_stays_where_it_is():
    region = Region(np.zeros(3, np.float32))
    memory = Memory.zeros({region: region.nbytes}, wide={region: np.dtype(np.float32)})
    a = array([1.0, 2.0, 3.0], region=None)
    assert memory.bytes[region].ctypes.data % 64 == 0
    assert memory.bytes[region].nbytes == 24
    own = Memory.zeros({a.region: a.region.nbytes})
    assert own.view(a) is own.view(a)


def test_a_staircase_is_no_slope():
    found, error = slope(lambda t: np.float32(1e4 + t).item(), noise=1e-3)
    assert abs(found - 1) <= 4 * error


def test_scopes_group_operations():
    x, y = array([1.0]), zeros(1)
    with Tape() as tape, tape.scope("outer"):
        square(x, y)
        with tape.scope("inner"):
            square(y, x)
    assert [(s.name, s.parent, s.first, s.last) for s in tape.scopes] == [
        ("outer", None, 0, 1),
        ("inner", 0, 1, 1),
    ]
    assert [o.scope for o in tape.operations] == [0, 1]


def test_a_replay_takes_over_the_memory_of_an_ended_one_where_that_is_asked_for():
    tape, x, w, loss = layers(overwrite=True)
    tape.backward(loss)
    seeds, right = tape.seeds, expected(x, w)

    def run(moved):
        replay = tape.new_replay()
        assert not replay.gradient(x).any()
        replay.set(x, moved * x.values)
        matches = replay.forward().matches_live()
        replay.backward(seeds)
        return replay.memory, matches, replay.gradient(x), replay.gradient(w)

    with tape.capability(contract.ReplayReuse).reused():
        found = [run(moved) for moved in (2.0, 3.0, 1.0)]
        assert len({id(memory) for memory, *_ in found}) == 1
        assert [matches for _, matches, *_ in found] == [False, False, True]
        for gradient, wanted in zip(found[-1][2:], right, strict=True):
            np.testing.assert_allclose(gradient, wanted, rtol=1e-5)
        first, second = tape.new_replay(), tape.new_replay()
        assert first.memory is found[0][0] is not second.memory
    del first, second
    assert tape.new_replay().memory is not found[0][0]


@pytest.mark.parametrize("how", ["changed", "recorded"])
def test_memory_that_does_not_fit_any_more_is_not_taken_over(how):
    tape, x, _, _ = layers()
    with tape.capability(contract.ReplayReuse).reused():
        replay = tape.new_replay()
        kept = replay.memory
        if how == "changed":
            replay.keep_memory()
        else:
            with tape:
                square(x, zeros(3, 2))
        del replay
        assert tape.new_replay().memory is not kept


def test_a_fit_in_float32_tries_no_shorter_steps_than_needed():
    tried = []

    def rounded(t):
        tried.append(t)
        return np.float32(np.exp(0.3 * t)).item()

    measured = fitted_slope(rounded, 0.0)
    assert (len(tried), tried.count(0.0)) == (19, 1)  # steps take over two values; later ones are only worse
    tried.clear()
    found = fitted_slope(rounded, 6e-8)
    assert len(tried) == 11  # rounding alone makes the error of the next step larger
    tried.clear()
    sooner = fitted_slope(rounded, 0.0, enough=lambda value: 1e-3 * abs(value))
    assert len(tried) == 11
    assert measured.value == found.value == sooner.value
    for each in (found, sooner):
        assert abs(each.value - 0.3) <= each.error <= 3e-4


def test_a_slope_that_a_time_limit_ends_has_the_error_of_its_displacements():
    calls = []

    def displaced(t):
        calls.append(t)
        if len(calls) > 13:
            raise OutOfTime("time was up")
        return float(np.float32(np.exp(0.3 * t)))

    found = fitted_slope(displaced, 6e-8)
    assert abs(found.value - 0.3) <= found.error <= 3e-3
    calls[:] = [0.0] * 7
    with pytest.raises(OutOfTime):
        fitted_slope(displaced, 6e-8)


def test_an_adjoint_without_overwritten_values_reads_those_of_the_forward_run():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    replay = tape.new_replay().forward()
    replay.backward({loss: np.ones(1)})
    np.testing.assert_array_equal(replay.gradient(x), [2, 4])
    assert not replay.before.view(x).any()  # nothing was copied
    with Tape() as tape:
        square_in_place(x)
        total(x, loss)
    replay = tape.new_replay().forward()
    replay.backward({loss: np.ones(1)})
    np.testing.assert_array_equal(replay.before.view(x), [1, 2])


def test_a_slope_counts_as_compared_after_two_displacements():
    calls = []

    class Limit(Progress):
        def compared(self):
            calls.append(len(tried))

    tried = []
    with enforced(Limit(False, 60.0)):
        fitted_slope(lambda t: tried.append(t) or float(np.float32(np.exp(0.3 * t))), 6e-8)
    assert calls[0] == 11


def test_adjoints_of_an_earlier_replay_are_cleared_when_someone_looks_at_them():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    with tape.idle_replays.reused():
        first = tape.new_replay().forward()
        first.backward({loss: np.ones(1)})
        kept = first._kept
        del first
        second = tape.new_replay()
        assert second._kept is kept
        second.forward_only = True
        second.forward()
        assert kept.adjoint.view(x).any()
        assert not second.gradient(x).any()
        second.set_gradient(x, np.ones(2))
        np.testing.assert_array_equal(second.gradient(x), [1, 1])


@pytest.mark.parametrize("in_use", [False, True])
def test_steps_in_float32_take_over_the_memory_of_an_idle_replay(in_use):
    x, y = array(np.arange(3.0)), zeros(3)
    with Tape() as tape:
        square(x, y)
    tape.operations[0].capabilities.pop(RunsInFloat64)
    with tape.idle_replays.reused():
        first = tape.new_replay().forward()
        memory, kept = first.memory, first if in_use else None
        del first
        wide = tape.new_replay(float64=True)
        wide.set(x, np.full(3, 5.0))
        np.testing.assert_array_equal(wide.forward().values(y), [25, 25, 25])
        assert (wide._steps[0]._memory.before is memory) != in_use
        second = kept or tape.new_replay().forward()
        np.testing.assert_array_equal(second.values(y), [0, 1, 4])
        assert (second.memory is memory) == in_use


def test_a_step_in_float32_rounds_what_its_adjoint_reads():
    x, y = array(np.arange(3.0)), zeros(3)
    with Tape() as tape:
        square(x, y)
    operation = tape.operations[0]
    sizes = {access.array.region: access.array.region.nbytes for access in operation.accesses}
    wide = Memory.zeros(sizes, {region: np.dtype(np.float32) for region in sizes})
    after = Memory.zeros(sizes, wide.wide)
    for reads_after in (False, True):
        narrow = NarrowMemory(sizes)
        step = NarrowedStep(operation, narrow, reads_after=reads_after)
        step.vjp(wide, after, Memory.zeros(sizes, wide.wide))
        assert ("after" in vars(narrow)) == reads_after


@pytest.mark.parametrize("known", [True, False])
def test_a_single_displacement_confirms_a_slope_and_refutes_none(known):
    calls = []

    def displaced(t):
        calls.append(t)
        if len(calls) > 9:
            raise OutOfTime("time was up")
        return float(np.float32(np.exp(0.3 * t)))

    def confirms(slope, error):
        return abs(slope - (0.3 if known else 0.5)) <= error <= 1e-3

    if not known:
        with pytest.raises(OutOfTime):
            fitted_slope(displaced, 6e-8, confirms=confirms)
        return
    found = fitted_slope(displaced, 6e-8, confirms=confirms)
    assert abs(found.value - 0.3) <= found.error <= 1e-4
    assert found.left == pytest.approx(0.3, rel=0.02) == found.right


def test_replays_share_what_the_tape_found_and_clear_adjoints_that_were_written():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        square(x, y)
        total(y, loss)
    with tape.idle_replays.reused():
        first = tape.new_replay()
        second = tape.new_replay()
        assert first._kept.found is second._kept.found
        first.forward().backward({loss: np.ones(1)})
        np.testing.assert_array_equal(first.gradient(x), [2, 4])
        del first
        third = tape.new_replay()
        assert not third.gradient(x).any()
        third.set(x, np.array([3.0, 4.0]))
        assert third.forward().values(loss) == 25
        assert third.reset().forward().values(loss) == 5
        third.reset().set(y, np.array([7.0, 7.0]))
        np.testing.assert_array_equal(third.reset().values(y), [0, 0])


def test_operations_after_a_reverse_pass_inside_the_block_are_no_part_of_it():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        with tape.scope("loss"):
            square(x, y)
            total(y, loss)
        tape.backward(loss)
        with tape.scope("update"):
            scale(x, 0.5)
    assert [o.name for o in tape.operations] == ["square", "total"]
    assert [o.name for o in tape.later_operations] == ["scale"]
    assert [(s.name, s.first, s.last) for s in tape.scopes] == [("loss", 0, 1)]
    replay = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds, consume="current")
    np.testing.assert_array_equal(replay.gradient(x), [2, 4])
    x.values[:] = 7
    tape.backward(loss)
    assert [o.name for o in tape.operations] == ["square", "total", "scale"]
    assert not tape.later_operations
    assert [(s.name, s.first, s.last) for s in tape.scopes] == [("loss", 0, 1), ("update", 2, 2)]
    assert [(w.at, w.settled) for w in tape.outside_writes] == [(3, False)]


def test_a_tape_that_records_again_continues_after_what_was_set_aside():
    x, y, loss = array([1.0, 2.0]), zeros(2), zeros(1)
    with Tape() as tape:
        total(x, loss)
        tape.backward(loss)
        square(x, y)
    with tape:
        total(y, loss)
    assert [o.name for o in tape.operations] == ["total", "square", "total"]
    tape.backward(loss)
    replay = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds)
    np.testing.assert_array_equal(replay.gradient(x), [2, 4])
