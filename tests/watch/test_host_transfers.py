"""Values that leave a watched tape and return, on tapes of the reference engine: Warp is not needed."""

from __future__ import annotations

from types import FunctionType

import numpy as np
import pytest

import tapedebug as td
from tapedebug.contract import Arrivals, OutsideReads
from tapedebug.watch import host_transfers
from tapedebug.watch.host_transfers import HostTransfers, host_place
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import square, total


class WatchedTape(Tape):
    def __init__(self):
        super().__init__()
        self.transfers = HostTransfers()
        self.capabilities |= {OutsideReads: self.transfers, Arrivals: self.transfers}

    def __exit__(self, *error):
        self.transfers.tape_ends(self.regions, lambda made: made)
        super().__exit__(*error)


def of_warp(function):
    """A function whose frames count as those of Warp."""
    return FunctionType(function.__code__, {**globals(), "__name__": "warp.stand_in"})


@of_warp
def numpy_of(tape, a):
    """Read a watched array as `numpy()` does."""
    tape.transfers.note_read(a, "numpy", host_place(), len(tape.operations), False)
    return a.values.copy()


@of_warp
def array_of(tape, values):
    """Create a watched array as `wp.array(values)` does."""
    made = array(values)
    tape.transfers.note_arrival(made, "array", host_place(), len(tape.operations))
    return made


def messages(tape):
    return [(item.severity, item.rule) for item in td.diagnose(tape).findings]


def roundtrip(between):
    """The sum of squares of an input, of which `between` takes the squares through NumPy."""
    x, y, loss = array([1.0, 2.0, 0.7, 1.9, 1.1]), zeros(5), zeros(1)
    with WatchedTape() as tape:
        square(x, y)
        z = between(tape, y)
        total(z, loss)
    tape.backward(loss)
    return tape


def through_numpy(tape, y):
    found = np.sin(numpy_of(tape, y)) + 2.0
    return array_of(tape, found)


def element_by_element(tape, y):
    found = [2.0 + float(one) ** 3 for one in numpy_of(tape, y)]
    return array_of(tape, found)


def printed_and_other(tape, y):
    largest = numpy_of(tape, y).max()
    assert largest > 0
    return array_of(tape, [0.3, 0.1, 0.4, 0.15, 0.9])


@pytest.mark.parametrize("between", [through_numpy, element_by_element])
def test_values_that_came_back_as_another_array_are_named_with_both_lines(between):
    (finding,) = td.diagnose(roundtrip(between)).findings
    assert (finding.severity, finding.rule) == ("warning", "disconnected")
    assert (
        "he gradient of x is exactly 0: y, which launch 0 (square) writes, left the tape" in finding.message
    )
    assert "(numpy), and came back as z at test_host_transfers.py:" in finding.message
    assert "(array), which launch 1 (total) reads" in finding.message
    assert finding.call_site.function == between.__name__


def test_an_array_that_was_not_computed_from_what_was_read_did_not_come_back():
    found = td.diagnose(roundtrip(printed_and_other)).findings
    assert "came back" not in " ".join(item.message for item in found)


def test_what_the_tape_does_not_use_is_not_kept_alive():
    with WatchedTape() as tape:
        x, y = array([1.0, 2.0]), zeros(2)
        square(x, y)
        other = array_of(tape, [5.0, 6.0])
        numpy_of(tape, other)
        numpy_of(tape, y)
    assert [read.array for read in tape.transfers.reads()] == [y]
    assert tape.transfers.arrivals() == []
    assert tape.transfers._made == []


def test_the_last_read_of_each_line_is_stored_and_their_number_is_limited(monkeypatch):
    monkeypatch.setattr(host_transfers, "MOST", 2)
    with WatchedTape() as tape:
        x, y = array([1.0, 2.0]), zeros(2)
        for _ in range(3):
            square(x, y)
            numpy_of(tape, y)
        numpy_of(tape, x)
        numpy_of(tape, x)
        for _ in range(3):
            array_of(tape, [1.0])
        assert len(tape.transfers._made) == 2
    assert [(read.array, read.at) for read in tape.transfers.reads()] == [(y, 3), (x, 3)]
