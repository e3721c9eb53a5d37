"""Graphs of launches on the CPU: listed, launched again, with right gradients."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

import tapedebug as td
from tapedebug.aswarp import as_warp
from tapedebug.aswarp.graph_capture import CaptureError
from tapedebug.aswarp.warp_programs import notes_of

pytestmark = pytest.mark.unoptimized


@td.kernel
def squares(x: td.array(dtype=float), y: td.array(dtype=float), scale: float):  # type: ignore[valid-type]
    i = td.tid()
    y[i] = scale * x[i] * x[i]


@td.kernel
def total(y: td.array(dtype=float), loss: td.array(dtype=float)):  # type: ignore[valid-type]
    td.atomic_add(loss, 0, y[td.tid()])


@td.kernel
def count_down(n: td.array(dtype=int)):  # type: ignore[valid-type]
    n[0] = n[0] - 1


@pytest.fixture
def wp() -> Iterator[Any]:
    with as_warp():
        yield importlib.import_module("warp")
    assert td.launch.__code__.co_varnames[:2] == ("kernel", "dim"), "the interception is undone"


def test_a_graph_runs_when_it_is_launched_each_time_with_right_gradients(wp: Any) -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y, loss = (wp.zeros(n, dtype=float, requires_grad=True) for n in (2, 1))
    tape = wp.Tape()
    inputs = [x, y, 3.0]
    with wp.ScopedCapture() as capture:
        with tape:
            loss.zero_()
            wp.launch(squares, dim=2, inputs=inputs)
            wp.launch(total, dim=2, inputs=[y, loss])
        tape.backward(loss)
    inputs[2] = 100.0
    assert (loss.numpy().tolist(), len(tape.records)) == ([0.0], 0)
    wp.capture_launch(capture.graph)
    assert (loss.numpy().tolist(), x.grad.numpy().tolist()) == ([15.0], [6.0, 12.0])
    tape.zero()
    x.assign([2.0, 2.0])
    wp.capture_launch(capture.graph)
    assert (loss.numpy().tolist(), x.grad.numpy().tolist()) == ([24.0], [12.0, 12.0])
    assert len(tape.records) == 3
    site = tape.records[1].call_site
    assert "wp.launch(squares" in site.caret()


def test_a_tape_around_a_launch_of_a_graph_has_its_launches_and_notes_that_warps_has_not(wp: Any) -> None:
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    y, loss = (wp.zeros(n, dtype=float, requires_grad=True) for n in (2, 1))
    with wp.ScopedCapture() as capture:
        wp.launch(squares, dim=2, inputs=[x, y, 1.0])
    with wp.Tape() as tape:
        wp.capture_launch(capture.graph)
        wp.launch(total, dim=2, inputs=[y, loss])
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 4.0]
    notes = [notes_of(record) for record in tape.records]
    assert [each is not None and each.command for each in notes] == [True, False]


def test_copies_fills_new_arrays_commands_and_sums_are_listed(wp: Any) -> None:
    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2, dtype=float)
    command = wp.launch(squares, dim=2, inputs=[x, y, 1.0], record_cmd=True)
    out = wp.zeros(1, dtype=float)
    with wp.ScopedCapture() as capture:
        filled = wp.full(2, 5.0, dtype=float)
        command.launch()
        wp.copy(filled, y, count=1)
        y.fill_(7.0)
        wp.utils.array_sum(filled, out=out)
        with pytest.raises(
            NotImplementedError, match=r"array_sum\(\) returns a number, which a graph has not"
        ):
            wp.utils.array_sum(filled)
    filled.fill_(0.0)
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert (filled.numpy().tolist(), y.numpy().tolist()) == ([1.0, 5.0], [7.0, 7.0])
        assert out.numpy().tolist() == [6.0]


def test_branches_and_loops_are_decided_at_each_launch(wp: Any) -> None:
    n, log = wp.array([3], dtype=int), wp.zeros(1, dtype=float)
    with wp.ScopedCapture() as capture:
        wp.capture_if(n, on_true=lambda: log.fill_(1.0), on_false=lambda: log.fill_(2.0))
        wp.capture_while(n, lambda: wp.launch(count_down, dim=1, inputs=[n]))
    assert n.numpy().tolist() == [3]
    for expected in (1.0, 2.0):
        wp.capture_launch(capture.graph)
        assert (n.numpy().tolist(), log.numpy().tolist()) == ([0], [expected])
    n.fill_(2)
    wp.capture_while(n, lambda: wp.launch(count_down, dim=1, inputs=[n]))
    assert n.numpy().tolist() == [0]


def test_wrong_uses_are_told(wp: Any) -> None:
    with pytest.raises(CaptureError, match="no graph is being captured"):
        wp.capture_end()
    with pytest.raises(CaptureError, match="takes a graph; got None"):
        wp.capture_launch(None)
    with wp.Tape(), pytest.raises(CaptureError, match="cannot be captured while a tape records"):
        wp.capture_begin()
    with wp.ScopedCapture(), pytest.raises(CaptureError, match="already in progress"):
        wp.capture_begin()
    with pytest.raises(ZeroDivisionError), wp.ScopedCapture() as capture:
        1 / 0
    assert capture.graph is None
    with wp.ScopedCapture(), pytest.raises(td.LaunchError, match="squares"):
        wp.launch(squares, dim=2, inputs=[wp.zeros(2)])
