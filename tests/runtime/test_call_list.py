"""Passes over a table: what runs, in which order, how it is timed, and where somebody may interrupt."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.objects import Entry
from tapedebug.runtime.launch import call_list
from tapedebug.runtime.launch.call_list import BACK, DOUBLE, CallList, Times
from tapedebug.runtime.parallel.cost_model import SERIES_EVEN, CostModel
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry
from tapedebug.runtime.replay.shadow import Shadow
from tests.runtime.kernels import move, scale, square


def chain(length: int, arrays: int = 3) -> tuple[wp.Tape, list[wp.array]]:
    """A tape of `length` launches, each of which doubles what the one before it made, in few arrays."""
    xs = [wp.ones(2, requires_grad=True) for _ in range(arrays)]
    with wp.Tape() as tape:
        for k in range(length):
            wp.launch(scale, 2, [xs[k % arrays], xs[(k + 1) % arrays], 1.5 if k % 2 else 0.5])
    return tape, xs


def counting(order: list[int], number: int) -> Callable[[int, int, int], None]:
    return lambda lo, hi, where: order.append(number)


@pytest.mark.parametrize("length", [2, 3, 4, 5, 40])
@pytest.mark.parametrize("others", [(), (0,), (2,), (0, 1, 2), (5, 6, 20, 39)])
def test_all_run_once_in_order(length: int, others: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled calls, alone and together, and others between them: the values tell the order."""
    tape, xs = chain(length)
    plain = [x.numpy().copy() for x in xs]
    shadow = tape.replay(stop=0)
    calls, order = shadow._forward[1], []
    for number in (n for n in others if n < length):
        run, threads, where = calls[number]
        calls[number] = (_both(run, counting(order, number)), threads, where)
    shadow.forward()
    for x, values in zip(xs, plain, strict=True):
        assert shadow.values(x).tolist() == values.tolist()
    assert order == [n for n in others if n < length]
    driven: list[tuple[int, int]] = []
    drive = CallList._drive

    def noted(self: CallList, start: int, stop: int, *rest: object) -> None:
        driven.append((start, stop))
        drive(self, start, stop, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(CallList, "_drive", noted)
    shadow.forward(0, 0)
    for first, last in itertools.pairwise([0, *[n for n in (1, 2, 7, 30) if n < length], length]):
        shadow.forward(first, last)
    assert all(stop - start > 1 for start, stop in driven)
    assert not any(start <= n < stop for start, stop in driven for n in others)
    for x, values in zip(xs, plain, strict=True):
        assert shadow.values(x).tolist() == values.tolist()


def _both(run: Callable[..., None], other: Callable[..., None]) -> Callable[..., None]:
    def called(lo: int, hi: int, where: int) -> None:
        run(lo, hi, where)
        other(lo, hi, where)

    return called


def test_a_long_pass_is_divided() -> None:
    """It pauses for interrupts about every hundredth of a second, by the times of its launches."""
    tape, _ = chain(40)
    for record in tape.records:
        record.elapsed = 0.0019
    pulses: list[int] = []
    shadow = Shadow(tape.tracker)
    shadow.pulse = lambda: pulses.append(shadow._forward[1].done)
    shadow.forward()
    assert pulses == [*range(0, 40, 5)]
    tape.records[7].elapsed = 1.0
    shadow, pulses = Shadow(tape.tracker), []
    shadow.pulse = lambda: pulses.append(shadow._forward[1].done)
    shadow.forward()
    assert 7 in pulses  # it does not wait for the long one
    assert 8 in pulses


def test_where_a_pulse_cancels_the_rest_can_run_later() -> None:
    tape, xs = chain(40)
    for record in tape.records:
        record.elapsed = 0.0019
    shadow, pulses = Shadow(tape.tracker), itertools.count()

    def cancel() -> None:
        if next(pulses) == 3:
            raise TimeoutError

    shadow.pulse = cancel
    with pytest.raises(TimeoutError):
        shadow.forward()
    assert shadow.position == 15
    shadow.forward(15)
    assert shadow.matches_live()
    assert shadow.values(xs[1]).tolist() == xs[1].numpy().tolist()


def test_each_launch_is_timed() -> None:
    """Also where many run at once; their times add up to those of the parts."""
    tape, xs = chain(40)
    big, out = wp.ones(1 << 16, requires_grad=True), wp.zeros(1 << 16, requires_grad=True)
    with tape:
        wp.launch(square, big.size, [big, out])
    assert [r.backward_elapsed for r in tape.records] == [None] * 41
    passes = []
    for number in range(5):
        tape.backward(grads={xs[1]: np.ones(2, np.float32), out: np.ones(1 << 16, np.float32)})
        times = [r.backward_elapsed for r in tape.records]
        assert all(t is not None and t >= 0 for t in times)
        assert sum(t or 0.0 for t in times) <= tape.backward_calls[number].seconds
        passes.append([t or 0.0 for t in times])
    shortest = np.min(passes, axis=0)  # on a busy machine any launch may be delayed once
    assert np.argmax(shortest) == 40
    before = times
    tape.backward(grads={xs[1]: np.ones(2, np.float32)})
    assert [r.backward_elapsed for r in tape.records] != before


def test_launches_of_many_threads_are_in_the_table_where_they_run_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arguments decide which entry runs them; launches that run in chunks are called."""
    # Measured times are left out: on a busy machine a launch that was delayed counts as a long one. They are
    # stored all the same, as these models serve later launches.
    monkeypatch.setattr(CostModel, "alone", property(lambda model: 0.0, CostModel.alone.__set__))
    monkeypatch.setattr(wp.config, "num_threads", 1)
    xs = [wp.ones(n, requires_grad=True) for n in (1000, 1000, 1 << 18, 1 << 18)]
    with wp.Tape() as tape:
        for _ in range(5):
            wp.launch(square, 1000, xs[:2])
        wp.launch(square, 1 << 18, xs[2:])
    for record in tape.records:
        record.elapsed = record.threads * 1e-8
    tape.backward(grads={xs[1]: np.ones(1000, np.float32), xs[3]: np.ones(1 << 18, np.float32)})
    kinds = [type(run) for run, _, _ in tape._prepared.calls]
    assert kinds == [ParallelEntry, *[Entry] * 5]
    assert xs[0].grad.numpy().tolist() == [2] * 1000
    assert xs[2].grad.numpy().tolist() == [2] * (1 << 18)


@pytest.fixture
def doubles() -> Shadow:
    """A replay in float64 of five launches, large enough for several threads, that were never measured."""

    @wp.kernel(module="unique")
    def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i] * x[i]

    x, y = wp.ones(1 << 14, requires_grad=True), wp.zeros(1 << 14, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(5):
            wp.launch(cube, 1 << 14, [x, y])
    shadow = Shadow(tape.tracker, wp.float64)
    shadow.forward_only = True
    return shadow


def run_twice(shadow: Shadow, elapsed: float) -> list[set[type]]:
    """Return how the calls ran in two passes, if the recorded launches took so many seconds each."""
    for record in shadow.records:
        record.elapsed = elapsed
    found = []
    for _ in range(2):
        shadow.forward(0)
        found.append({type(run) for run, _, _ in shadow._forward[1]})
    return found


def test_a_recorded_time_that_leaves_open_if_a_twin_is_long_is_replaced_by_a_measured_one(
    doubles: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float64 takes more than twice as long; what ran on several threads takes longer on one."""
    monkeypatch.setattr(wp.config, "num_threads", 1)
    open_from = SERIES_EVEN / BACK / DOUBLE
    assert run_twice(doubles, 1.1 * open_from) == [{ParallelEntry}, {Entry}]
    assert doubles.values(doubles.records[0].args[1]).tolist() == [1] * (1 << 14)


def test_a_recorded_time_that_is_surely_short_is_not_measured(
    doubles: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wp.config, "num_threads", 2)
    open_from = SERIES_EVEN / BACK / DOUBLE / 2
    assert run_twice(doubles, 0.9 * open_from) == [{Entry}, {Entry}]


def test_launches_that_are_long_in_float64_run_on_several_threads(
    doubles: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CostModel, "ran_alone", _took(2 * SERIES_EVEN))
    assert run_twice(doubles, SERIES_EVEN / BACK) == [{ParallelEntry}, {ParallelEntry}]


def _took(seconds: float) -> Callable[[CostModel, float], None]:
    """Return a method that notes this time for each launch."""
    ran_alone = CostModel.ran_alone
    return lambda model, _: ran_alone(model, seconds)


def test_times_where_nothing_is_counted() -> None:
    """A processor whose counter may not be read gives equal shares."""
    times = Times([])
    times.indices = [5, 6, 7, 8, 9]
    times.starts, times.took, times.stamps = [0, 4, 5], [2.0, 3.0], np.zeros(8, np.int64)
    assert times._seconds().tolist() == [0.5] * 4 + [3.0]


def test_rows_of_few_threads_run_together_and_of_many_one_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(call_list, "MOST", 8)
    x, y = wp.array(np.arange(6.0), dtype=float), wp.zeros(6)
    with wp.Tape() as tape:
        for _ in range(5):
            wp.launch(move, 2, [x, y])
    packed = np.concatenate([np.frombuffer(tape.records[0].packed, np.int64)] * 3).reshape(3, -1).copy()
    slots = dict(tape.records[0].plan.value_slots)
    packed[:, slots[0]] += [0, 8, 16]
    packed[:, slots[1]] += [0, 8, 16]
    record, pulses = tape.records[0], []
    address, stride = packed.ctypes.data, packed.strides[0]
    calls = CallList([record.plan.large.entry] * 5, [2] * 5, [address] * 5, stride=stride, held=packed)
    y.zero_()
    calls.run(rows=3, pulse=lambda: pulses.append(0))
    assert y.numpy().tolist() == x.numpy().tolist()
    assert len(pulses) == 1 + 5


def test_a_tape_that_ran_backward_goes_away_at_once() -> None:
    """Records know how long they took, and what noted it does not know them."""
    gc.collect()
    gc.disable()
    try:
        tape, xs = chain(12)
        with tape:
            wp.copy(xs[0], xs[1])
        tape.backward(grads={xs[0]: np.ones(2, np.float32)})
        gone = [weakref.ref(tape), weakref.ref(tape.tracker)]
        del tape
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def test_a_short_pass_that_runs_often_calls_entries_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_list, "OFTEN", 3)
    tape, xs = chain(2)
    seeds, found = {xs[2]: wp.ones(2)}, []
    for _ in range(5):
        tape.backward(grads=seeds)
        found.append(xs[0].grad.numpy().tolist())
        tape.zero()
    assert tape._prepared is not None
    calls = tape._prepared.calls
    assert calls._direct is not None
    assert {type(run).__name__ for run in calls._direct} == {"builtin_function_or_method"}
    assert found == [[0.75] * 2] * 5
    order: list[int] = []
    calls[0] = counting(order, 7), 2, 0  # a call that is replaced is not called any more
    tape.backward(grads=seeds)
    assert order == [7]
