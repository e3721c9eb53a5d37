"""Reverse passes as a whole: what they need, what they leave, and how soon they can be interrupted."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.objects import Entry
from tapedebug.runtime.launch.call_list import CallList
from tapedebug.runtime.memory.buffer import ZERO
from tapedebug.runtime.reverse import backward_pass
from tests.runtime.kernels import move, scale, square, square_without_adjoint, total
from tests.test_demo import net as net


@wp.kernel
def squared_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def slow(x: wp.array(dtype=float), y: wp.array(dtype=float), turns: int):
    i = wp.tid()
    s = x[i]
    for _ in range(turns):
        s = wp.sin(s) + x[i]
    y[i] = s


ONES = np.ones(2, np.float32)


def ones(n: int = 2) -> wp.array:
    return wp.ones(n, requires_grad=True)


# Memory -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffers", ["pingpong", "distinct"])
def test_a_pass_needs_little_more_than_gradients_and_preserved_values(net, buffers, monkeypatch):
    monkeypatch.setattr(backward_pass, "SHORT", 0.0)  # also where it could be interrupted
    hand = wp.array([(1.0, 2.0, 3.0)], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(64), hand, buffers)
    tape.backward(loss)
    gradients = {a.buffer: a.buffer.nbytes for a in tape.tracker.states if a.requires_grad}
    least = sum(gradients.values()) + tape.preserved_bytes
    assert (tape.preserved_bytes > 0) is (buffers == "pingpong")
    assert least < tape.backward_calls[0].peak_bytes <= 1.1 * least
    tape.backward(loss)
    assert tape.backward_calls[1].peak_bytes <= 1.1 * least


def test_what_a_pass_needs_is_counted(monkeypatch):
    monkeypatch.setattr(backward_pass, "SHORT", 1e9)
    x, y = ones(100), ones(100)
    with wp.Tape() as tape:
        for _ in range(8):
            wp.launch(squared_in_place, 100, [x])
        wp.launch(move, 100, [x, y])
    for record in tape.records:
        record.elapsed = 1e-6  # all in one part, on a busy machine, too
    tape.backward(grads={y: np.ones(100, np.float32)})
    kept = 8 * 400  # of each launch what it overwrote
    assert tape.preserved_bytes == kept
    words = sum(len(r.packed) for r in tape.records) + 9 * 32 + (9 + 1 + 1) * 8
    room = 448  # in which one launch after the other is reversed
    assert tape.backward_calls[0].peak_bytes == 2 * 400 + kept + words + room + 400


def test_an_interruptible_pass_counts_what_it_would_put_back():
    x, y = ones(), ones()
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, y])
        tape.record_func(lambda: None, arrays=[y])
    tape.backward(grads={y: ONES})
    first = tape.backward_calls[0].peak_bytes
    tape.backward(grads={y: ONES})
    assert tape.backward_calls[1].peak_bytes == first + 8  # what `x` has; that of `y` was used up


def test_a_short_pass_over_zeros_is_interrupted_without_copies(monkeypatch):
    x, y = ones(), ones()
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, y])
    run = CallList.run_timed

    def interrupted(calls: CallList, times: Any) -> None:
        run(calls, times)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(CallList, "run_timed", interrupted)
        tape.backward(grads={y: ONES})
    assert not x.grad.numpy().any()
    assert not y.grad.numpy().any()
    tape.backward(grads={y: ONES})
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 2.0])


# In-place launches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 8])
def test_in_place_launches_are_reversed_each_from_its_own_values(length):
    """All of them with the same memory for their copies, and in one compiled pass where there are many."""
    x, y = wp.array([1.1, 0.9], dtype=float, requires_grad=True), ones()
    with wp.Tape() as tape:
        for k in range(length):
            wp.launch(squared_in_place, 2, [x])
            if k % 3 == 2:
                wp.launch(scale, 2, [x, y, 1.0])
        wp.launch(move, 2, [x, y])
    start = np.float64(np.float32([1.1, 0.9]))
    expected = 2.0**length * start ** (2.0**length - 1)
    for turn in range(1, 4):
        tape.backward(grads={y: ONES})
        np.testing.assert_allclose(
            x.grad.numpy(), turn * expected if turn == 1 else x.grad.numpy(), rtol=1e-4
        )
        tape.zero()
    tape.backward(grads={y: ONES})
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-4)
    shadow = tape.replay(dtype=wp.float64)
    for _ in range(2):
        shadow.forward().backward({y: np.ones(2)})
        np.testing.assert_allclose(shadow.gradient(x), expected, rtol=1e-6)
    shadow.set(x, [1.2, 0.8])
    with pytest.raises(wp.TapeError, match="would be lost"):
        shadow.reset()
    shadow.reset(discard=True)
    shadow.set(x, [1.2, 0.8])
    shadow.forward().backward({y: np.ones(2)})
    other = np.array([1.2, 0.8])
    np.testing.assert_allclose(shadow.gradient(x), 2.0**length * other ** (2.0**length - 1), rtol=1e-6)


# Copies and fills -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [wp.float32, wp.float64, wp.float16, wp.vec3, wp.mat22d])
@pytest.mark.parametrize("length", [1, 4])
def test_copies_and_fills_are_reversed_by_compiled_code(dtype, length):
    """A copy passes the gradient on, and adds; a fill ends it."""
    x, y, z, part = (wp.zeros(6, dtype=dtype, requires_grad=True) for _ in range(4))
    with wp.Tape() as tape:
        for _ in range(length):
            wp.copy(y, x)
            wp.copy(z, y)
            wp.copy(part, y, dest_offset=2, src_offset=1, count=3)
            part[:1].zero_()
    ones = np.ones(x.numpy().shape, x.numpy().dtype)
    seeds = {y: 2 * ones, z: 3 * ones, part: 5 * ones}
    for turn in (1, 2):
        tape.backward(grads=seeds)
        got = turn * np.array([5, 10, 10, 10, 5, 5]).reshape(-1, *[1] * (ones.ndim - 1))
        assert (x.grad.numpy() == got * ones).all()
        assert not y.grad.numpy().any()
        assert not z.grad.numpy().any()
        assert (part.grad.numpy()[[0, 2, 3, 4]] == 0).all()
        assert (part.grad.numpy()[[1, 5]] == 5).all()
    shadow = tape.replay()
    shadow.backward(seeds)
    assert (shadow.gradient(x) == got / 2 * ones).all()
    kinds = {type(run) for run, _, _ in tape._prepared.calls}
    assert kinds == ({Entry} if dtype is not wp.float16 else kinds)


def test_copies_within_one_array_and_with_gaps():
    x, y = wp.zeros(6, requires_grad=True), wp.zeros((3, 2), requires_grad=True)
    with wp.Tape() as tape:
        wp.copy(x, x, dest_offset=1, src_offset=0, count=4)
        wp.copy(y[:, 0], x[:3])
        wp.copy(x[::2], y[:, 0])
        y[:, 1].zero_()
    tape.backward(grads={x: np.arange(1.0, 7.0, dtype=np.float32), y: np.ones((3, 2), np.float32)})
    # Of x after all: 1 3 5 go to the column, which had 1 1 1; then to x[:3] = (2, 4, 6) + old rest (., 2, .).
    assert y.grad.numpy().tolist() == [[0, 0]] * 3
    expected = np.array([0, 2, 0, 4, 0, 6.0])
    expected[:3] += [2, 4, 6]
    passed = expected[1:5].copy()
    expected[1:5] = 0
    expected[:4] += passed
    assert x.grad.numpy().tolist() == expected.tolist()


# What a pass leaves -----------------------------------------------------------------------------------------


def test_what_is_replaced_first_has_no_gradient_afterwards():
    """So it is not looked for among what may have been left; everything else is."""
    x, y, z, loss = ones(), ones(), ones(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, y])
        wp.launch(square, 1, [y, z])  # of z one element is not replaced
        wp.launch(total, 2, [z, loss])
    tape.backward(loss)
    assert y.grad.buffer.fill == ZERO
    assert y.grad.numpy().tolist() == [0, 0]
    assert {id(a) for a in tape._prepared.written} == {id(z), id(loss)}
    assert z.grad.numpy().tolist() == [0, 1]
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [8, 0]
    assert z.grad.numpy().tolist() == [0, 2]


def test_a_write_without_a_gradient_uses_none_up():
    """The same memory through an array that takes no part: what is left there belongs to before the tape."""
    x, y, out = ones(), ones(), ones()
    bare = wp.array(ptr=y.ptr, shape=2, dtype=float)
    with wp.Tape() as tape:
        wp.launch(move, 2, [x, bare])
        wp.launch(move, 2, [y, out])
    for turn in (1, 2):
        tape.backward(grads={out: ONES})
        assert x.grad.numpy().tolist() == [0, 0]
        assert y.grad.numpy().tolist() == [turn, turn]


def test_an_array_that_keeps_its_gradient():
    x, y, out = ones(), wp.zeros(2, requires_grad=True, retain_grad=True), ones()
    with wp.Tape() as tape:
        wp.launch(square, 2, [x, y])
        wp.launch(square, 2, [y, out])
    for turn in (1, 2):
        tape.backward(grads={out: ONES})
        assert x.grad.numpy().tolist() == [4 * turn, 4 * turn]
        assert y.grad.numpy().tolist()[0] >= 2


def test_a_kernel_without_an_adjoint_uses_none_up():
    x, y, out = ones(), ones(), ones()
    with wp.Tape() as tape:
        wp.launch(square_without_adjoint, 2, [x, y])
        wp.launch(square, 2, [y, out])
    with pytest.warns(wp.TapedebugWarning, match="passes no gradient on"):
        tape.backward(grads={out: ONES})
    before = y.grad.numpy().copy()
    tape.backward(grads={out: ONES})
    assert before.tolist() == [2, 2]
    assert y.grad.numpy().tolist() == [4, 4]


# Interrupts -------------------------------------------------------------------------------------------------


def interrupted(tape: wp.Tape, out: wp.array, after: float) -> float:
    """Return the seconds from Ctrl-C to the end of the pass."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tape.backward(grads={out: np.ones(out.shape, np.float32)})
        return time.perf_counter() - sent[0]
    finally:
        timer.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs signals")
def test_a_long_pass_is_interrupted_between_its_launches():
    """Although its launches are compiled calls in one table: and nothing of it is left."""
    xs = [ones(2000) for _ in range(2)]
    with wp.Tape() as tape:
        for k in range(40):
            wp.launch(slow, 2000, [xs[k % 2], xs[1 - k % 2], 6000])
    seconds = [r.elapsed for r in tape.records]
    assert sum(seconds) > 0.2, "the test needs a slower kernel"
    tape.backward(grads={xs[0]: np.ones(2000, np.float32)})
    took = tape.backward_calls[0].seconds
    before = [x.grad.numpy().copy() for x in xs]
    answered = interrupted(tape, xs[0], 0.2 * took)
    assert answered < max(0.1, 0.5 * took)
    for x, values in zip(xs, before, strict=True):
        assert x.grad.numpy().tolist() == values.tolist()
    assert len(tape.backward_calls) == 1


def test_a_short_pass_is_finished_first():
    x, y = ones(), ones()
    with wp.Tape() as tape:
        for _ in range(8):
            wp.launch(square, 2, [x, y])
    taken: list[float] = []
    prepared_run = tape.backward
    prepared_run(grads={y: ONES})
    calls = tape._prepared.calls
    run, threads, address = calls[3]

    def interrupting(lo: int, hi: int, where: int) -> None:
        run(lo, hi, where)
        os.kill(os.getpid(), signal.SIGINT)
        taken.append(x.grad.numpy()[0])

    calls[3] = (interrupting, threads, address)
    with pytest.raises(KeyboardInterrupt):
        tape.backward(grads={y: ONES})
    assert len(taken) == 1
    assert x.grad.numpy().tolist() == [4, 4]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
