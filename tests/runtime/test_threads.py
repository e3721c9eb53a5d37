"""A tape records the launches of the thread that opened its block; other threads have tapes of their own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._errors import TapeError
from tapedebug.runtime.state import is_recording, others_record, state
from tests.runtime.kernels import scale, square


def vector(*values: float) -> wp.array:
    return wp.array(values, dtype=float, requires_grad=True)


def elsewhere(work: Callable[[], Any]) -> Any:
    """Return what a call returns, or raises, in another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append((work(), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    ((value, error),) = found
    if error is not None:
        raise error
    return value


def test_launches_of_another_thread_are_not_recorded_and_what_they_overwrite_is_kept() -> None:
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), vector(5, 6)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        elsewhere(lambda: wp.launch(scale, 2, inputs=[z, x, 2.0]))
        elsewhere(lambda: wp.copy(wp.zeros(2), z))
        assert elsewhere(lambda: state.tape) is None
        assert state.tape is tape
    assert [record.name for record in tape.records] == ["square"]
    assert [(event.how, event.at) for event in tape.outside] == [("launch", 1)]
    tape.backward(grads={y: np.ones(2, np.float32)})
    assert x.grad.numpy().tolist() == [2, 4]
    assert x.numpy().tolist() == [10, 12]


def test_each_thread_has_a_tape_of_its_own_at_the_same_time() -> None:
    ready = threading.Barrier(3)
    found: dict[float, list[float]] = {}

    def work(factor: float) -> None:
        x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
        with wp.Tape() as tape:
            ready.wait()
            for _ in range(200):
                wp.launch(scale, 2, inputs=[x, y, factor])
            ready.wait()
        assert len(tape.records) == 200
        tape.backward(grads={y: np.ones(2, np.float32)})
        found[factor] = x.grad.numpy().tolist()

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (2.0, 3.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {factor: [factor, factor] for factor in (2.0, 3.0, 4.0)}


def test_a_tape_that_records_elsewhere_cannot_be_opened_here() -> None:
    with wp.Tape() as tape:
        assert elsewhere(lambda: is_recording(tape))
        with pytest.raises(TapeError) as caught:
            elsewhere(tape.__enter__)
        assert str(caught.value) == (
            "cannot start recording: this tape is recording already, in another thread\n"
            "  = hint: give each thread a tape of its own"
        )
        assert state.tape is tape
    assert not is_recording(tape)
    elsewhere(tape.__enter__)
    assert not is_recording(tape)  # the thread that opened it is gone
    with tape:
        assert state.tape is tape


def test_the_block_of_a_tape_may_end_in_another_thread() -> None:
    with wp.Tape() as tape:
        elsewhere(lambda: tape.__exit__(None, None, None))
        assert state.tape is None and not is_recording(tape)
    with tape:
        assert state.tape is tape


def test_wherever_ctrl_c_comes_all_threads_agree_on_what_records() -> None:
    seen = set()
    for moment in range(200):
        tape = wp.Tape()
        left = moment

        def trace(frame: FrameType, event: str, argument: object, of: wp.Tape = tape) -> Any:
            nonlocal left
            if frame.f_code.co_filename.endswith(("tape.py", "_state.py")) and event == "line":
                left -= 1
                if left < 0:
                    raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with tape:
                pass
        except KeyboardInterrupt:
            sys.settrace(before)
            recording = state.tape is tape
            seen.add((recording, tape.ended == 0))
            assert (is_recording(tape), elsewhere(others_record)) == (recording, recording)
            state.tape = None
            assert not is_recording(tape) and not elsewhere(others_record)
        else:
            sys.settrace(before)
            break
    assert left >= 0, "the block is longer than what was tried"
    assert {(False, True), (True, True)} <= seen


def test_nobody_travels_in_time_while_another_thread_records() -> None:
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])

    def travel() -> None:
        with tape.at(0):
            pass

    with wp.Tape(), pytest.raises(TapeError, match="at: a tape is recording"):
        elsewhere(travel)
    elsewhere(travel)
