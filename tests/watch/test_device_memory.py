"""Arrays of a device that the host cannot read: the CPU stands in for one, and host access is an error.

Only copies that Warp makes may touch such memory. Snapshots stay on the device until somebody looks.
"""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as td
from tapedebug.watch import memory
from tapedebug.watch.tape.coverage import DEVICE

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Let the CPU be a device; views of its memory are refused."""

    def refused(start, nbytes):
        if nbytes:
            raise AssertionError("the host reads memory of the device")
        return np.empty(0, np.uint8)

    for module in ("memory", "bound_launch", "recorder.transfer_calls", "unwritten_memory"):
        monkeypatch.setattr(f"tapedebug.watch.{module}.is_on_host", lambda device: False)
    monkeypatch.setattr(memory, "bytes_at", refused)
    monkeypatch.setattr("tapedebug.watch.unwritten_memory.bytes_at", refused)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (programs.overwritten, ("WRONG", ["overwrite"])),
        (programs.states, ("AGREE", [])),
        (programs.neighbours, ("AGREE", [])),
        (
            programs.springs,
            ("WRONG", ["overwrite"] if programs.CONSUMES else ["overwrite", "overwrite", "warp-limitation"]),
        ),
    ],
)
def test_programs_are_diagnosed_as_on_the_host(program, expected):
    with td.watch_warp() as session:
        _, *arrays = program()
    (tape,) = session.tapes
    assert session.not_covered == []
    kept = [a for a in arrays if isinstance(a, wp.array)]
    before = [(a.numpy().copy(), a.grad.numpy().copy()) for a in kept]
    found = td.diagnose(tape)
    assert (found.verdict, [item.rule for item in found.findings if item.severity == "error"]) == expected
    assert DEVICE in found.coverage.notes
    assert tape.new_replay().forward().matches_live()
    for array, (values, gradient) in zip(kept, before, strict=True):
        np.testing.assert_array_equal(array.numpy(), values)
        np.testing.assert_array_equal(array.grad.numpy(), gradient)


def test_snapshots_come_to_the_host_when_somebody_looks(monkeypatch):
    fetched = []
    real = memory.BytesOnDevice.fetched
    monkeypatch.setattr(memory.BytesOnDevice, "fetched", lambda self: fetched.append(self.size) or real(self))
    with td.watch_warp() as session:
        x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
        with wp.Tape():
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.scale, 2, [x, 2.0])
            wp.launch(programs.total, 2, [y], [loss])
    assert fetched == []
    (tape,) = session.tapes
    np.testing.assert_array_equal(tape.new_replay().forward().values(tape.array(loss)), [5.0])
    assert fetched[:3] == [8, 8, 4]


def test_fills_and_copies_replay():
    with td.watch_warp() as session:
        x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
        with wp.Tape():
            wp.copy(y, x)
            y.fill_(3.0)
            wp.launch(programs.total, 2, [y], [loss])
    (tape,) = session.tapes
    replay = tape.new_replay().forward()
    assert replay.matches_live()
    np.testing.assert_array_equal(replay.values(tape.array(y)), [3.0, 3.0])


def test_memory_of_a_device_is_not_looked_at_for_reads_of_what_nothing_wrote():
    with td.watch_warp() as session:
        x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
        y, loss = wp.empty(2, dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    assert session.not_covered == []
    found = td.diagnose(session.tapes[0])
    assert found.verdict == "AGREE"
    assert any("uninitialised-read was not looked for in arrays" in note for note in found.coverage.notes)
