"""Reads of memory of Warp that nothing has written: `uninitialised-read` of watched programs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tapedebug as td
from tapedebug.watch.unwritten_memory import UnwrittenMemory

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


@wp.kernel
def inside(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0 and i < 3:
        y[i] = x[i - 1] + x[i + 1]


@wp.kernel
def add(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] + x[i]


@wp.kernel
def add_to_state(x: wp.array(dtype=float), state: programs.State):
    i = wp.tid()
    state.q[i] = state.q[i] + x[i]


@wp.struct
class Sparse:
    data: wp.array(dtype=float)
    indices: wp.array(dtype=int)
    diagonal: wp.array(dtype=float)


@wp.kernel
def clear(state: programs.State):
    state.q[wp.tid()] = 0.0


def asked(count):
    return wp.full(count, 2.0, dtype=float, requires_grad=True)


def empty(count=4):
    return wp.empty(count, dtype=float, requires_grad=True)


def message(program):
    """The arrays of the findings about reads of unwritten memory, each with its severity and call line."""
    with td.watch_warp() as session:
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape = wp.Tape()
        program(tape, loss)
        tape.backward(loss)
    found = td.diagnose(session.tapes[0], progress=False)
    assert session.not_covered == []
    return [(f.arrays, f.severity, f.evidence["elements"]) for f in found.findings if f.rule == CODE]


CODE = "uninitialised-read"


def edges(tape, loss):
    x, y = asked(4), empty()
    with tape:
        wp.launch(inside, 4, [x], [y])
        wp.launch(programs.total, 4, [y], [loss])


def added_to(tape, loss):
    x, y = asked(4), wp.empty_like(asked(4))
    with tape:
        wp.launch(add, 4, [x], [y])
        wp.launch(programs.total, 4, [y], [loss])


def without_data(tape, loss):
    x, y = asked(4), wp.array(shape=4, dtype=float, requires_grad=True)
    with tape:
        wp.launch(add, 4, [x], [y])
        wp.launch(programs.total, 4, [y], [loss])


def half_of_it(tape, loss):
    x, y = asked(2), empty()
    with tape:
        wp.launch(programs.square, 2, [x], [y[:2]])
        wp.launch(programs.total, 4, [y], [loss])


def field_of_a_struct(tape, loss):
    x, state = asked(4), programs.State()
    state.q, state.v, state.k = empty(), asked(4), 1.0
    with tape:
        wp.launch(add_to_state, 4, [x, state])
        wp.launch(programs.total, 4, [state.q], [loss])


def through_a_copy(tape, loss):
    x, y, z = asked(4), empty(), empty()
    with tape:
        wp.launch(inside, 4, [x], [y])
        wp.copy(z, y)
        wp.launch(programs.total, 4, [z], [loss])


def the_first_tape_only(tape, loss):
    x, y = asked(4), empty()
    with tape:
        wp.launch(programs.total, 4, [y], [loss])
        wp.launch(programs.square, 4, [x], [y])
        wp.launch(programs.total, 4, [y], [loss])


@pytest.mark.parametrize(
    ("program", "label", "elements"),
    [
        (edges, "y", 2),
        (added_to, "y", 4),
        (without_data, "y", 4),
        (half_of_it, "y", 2),
        (field_of_a_struct, "state.q", 4),
        (through_a_copy, "z", 2),
        (the_first_tape_only, "y", 4),
    ],
)
def test_elements_that_nothing_wrote_are_counted(program, label, elements):
    assert message(program) == [([label], "warning", elements)]


def filled(y):
    y.fill_(1.0)


def zeroed(y):
    y.zero_()


def assigned(y):
    y.assign([0.0, 0.0, 0.0, 0.0])


def copied(y):
    wp.copy(y, wp.zeros(4, dtype=float))


def written_by_numpy(y):
    y.numpy()[:] = 0.0


def written_through_the_interface(y):
    np.asarray(y)[:] = 0.0


def launched(y):
    wp.launch(programs.square, 4, [wp.zeros(4, dtype=float)], [y])


def launched_in_a_struct(y):
    state = programs.State()
    state.q, state.v, state.k = y, y, 1.0
    wp.launch(clear, 4, [state])


WRITES = (
    filled,
    zeroed,
    assigned,
    copied,
    written_by_numpy,
    written_through_the_interface,
    launched,
    launched_in_a_struct,
)


@pytest.mark.parametrize("when", ["before", "inside"])
@pytest.mark.parametrize("write", WRITES)
def test_memory_that_anything_wrote_is_no_finding(write, when):
    def program(tape, loss):
        x, y = asked(4), empty()
        if when == "before":
            write(y)
        with tape:
            if when == "inside":
                write(y)
            wp.launch(add, 4, [x], [y])
            wp.launch(programs.total, 4, [y], [loss])

    assert message(program) == []


def test_a_launch_that_is_not_covered_may_have_written_anything():
    with td.watch_warp() as session:
        x, y, z = asked(4), empty(), empty()
        with wp.Tape():
            wp.launch(programs.square, 2, [x], [y[:2]])
            (tape,) = session._recording.live
            assert (list(tape.unwritten.values()), bool(session._recording.unwritten)) == ([None], True)
            wp.launch(programs.scale, 4, [z.__ctype__(), 1.0])
            assert (list(tape.unwritten.values()), bool(session._recording.unwritten)) == ([1], False)
    assert [gap.reason for gap in session.not_covered] == ["x is the address of an array"]


def test_structs_with_the_members_of_an_indexed_array_are_structs():
    unwritten, matrix = UnwrittenMemory(), Sparse()
    matrix.data, matrix.indices, matrix.diagonal = asked(4), wp.zeros(4, dtype=int), empty()
    unwritten.note_made(matrix.diagonal)
    unwritten.written(matrix)
    assert not unwritten


def test_a_second_tape_is_not_told_of_memory_that_the_first_one_wrote():
    with td.watch_warp() as session:
        x, y, loss = asked(4), empty(), wp.zeros(1, dtype=float, requires_grad=True)
        for _ in range(2):
            with wp.Tape() as tape:
                wp.launch(inside, 4, [x], [y])
                wp.launch(programs.total, 4, [y], [loss])
            tape.backward(loss)
            tape.zero()
    told_of = [[f.rule for f in td.diagnose(t, progress=False).findings] for t in session.tapes]
    assert [CODE in rules for rules in told_of] == [True, False]


def test_unseen_writes_before_the_tape_are_found_by_their_values():
    unwritten, y = UnwrittenMemory(), empty()
    view = y.numpy()
    view[:] = 1.0
    unwritten.note_made(y)
    view[3] = 2.0

    class Region:
        owner = y

    assert not unwritten.take(Region)
    unwritten.note_made(y)
    assert unwritten.take(Region)
    assert not unwritten.take(Region)


def test_arrays_that_are_gone_are_forgotten():
    unwritten, y = UnwrittenMemory(), empty()
    unwritten.note_made(y)
    assert unwritten
    del y
    assert not unwritten


def test_arrays_of_libraries_are_not_counted(tmp_path):
    program = """
import sys
import tapedebug
with tapedebug.watch_warp() as watched:
    import warp as wp
    wp.config.quiet = True
    wp.init()
    made = [wp.zeros(4, dtype=float), wp.full(4, 1.0, dtype=float), wp.clone(wp.ones(4, dtype=float))]
    made += [wp.array([1.0, 2.0], dtype=float), wp.ones_like(made[0]), made[0][1:3], made[0].flatten()]
    known = watched._recording.unwritten
    assert not known, known._arrays
    kept = wp.empty(4, dtype=float)
    assert known
    assert watched._recording.sees_all_arrays
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


@pytest.mark.parametrize("case", ["given", "constant", "computed before", "used before"])
def test_given_values_that_are_overwritten_before_they_are_read_look_crossed(case):
    with td.watch_warp() as session:
        values = [2.0, 2.0, 2.0] if case == "constant" else [1.0, 2.0, 3.0]
        x = wp.array(values, dtype=float, requires_grad=True)
        y, loss = (wp.zeros(n, dtype=float, requires_grad=True) for n in (3, 1))
        if case == "computed before":
            wp.launch(programs.scale, 3, [x, 3.0])
        if case == "used before":
            with wp.Tape():
                wp.launch(programs.total, 3, [x], [loss])
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, inputs=[y], outputs=[x])
            wp.launch(programs.total, 3, inputs=[y], outputs=[loss])
        tape.backward(loss)
    found = [item for item in td.diagnose(session.tapes[-1]).findings if item.rule == "unused"]
    assert [item.evidence["kind"] for item in found] == (["crossed values"] if case == "given" else [])
