"""Tapes that track elements, and tapes that are asked afterwards: both know who touched what."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

HERE = Path(__file__)
LINES = HERE.read_text(encoding="utf-8").splitlines()


def line_of(text: str) -> int:
    """The one line of this file that ends with `text`."""
    (found,) = [number for number, line in enumerate(LINES, start=1) if line.strip().endswith(text)]
    return found


@wp.struct
class State:
    pos: wp.array(dtype=wp.vec3)
    mass: wp.array(dtype=float)


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    energy: wp.float64


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]  # square


@wp.kernel
def interior(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    i = wp.tid()
    if i > 0 and i < n - 1:
        y[i] = x[i - 1] + x[i + 1]  # interior


@wp.kernel
def push(state: State, force: wp.vec3):
    i = wp.tid()
    state.pos[i] = state.pos[i] + force / state.mass[i]  # push


@wp.kernel
def lift(bodies: wp.array(dtype=Body), first: int):
    i = wp.tid()
    bodies[first + i].pos[1] = 2.0  # lift
    bodies[first + i].energy = wp.float64(bodies[first + i].mass)  # weigh


@wp.kernel
def corner(a: wp.array2d(dtype=wp.vec3)):
    i, j = wp.tid()
    if i == j:
        a[i, j] = wp.vec3(1.0, 2.0, 3.0)  # corner


@wp.kernel
def beyond(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 1]  # beyond


@wp.kernel
def both(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]  # both


@wp.kernel
def say(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] + 1.0
    if i == 1:
        print(x[i])


@wp.kernel
def count(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, x[wp.tid()])  # count


@wp.kernel
def picked(x: wp.indexedarray(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]  # picked


@wp.func_native("out[1] = x * 2.0f;", adj_snippet="")
def native_put(x: float, out: wp.array(dtype=float)): ...


@wp.kernel
def put_natively(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    native_put(x[wp.tid()], y)


TRACKS = ("elements", None)
"""Noted when it ran, or found by a replay."""


@pytest.fixture(params=TRACKS, ids=("tracked", "replayed"))
def tape(request: pytest.FixtureRequest) -> Any:
    return wp.Tape(track=request.param)


def floats(*values: float) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=True)


def test_each_element_has_its_last_writer_and_reader(tape: Any) -> None:
    x, y, z = floats(1, 2, 3, 4), wp.zeros(4, dtype=float), wp.empty(4, dtype=float)
    with tape:
        wp.launch(square, 4, inputs=[x, y])
        wp.launch(interior, 4, inputs=[y, z, 4])
    written, read = tape.writers(z), tape.readers(y)
    assert written.launch.tolist() == [-1, 1, 1, -1]
    assert written.thread.tolist() == [-1, 1, 2, -1]
    assert written.line.tolist() == [0, line_of("# interior"), line_of("# interior"), 0]
    assert read.launch.tolist() == [1, 1, 1, 1]
    assert read.thread.tolist() == [1, 2, 1, 2]
    assert tape.writers(y).launch.tolist() == [0, 0, 0, 0]
    assert tape.writers(y).thread.tolist() == [0, 1, 2, 3]
    assert tape.writers(x).launch.tolist() == [-1] * 4
    assert tape.readers(x).line.tolist() == [line_of("# square")] * 4
    assert str(written[1]) == f"launch 1 (interior), thread 1, {HERE}:{line_of('# interior')}"
    assert str(written[0]) == "nothing on the tape"
    assert repr(written) == "<last writes of 4 elements, by launches 1>"
    assert repr(tape.writers(x)) == "<last writes of 4 elements, by launches none>"
    assert len(written) == 4


def test_what_is_noted_is_what_a_replay_finds() -> None:
    rng = np.random.default_rng(0)
    tapes = {}
    for track in TRACKS:
        x = wp.array(np.arange(12.0), dtype=float)
        y = wp.zeros(12, dtype=float)
        tapes[track] = made = wp.Tape(track=track)
        order = rng.integers(0, 3, 20) if track else order  # noqa: F821  (the same for both)
        with made:
            for kind in order:
                if kind == 0:
                    wp.launch(square, 12, inputs=[x, y])
                elif kind == 1:
                    wp.launch(interior, 12, inputs=[y, x, 12])
                else:
                    wp.launch(both, 6, inputs=[x[0:6], y[6:12]])
        for a in (x, y):
            for name in ("writers", "readers"):
                tapes[track, a is x, name] = getattr(made, name)(a)
    for a in (True, False):
        for name in ("writers", "readers"):
            one, two = tapes["elements", a, name], tapes[None, a, name]
            assert (one.launch == two.launch).all()
            assert (one.thread == two.thread).all()
            assert (one.line == two.line).all()


def test_views_slices_and_strides_are_the_memory_that_they_show(tape: Any) -> None:
    x, y = floats(*range(8)), wp.zeros(8, dtype=float)
    with tape:
        wp.launch(both, 4, inputs=[x[0:4], y[4:8]])
        wp.launch(both, 2, inputs=[x[6:8], y[0:2]])
        wp.launch(both, 2, inputs=[x[::4], y[1::4]])
    assert tape.writers(y).launch.tolist() == [1, 2, -1, -1, 0, 2, 0, 0]
    assert tape.writers(y).thread.tolist() == [0, 0, -1, -1, 0, 1, 2, 3]
    assert tape.writers(y[4:8]).launch.tolist() == [0, 2, 0, 0]
    assert tape.writers(y.reshape((2, 4))).launch.tolist() == [[1, 2, -1, -1], [0, 2, 0, 0]]
    assert tape.readers(x).launch.tolist() == [2, 0, 0, 0, 2, -1, 1, 1]
    assert tape.readers(x).thread.tolist() == [0, 1, 2, 3, 1, -1, 0, 1]


def test_fields_of_structs_have_elements_of_their_own(tape: Any) -> None:
    state = State()
    state.pos, state.mass = wp.zeros(3, dtype=wp.vec3), wp.ones(3, dtype=float)
    with tape:
        wp.launch(push, 2, inputs=[state, wp.vec3(1.0, 0.0, 0.0)])
    assert tape.writers(state.pos).thread.tolist() == [0, 1, -1]
    assert tape.readers(state.mass).thread.tolist() == [0, 1, -1]
    assert tape.writers(state.mass).launch.tolist() == [-1] * 3
    assert tape.writers(state.pos)[1].line == line_of("# push")


def test_arrays_of_structs_hold_types_of_several_sizes(tape: Any) -> None:
    bodies = wp.zeros(4, dtype=Body)
    with tape:
        wp.launch(lift, 2, inputs=[bodies, 1])
    assert tape.writers(bodies).launch.tolist() == [-1, 0, 0, -1]
    assert tape.writers(bodies).line[1] == line_of("# weigh")
    assert tape.writers(bodies).thread.tolist() == [-1, 0, 1, -1]
    assert tape.readers(bodies).launch.tolist() == [-1, 0, 0, -1]


def test_two_axes(tape: Any) -> None:
    a = wp.zeros((2, 3), dtype=wp.vec3)
    with tape:
        wp.launch(corner, (2, 3), inputs=[a])
    assert tape.writers(a).thread.tolist() == [[0, -1, -1], [-1, 4, -1]]
    assert tape.writers(a)[1, 1].thread == 4
    with pytest.raises(IndexError) as caught:
        tape.writers(a)[1]
    assert str(caught.value) == "writers: give one index for each axis of the array (2); got 1"


def test_indexed_arrays_are_the_elements_that_they_pick(tape: Any) -> None:
    x, y = floats(*range(6)), wp.zeros(2, dtype=float)
    chosen = wp.array([4, 1], dtype=int)
    with tape:
        wp.launch(picked, 2, inputs=[wp.indexedarray(x, [chosen]), y])
    assert tape.readers(x).thread.tolist() == [-1, 1, -1, -1, 0, -1]
    assert tape.readers(chosen).launch.tolist() == [0, 0]


def test_copies_and_fills_are_records_without_threads(tape: Any) -> None:
    x, y = floats(1, 2, 3, 4), wp.zeros(4, dtype=float)
    with tape:
        wp.copy(y, x, dest_offset=2, count=2)  # copied
        y[0:1].fill_(7.0)  # filled
    written = tape.writers(y)
    assert written.launch.tolist() == [1, -1, 0, 0]
    assert written.thread.tolist() == [-1] * 4
    assert written[2].name == "copy"
    assert written[2].thread is None
    assert written.line.tolist() == [line_of("# filled"), 0, line_of("# copied"), line_of("# copied")]
    assert str(written[0]) == f"launch 1 (fill), {HERE}:{line_of('# filled')}"
    assert tape.readers(x).launch.tolist() == [0, 0, -1, -1]


def test_what_something_outside_the_tape_wrote_has_no_launch(tape: Any) -> None:
    x, y = floats(1, 2, 3, 4), wp.zeros(4, dtype=float)
    with tape:
        wp.launch(square, 4, inputs=[x, y])
        wp.launch(square, 2, inputs=[x[0:2], y[0:2]], record_tape=False)
        wp.launch(square, 1, inputs=[x, y])
    assert tape.writers(y).launch.tolist() == [1, -1, 0, 0]


def test_native_functions_may_write_all_that_they_are_given(tape: Any) -> None:
    x, y, loss = floats(1), wp.empty(3, dtype=float, requires_grad=True), floats(0)
    with tape:
        wp.launch(put_natively, 1, inputs=[x, y])
        wp.launch(count, 3, inputs=[y, loss])
    written = tape.writers(y)
    assert written.launch.tolist() == [0, 0, 0]
    assert written.thread.tolist() == [-1, -1, -1]
    assert written.line.tolist() == [0, 0, 0]
    assert tape.readers(x).thread.tolist() == [0]
    diagnosis = wp.diagnose(tape, loss=loss)
    assert not [item for item in diagnosis.findings if item.rule == "uninitialised-read"]
    assert "put_natively calls native functions: its accesses were not tracked" in diagnosis.coverage.notes


def test_atomics_write(tape: Any) -> None:
    x, total = floats(1, 2, 3), wp.zeros(1, dtype=float)
    with tape:
        wp.launch(count, 3, inputs=[x, total])
    assert tape.writers(total)[0].launch == 0
    assert tape.writers(total)[0].line == line_of("# count")
    assert tape.readers(total)[0].launch is None


def test_values_and_gradients_are_those_of_a_tape_that_does_not_track() -> None:
    found = []
    for track in TRACKS:
        x, y, loss = floats(1, 2, 3, 4), wp.zeros(4, dtype=float, requires_grad=True), floats(0)
        with wp.Tape(track=track) as tape:
            wp.launch(square, 4, inputs=[x, y])
            wp.launch(interior, 4, inputs=[x, y, 4])
            wp.launch(square, 4, inputs=[y, x])
            wp.launch(count, 4, inputs=[x, loss])
        tape.backward(loss)
        found.append((x.numpy(), x.grad.numpy(), loss.numpy(), tape.preserved_bytes))
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)


def test_races_are_told_while_recording() -> None:
    x = floats(1, 2, 3, 4, 5)
    with wp.Tape(track="elements") as tape:
        wp.launch(square, 4, inputs=[x, x])
        wp.launch(beyond, 4, inputs=[x, x])
    assert tape.tracking.found == {1: 1}


def test_an_index_outside_is_an_error_and_leaves_nothing() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    tape = wp.Tape(track="elements")
    with tape:
        wp.launch(square, 3, inputs=[x, y])
        before = y.numpy().tolist()
        with pytest.raises(wp.BoundsError) as caught:
            wp.launch(beyond, 3, inputs=[x, y])
        assert y.numpy().tolist() == before
        wp.launch(square, 2, inputs=[x, y])
    assert "the index 3 is outside axis 0 of `x`, which has length 3, in thread 2" in str(caught.value)
    assert len(tape.records) == 2
    # Stamps of the launch that failed are among those that were noted: they are found anew.
    assert tape.writers(y).launch.tolist() == [1, 1, 0]


def test_what_kernels_print_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    x = floats(1, 2)
    with wp.Tape(track="elements") as tape:
        wp.launch(say, 2, inputs=[x])
    tape.writers(x)
    wp.diagnose(tape)
    assert capsys.readouterr().out == "3.0\n"


def test_launches_that_were_recorded_without_running_are_found_by_a_replay() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    tape = wp.Tape(track="elements")
    wp.launch(square, 3, inputs=[x, y])
    with tape:
        tape.record_launch(square, 3, inputs=[x, y])
    assert tape.writers(y).launch.tolist() == [0, 0, 0]


def test_reset_forgets() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    tape = wp.Tape(track="elements")
    with tape:
        wp.launch(square, 3, inputs=[x, y])
    tape.reset()
    with tape:
        wp.launch(square, 1, inputs=[x, y])
    assert tape.writers(y).launch.tolist() == [0, -1, -1]


def test_a_query_changes_nothing() -> None:
    x = floats(1, 2, 3, 4)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x, x])
    before = x.numpy().copy()
    tape.writers(x)
    assert (x.numpy() == before).all()
    assert len(tape.records) == 1


@pytest.fixture
def setting() -> Iterator[None]:
    yield
    wp.config.track = None


@pytest.mark.usefixtures("setting")
def test_the_setting_is_the_default() -> None:
    assert wp.Tape().track is None
    wp.config.track = "elements"
    assert wp.Tape().track == "elements"
    with pytest.raises(ValueError, match=re.escape("config.track is one of elements, None; got 'all'")):
        wp.config.track = "all"


def test_other_values_are_refused() -> None:
    with pytest.raises(wp.TapeError) as caught:
        wp.Tape(track="everything")
    assert str(caught.value) == (
        "Tape: track is 'elements' or None; got 'everything'\n  = hint: use one of these, or leave it out"
    )


def test_a_tape_that_is_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for user in ("runtime.launch.access_tags", "runtime.replay.tracked_elements"):
        monkeypatch.setattr(importlib.import_module(f"tapedebug.{user}"), "LAST", 2)
    x = floats(1, 2)
    message = (
        "tracking: stamps tell 2 launches of one tape apart, and no more\n"
        "  = hint: record several tapes, or without track"
    )
    with wp.Tape(track="elements") as tape:
        wp.launch(square, 2, inputs=[x, x])
        wp.launch(square, 2, inputs=[x, x])
        before = x.numpy().tolist()
        kept = tape.preserved_bytes
        with pytest.raises(wp.TapeError) as caught:
            wp.launch(square, 2, inputs=[x, x])
    assert str(caught.value) == message
    assert (len(tape.records), x.numpy().tolist(), tape.preserved_bytes) == (2, before, kept)
    with wp.Tape() as plain:
        for _ in range(3):
            wp.launch(square, 2, inputs=[x, x])
    with pytest.raises(wp.TapeError) as caught:
        plain.writers(x)
    assert str(caught.value) == message
    notes = wp.diagnose(plain).coverage.notes
    assert "tapes of more than 2 launches are not looked at element by element" in notes


def test_only_arrays_of_the_tape_can_be_asked_for() -> None:
    x, other = floats(1, 2), floats(3, 4)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, x])
    with pytest.raises(wp.TapeError) as caught:
        tape.writers(other)
    assert str(caught.value) == (
        "writers: the array(shape=(2,), dtype=float32) is not on the tape\n"
        "  = hint: pass an array that a recorded launch uses"
    )
    with pytest.raises(wp.TapeError, match="readers: 7 is not on the tape"):
        tape.readers(7)


@pytest.mark.parametrize("compiler", ["numba", "interpreted"])
def test_other_ways_to_run_note_the_same(compiler: str) -> None:
    x, y = floats(1, 2, 3, 4), wp.zeros(4, dtype=float)
    before = wp.config.compiler
    try:
        if compiler == "interpreted":
            wp.config.interpreted = True
        else:
            wp.config.compiler = compiler
        with wp.Tape(track="elements") as tape:
            wp.launch(interior, 4, inputs=[x, y, 4])
            wp.launch(beyond, 3, inputs=[x, x])
    finally:
        wp.config.compiler, wp.config.interpreted = before, False
    assert tape.writers(y).thread.tolist() == [-1, 1, 2, -1]
    assert tape.tracking.found == {1: 1}
