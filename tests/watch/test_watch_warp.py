"""Programs of NVIDIA Warp, watched while Warp runs them: what is recorded, and what `diagnose` finds."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import tapedebug as td
from tapedebug.diagnose.registry import OURS
from tapedebug.watch import hooks
from tapedebug.watch.bound_launch import Binding

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")


def state(function):
    """Attributes of a function that interception changes; Python adds a registry when it warns."""
    names = set(function.__globals__) - {"__warningregistry__"}
    return function, function.__code__, function.__defaults__, names


@pytest.fixture(autouse=True)
def restored():
    """Warp is the same after each test: code, attributes and globals."""
    functions = [hooks.look_up(name) for name in hooks.INTERCEPTED.values()]
    before = [state(function) for function in functions]
    yield
    assert [state(function) for function in functions] == before
    assert [hooks.look_up(name) for name in hooks.INTERCEPTED.values()] == functions


def watched(program, *args, **named):
    """The tape of a program, and the arrays that it returned."""
    with td.watch_warp() as session:
        _, *arrays = program(*args, **named)
    (tape,) = session.tapes
    return tape, arrays


def messages(found):
    assert not [note for note in found.coverage.notes if OURS in note]
    return found.verdict, [(item.severity, item.rule) for item in found.findings if item.severity != "info"]


def content(arrays):
    flat = [a for a in arrays if isinstance(a, wp.array)]
    return [a.numpy().copy() for a in flat] + [a.grad.numpy().copy() for a in flat if a.grad is not None]


SPRINGS = [("error", "overwrite")] * (1 if programs.CONSUMES else 2)
SPRINGS += [] if programs.CONSUMES else [("error", "warp-limitation")]
LOST = ("WRONG", [("error", "warp-limitation")])
CASES = {
    "right": (programs.one, (programs.square,), {}, ("AGREE", [])),
    "overwritten": (programs.overwritten, (), {}, ("WRONG", [("error", "overwrite")])),
    "springs": (programs.springs, (), {}, ("WRONG", SPRINGS)),
    "structs": (programs.states, (), {}, ("AGREE", [])),
    "arrays of structs": (
        programs.arrays_of_structs,
        (),
        {},
        ("AGREE", []) if programs.REVERSES_STRUCTS else LOST,
    ),
    "no gradient": (
        programs.one,
        (programs.square,),
        {"y_grad": False},
        ("WRONG", [("error", "disconnected")]),
    ),
    "func_grad": (programs.one, (programs.cubes,), {}, ("WRONG", [("error", "custom-grad")])),
    "loop": (programs.one, (programs.powers, 4), {}, LOST),
    "neighbours": (programs.neighbours, (), {}, ("AGREE", [])),
    "tiles": (programs.tiles, (), {}, ("AGREE", [])),
    "mesh points": (programs.mesh, (), {}, ("WRONG", [("error", "disconnected")])),
    "twice": (
        programs.one,
        (programs.square,),
        {"backward": 2},
        ("AGREE", [("warning", "accumulated")]),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_findings_and_untouched_arrays(case):
    program, args, named, expected = CASES[case]
    tape, arrays = watched(program, *args, **named)
    before = content(arrays)
    assert messages(td.diagnose(tape)) == expected
    for old, new in zip(before, content(arrays), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_number_of_numpy_is_an_argument_like_any_other():
    tape, _ = watched(programs.one, programs.powers, np.int64(1))
    assert (len(tape.operations), tape.gaps) == (2, {})


def test_a_finding_names_the_lines_of_the_program():
    tape, _ = watched(programs.overwritten)
    (finding,) = [item for item in td.diagnose(tape).findings if item.severity == "error"]
    assert finding.message.startswith("Launch 1 (scale) overwrites values of x ")
    assert finding.evidence["relative_error"]["x"] == pytest.approx(2.0)
    assert finding.call_site.file.endswith("programs.py")
    assert finding.call_site.function == "overwritten"
    assert finding.location.function == "scale"


def test_a_struct_that_gets_an_array_of_no_launch_is_found_with_both_gradients():
    tape, (x, *_) = watched(programs.struct_set_late)
    np.testing.assert_array_equal(x.grad.numpy(), [30.0, 40.0])
    found = td.diagnose(tape)
    assert messages(found) == ("WRONG", [("error", "overwrite")])
    assert not [note for note in found.coverage.notes if "another gradient" in note]
    (finding,) = found.findings
    assert finding.message == (
        "bed.height of launch 0 (weigh) was assigned anew between the launch and the reverse pass. Warp's "
        "tape keeps the struct, and finds in it what it holds by then: its gradient of x is off by 900 % "
        "(40 in place of 4 for x[1])."
    )


@pytest.mark.parametrize(
    ("m", "changed"),
    [
        (np.array([[1, 2], [3, 4]], np.float32), "m"),
        ([[1.0, 2.0], [3.0, 4.0]], "m"),
        (([1.0, 2.0], [3.0, 4.0]), "m"),
        ([wp.vec2(1.0, 2.0), wp.vec2(3.0, 4.0)], "m"),
        (((1.0, 2.0), (3.0, 4.0)), "v"),
    ],
)
def test_a_vector_or_matrix_that_is_changed_after_its_launch_is_found(m, changed):
    x, y, loss = programs.array([[1, 2]] * 3, dtype=wp.vec2), programs.zeros(3), programs.zeros(1)
    v = [1.0, 1.0]
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.turn, 3, [m, v, x], [y])
            wp.launch(programs.total, 3, [y], [loss])
        if changed == "v":
            v[0] = 100.0
        else:
            m[0][0] = 100.0
        tape.backward(loss)
    found = td.diagnose(session.tapes[0])
    assert messages(found) == ("WRONG", [("error", "overwrite")])
    assert found.findings[0].message.startswith(
        f"{changed} of launch 0 (turn) was changed between the launch and the reverse pass. Warp's tape "
        "keeps the object, and finds in it what it holds by then: its gradient of x is off by "
    )
    assert found.findings[0].fix == f"make a new object for each launch instead of changing {changed}"


@pytest.mark.parametrize("given", [np.array, lambda values: np.array([*values, 9.0], np.float32)[:3]])
def test_an_array_of_numpy_is_an_argument_whose_memory_replays_leave_alone(given):
    values = given([1.0, 2.0, 3.0]).astype(np.float32, copy=False)
    x, y, loss = programs.array([1, 1, 1]), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, [x], [values])
            wp.launch(programs.square, 3, [values], [y])
            wp.launch(programs.square, 3, [x], [y])
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)
    assert session.not_covered == []
    values[:] = 7.0
    found = td.diagnose(session.tapes[0])
    assert values.tolist() == [7.0, 7.0, 7.0]
    assert (found.verdict, [f for f in found.findings if f.severity == "error"]) == ("AGREE", [])


def test_an_array_around_the_memory_of_a_tape_is_none_of_its_arrays():
    whole, y, loss = programs.array([1, 2, 3, 4]), programs.zeros(2), programs.zeros(1)
    place = {"dtype": float, "shape": (2,), "device": "cpu"}
    part = wp.array(ptr=whole.ptr, grad=wp.array(ptr=whole.grad.ptr, **place), **place)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [part], [y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    found = td.diagnose(session.tapes[0])  # which names arrays by the variables here
    assert (messages(found), list(found.trace.arrays[0].shape)) == (("AGREE", []), [2])
    assert found.trace.arrays[0].label == "part"


def test_gradients_that_a_launch_off_the_record_consumes_are_not_compared():
    x, y, loss = programs.array([1, 2, 3]), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, [x.__ctype__()], [y])
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)
    (gap,) = session.not_covered
    assert gap.reason == "x is the address of an array"
    found = td.diagnose(session.tapes[0])
    assert found.verdict != "WRONG"
    assert [finding for finding in found.findings if finding.severity == "error"] == []


def test_the_replay_with_values_of_their_time_is_right_where_warp_is_not():
    tape, (_, _, k, _) = watched(programs.springs)
    consumed = k.grad.numpy()
    right = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds).gradient(tape.array(k))
    if programs.CONSUMES:
        assert np.linalg.norm(consumed - right) / np.linalg.norm(right) == pytest.approx(0.436, abs=0.01)
    current = tape.new_replay().forward().backward(tape.reverse_passes[-1].seeds, "current")
    np.testing.assert_allclose(current.gradient(tape.array(k)), consumed, rtol=1e-6)
    assert tape.new_replay().forward().matches_live()


def test_the_loss_and_inputs_may_be_arrays_of_warp():
    tape, (x, _, loss) = watched(programs.one, programs.square)
    found = td.diagnose(tape, loss=loss, inputs=[x])
    assert messages(found) == ("AGREE", [])
    assert [check.input for check in found.checks] == ["x"]
    assert td.autograd.end_to_end(tape, loss=loss).verdict == "AGREE"


def test_views_share_the_memory_of_their_array():
    x, y, loss = programs.array([1.0, 2.0, 3.0, 4.0]), programs.zeros(4), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x[0:2]], [y[2:4]])
            wp.launch(programs.square, 2, [x[2:4]], [y[0:2]])
            wp.launch(programs.total, 4, [y], [loss])
        tape.backward(loss)
    (recorded,) = session.tapes
    assert messages(td.diagnose(recorded)) == ("AGREE", [])
    assert [info.label for info in td.trace.record(recorded).arrays] == [
        "x[0:2]",
        "y[2:4]",
        "x[2:4]",
        "y[0:2]",
        "y",
        "loss",
    ]


def test_copies_clones_and_fills_are_operations():
    x, y, loss = programs.array([1.0, 2.0, 3.0]), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            z = wp.clone(x)
            wp.launch(programs.square, 3, [z], [y])
            q = wp.zeros_like(y)
            wp.copy(q, y)
            y.zero_()
            wp.launch(programs.total, 3, [q], [loss])
        tape.backward(loss)
    (recorded,) = session.tapes
    assert [operation.kind for operation in recorded.operations] == [
        "copy",
        "kernel",
        "copy",
        "fill",
        "kernel",
    ]
    assert messages(td.diagnose(recorded)) == ("AGREE", [])
    assert recorded.operations[3].call_site.text.strip() == "y.zero_()"


def test_a_fill_that_warp_does_not_record_is_named():
    x, y, z, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
            y.zero_()
            wp.launch(programs.scale, 2, [y, 2.0])
            wp.launch(programs.total, 2, [y], [z])
        tape.backward(grads={loss: programs.array([1.0]), z: programs.array([1.0, 0.0])})
    found = td.diagnose(session.tapes[0])
    assert found.verdict == "WRONG"
    assert "In Warp zero_ and fill_ are not on the tape" in str(found).replace("\n", " ").replace("    ", "")


def test_writes_outside_the_tape_are_found_with_their_place():
    x, y, loss = programs.array([1.0, 2.0, 3.0]), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, [x], [y])
            y.numpy()[0] = 5.0
            x.assign(np.ones(3, np.float32))
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)
    writes = session.tapes[0].outside_writes
    assert [(w.how, w.call_site and w.call_site.text.strip()) for w in writes] == [
        ("assign", "x.assign(np.ones(3, np.float32))"),
        ("unseen", None),
    ]


def test_launches_imported_by_name_and_calls_of_warp_itself_are_seen():
    from warp import launch

    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    with td.watch_warp() as session, wp.Tape():
        launch(programs.square, 2, [x], [y])
    assert [operation.name for operation in session.tapes[0].operations] == ["square"]


def test_the_call_site_that_warp_stores_is_that_of_the_program():
    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    with td.watch_warp(), wp.Tape() as tape:
        wp.launch(programs.square, 2, [x], [y])
    assert tape.launches[0][-1]["caller"]["file"] == __file__


def test_a_tape_that_was_recorded_before_is_not_covered():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    tape = wp.Tape()
    with tape:
        wp.launch(programs.square, 2, [x], [y])
    with td.watch_warp() as session:
        with tape:
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    assert session.tapes == []
    (gap,) = session.not_covered
    assert str(gap).endswith("is not covered: it began to record before watching began")
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])


def test_blocks_nest_and_an_error_restores_warp():
    with pytest.raises(RuntimeError, match="the program"), td.watch_warp() as outer:
        with td.watch_warp() as inner:
            programs.one(programs.square)
        assert len(inner.tapes) == len(outer.tapes) == 1
        raise RuntimeError("the program")


def test_a_tape_that_is_reset_begins_another_recording():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    tape = wp.Tape()
    with td.watch_warp() as session:
        for _ in range(2):
            loss.zero_()
            with tape:
                wp.launch(programs.square, 2, [x], [y])
                wp.launch(programs.total, 2, [y], [loss])
            tape.backward(loss)
            tape.reset()
    assert [len(each.operations) for each in session.tapes] == [2, 2]
    assert [messages(td.diagnose(each)) for each in session.tapes] == [("AGREE", [])] * 2


def test_commands_are_operations_that_warp_does_not_record():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    command = wp.launch(programs.square, 2, [x], [y], record_cmd=True)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            command.launch()
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    if not programs.KNOWS_ARGUMENTS:
        assert [gap.reason for gap in session.not_covered] == ["its arguments are not known"]
        return
    found = td.diagnose(session.tapes[0])
    assert messages(found) == ("WRONG", [("error", "warp-limitation")])
    assert "is the launch of a command (record_cmd=True)" in found.findings[0].message


def test_scopes_and_names_are_those_of_the_program():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session, wp.Tape() as tape:
        tape.record_scope_begin("layer")
        wp.launch(programs.square, 2, [x], [y])
        tape.record_scope_end()
        wp.launch(programs.total, 2, [y], [loss])
    trace = td.trace.record(session.tapes[0])
    assert [(scope.name, scope.first, scope.last) for scope in trace.scopes] == [("layer", 0, 0)]
    assert [info.label for info in trace.arrays] == ["x", "y", "loss"]
    assert trace.environment["NVIDIA Warp"] == wp.config.version


def test_a_report_is_written(tmp_path):
    tape, _ = watched(programs.overwritten)
    path = td.report(tape, path=tmp_path / "warp.html")
    assert "overwrite" in path.read_text()


def test_the_arrays_of_a_mesh_are_read_by_launches_that_get_its_number():
    tape, (points, *_) = watched(programs.mesh)
    names = [(access.name, access.array.requires_grad) for access in tape.operations[0].accesses]
    assert names == [("mesh.points", True), ("mesh.indices", False), ("x", True), ("y", True)]
    assert tape.operations[0].accesses[0].array is tape.array(points)
    replay = tape.new_replay()
    replay.set(tape.array(points), points.numpy() + np.float32([0.0, 0.0, 0.5]))
    moved = replay.forward().values(tape.operations[0].accesses[3].array)
    np.testing.assert_allclose(moved, [0.25, 6.25], rtol=1e-5)


def test_a_mesh_that_was_made_before_watching_is_found():
    points = programs.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]], dtype=wp.vec3)
    body = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    x, y = programs.array([[0.2, 0.3, 1.0]], dtype=wp.vec3), programs.zeros(1)
    with td.watch_warp() as session, wp.Tape():
        wp.launch(programs.push_out, 1, [body.id, x, y])
    assert session.tapes[0].operations[0].accesses[0].name == "mesh.points"


def test_a_replay_has_one_hash_grid_however_often_the_program_builds_it(monkeypatch):
    points = [programs.array([[0.2 * k, 0.3, 1.0], [0.5, 0.1 * k, 1.0]], dtype=wp.vec3) for k in (1, 2, 3)]
    loss = programs.zeros(1)
    with td.watch_warp() as session:
        grid = wp.HashGrid(4, 4, 4)
        with wp.Tape():
            for x in points:
                y = programs.zeros(2)
                grid.build(x, 1.0)
                wp.launch(programs.density, 2, [grid.id, x, y])
                wp.launch(programs.total, 2, [y], [loss])
    session.tapes[0].verify()  # in memory of its own
    made = counted_grids(monkeypatch)
    replay = session.tapes[0].new_replay().forward()
    assert replay.values(session.tapes[0].array(loss)) == pytest.approx(loss.numpy())
    assert len(made) == 1


def counted_grids(monkeypatch):
    """Return a list to which each hash grid that is made from now on adds its dimensions."""
    made, original = [], wp.HashGrid.__init__

    def init(self, *dims, **named):
        made.append(dims[:3])
        original(self, *dims, **named)

    monkeypatch.setattr(wp.HashGrid, "__init__", init)
    return made


def test_a_replay_of_a_large_hash_grid_finds_the_same_neighbours_in_the_same_order():
    rng = np.random.default_rng(3)
    x, y = programs.array(rng.uniform(-3, 3, (60, 3)), dtype=wp.vec3), programs.zeros(60)
    with td.watch_warp() as session:
        grid = wp.HashGrid(64, 64, 64)
        with wp.Tape():
            grid.build(x, 1.0)
            wp.launch(programs.density, 60, [grid.id, x, y])
    replay = session.tapes[0].new_replay().forward()
    assert replay.values(session.tapes[0].array(y)).tobytes() == y.numpy().tobytes()


def test_points_of_a_replay_that_outgrow_its_hash_grid_get_a_larger_one(monkeypatch):
    rng = np.random.default_rng(3)
    x, y, z = programs.array(rng.uniform(-3, 3, (60, 3)), dtype=wp.vec3), *map(programs.zeros, (60, 60))
    with td.watch_warp() as session:
        grid = wp.HashGrid(128, 128, 128)
        with wp.Tape():
            grid.build(x, 1.0)
            wp.launch(programs.density, 60, [grid.id, x, y])
            wp.launch(programs.density, 60, [grid.id, x, z])
    made = counted_grids(monkeypatch)
    tape = session.tapes[0]
    replay = tape.new_replay().forward()
    assert made == [(16, 16, 16)]
    apart = 7 * x.numpy()
    apart[:30] = apart[30:] + 0.1  # pairs that are near each other
    moved, expected = wp.array(apart, dtype=wp.vec3), wp.zeros(60)
    grid.build(moved, 1.0)
    wp.launch(programs.density, 60, [grid.id, moved, expected])
    for _ in range(2):
        replay.reset().set(tape.array(x), apart)
        replay.forward()
        for result in (y, z):
            assert replay.values(tape.array(result)).tobytes() == expected.numpy().tobytes()
    assert made == [(16, 16, 16), (64, 64, 64)]


@wp.kernel(module="unique")  # older releases have no such grids, and need not build this
def density_of_doubles(grid: wp.uint64, x: wp.array(dtype=wp.vec3d), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    for j in wp.hash_grid_query(grid, x[i], wp.float64(1.0)):
        y[i] += wp.length_sq(x[i] - x[j])


@pytest.mark.skipif(
    "dtype" not in inspect.signature(wp.HashGrid.__init__).parameters, reason="grids of float32 only"
)
def test_a_replay_of_a_hash_grid_has_its_precision():
    points = np.random.default_rng(3).uniform(-1, 1, (30, 3))
    x = wp.array(points, dtype=wp.vec3d, requires_grad=True)
    y = wp.zeros(30, dtype=wp.float64, requires_grad=True)
    with td.watch_warp() as session:
        grid = wp.HashGrid(4, 4, 4, dtype=wp.float64)
        grid.build(x, 1.0)
        with wp.Tape():
            wp.launch(density_of_doubles, 30, [grid.id, x, y])
    assert y.numpy().any()
    replay = session.tapes[0].new_replay().forward()
    assert replay.values(session.tapes[0].array(y)).tobytes() == y.numpy().tobytes()


def test_a_hash_grid_that_was_built_before_watching_is_not_covered():
    x, y = programs.array([[0.2, 0.3, 1.0]], dtype=wp.vec3), programs.zeros(1)
    grid = wp.HashGrid(4, 4, 4)
    grid.build(x, 1.0)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.density, 1, [grid.id, x, y])
            wp.launch(programs.total, 1, [y], [loss := programs.zeros(1)])
        tape.backward(loss)
    (gap,) = session.not_covered
    assert gap.reason == "it uses a hash grid that was built before watching began"
    found = td.diagnose(session.tapes[0])
    assert found.verdict in ("UNDECIDABLE", "NOT CHECKED")
    assert str(gap) in found.coverage.notes


def parts():
    """An array with one struct that points to another array, and that array."""
    part = programs.Part()
    part.values = programs.array([1.0, 2.0])
    return wp.array([part], dtype=programs.Part), part.values


def launched(launch):
    """Return the notes of a watched program with one launch on what is not covered."""
    with td.watch_warp() as session, wp.Tape():
        launch()
    return [str(gap.reason) for gap in session.not_covered]


class Deprecated:
    """An object of another library, which does not want to be asked for its class."""

    @property
    def __class__(self):
        raise AssertionError("its class was asked for")


def test_launches_that_follow_elements_of_arrays_to_other_memory_are_not_covered():
    hidden = functools.partial(str, Deprecated())  # not among the variables that are searched for names
    points = programs.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]], dtype=wp.vec3)
    mesh = wp.Mesh(points, wp.array([0, 1, 2], dtype=int))
    x, y = programs.array([[0.2, 0.3, 1.0]], dtype=wp.vec3), programs.zeros(2)
    numbers = wp.array([mesh.id], dtype=wp.uint64)
    assert launched(lambda: wp.launch(programs.push_out_of_each, 1, [numbers, x, y])) == [
        "it finds an object of class Mesh in an array"
    ]
    body = programs.Body()
    body.mesh, body.mass = mesh.id, 2.0
    bodies = wp.array([body], dtype=programs.Body)
    assert launched(lambda: wp.launch(programs.push_out_of_bodies, 1, [bodies, x, y])) == [
        "it finds an object of class Mesh in an array"
    ]
    structs, _ = parts()
    assert launched(lambda: wp.launch(programs.square_parts, 2, [structs, y])) == [
        "it uses an array of structs with arrays (Part)"
    ]
    keys = wp.array([3, 1], dtype=wp.uint64)
    assert launched(lambda: wp.launch(programs.keyed, 2, [keys, y])) == []
    assert callable(hidden)


def test_arrays_of_a_kernel_without_source_are_taken_as_written(monkeypatch):
    monkeypatch.setattr("tapedebug.watch.kernel_source.definition_of", lambda function: None)
    tape, _ = watched(programs.states)
    operation = tape.operations[0]
    assert [(a.reads, a.writes) for a in operation.accesses] == [(True, True)] * len(operation.accesses)
    assert any("." in access.name for access in operation.accesses)


def test_index_arrays_are_read():
    tape, (_, _, loss) = watched(programs.indexed)
    assert [access.name for access in tape.operations[0].accesses] == ["x", "x.indices[0]", "y"]
    replay = tape.new_replay().forward()
    assert replay.matches_live()
    np.testing.assert_array_equal(replay.values(tape.array(loss)), [20.0])


@pytest.mark.skipif(programs.VERSION < (1, 13), reason="this release captures launches of GPUs only")
def test_nothing_is_recorded_in_a_graph_capture():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    programs.one(programs.square)  # modules load outside of the capture
    with td.watch_warp() as session:
        with wp.ScopedCapture(device="cpu") as capture, wp.Tape():
            wp.launch(programs.square, 2, [x], [y])
        with wp.Tape():
            wp.capture_launch(capture.graph)
            wp.launch(programs.total, 2, [y], [loss])
    assert [len(tape.operations) for tape in session.tapes] == [1]
    np.testing.assert_array_equal(loss.numpy(), [5.0])
    assert [gap.reason for gap in session.not_covered] == [
        "a graph is being captured",
        "the launches of a captured graph are not seen one by one",
    ]


def test_a_function_of_record_func_is_said_not_to_be_covered():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)

    def squared():
        x.grad.assign(x.grad.numpy() + 2 * x.numpy() * y.grad.numpy())

    with td.watch_warp() as session:
        with wp.Tape() as tape:
            y.assign(x.numpy() ** 2)
            tape.record_func(squared, [x, y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    np.testing.assert_array_equal(x.grad.numpy(), [2.0, 4.0])
    found = td.diagnose(session.tapes[0])
    assert messages(found) == ("UNDECIDABLE", [])
    assert (
        "record 0 is a custom function (squared), of which only the reverse is known" in found.coverage.notes
    )


@wp.kernel
def gathered(x: wp.array(dtype=wp.float64), index: wp.array(dtype=int), loss: wp.array(dtype=wp.float64)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[index[i]] * x[i])


def test_descriptors_of_tensors_are_watched_as_arrays():
    """As nvalchemi-toolkit-ops passes them; tensors may be gone when the tape is diagnosed."""
    torch = pytest.importorskip("torch")
    wp.init()  # from_torch does not
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    with td.watch_warp() as watched:
        index = torch.tensor([2, 0, 1], dtype=torch.int32)
        loss = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        given = [wp.from_torch(tensor, return_ctype=True) for tensor in (x, index)]
        total = wp.from_torch(loss)
        with wp.Tape() as tape:
            wp.launch(gathered, 3, [*given, total])
        tape.backward(total)
        index[:] = 1_000_000  # a replay that followed the address would end the process
        del index, given
    [tape] = watched.tapes
    [launch] = tape.operations
    assert [access.name for access in launch.accesses] == ["x", "index", "loss"]
    assert messages(td.diagnose(tape)) == ("AGREE", [])
    np.testing.assert_allclose(x.grad.numpy(), [5.0, 4.0, 3.0])


def test_a_descriptor_without_its_tensor_is_not_covered():
    with td.watch_warp() as watched:
        x, y = wp.zeros(3, dtype=float), wp.zeros(3, dtype=float)
        with wp.Tape():
            wp.launch(programs.square, 3, [x.__ctype__(), y])
    assert any("x is the address of an array" in str(item) for item in watched.not_covered)


def test_arrays_of_torch_are_watched():
    torch = pytest.importorskip("torch")
    wp.init()  # from_torch does not
    tensor = torch.tensor([9.0, 1.0, 2.0, 3.0], requires_grad=True)
    with td.watch_warp() as session:
        x, y, loss = wp.from_torch(tensor[1:]), programs.zeros(3), programs.zeros(1)
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, [x], [y])
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)
    (recorded,) = session.tapes
    assert recorded.array(x).offset == 4
    assert messages(td.diagnose(recorded)) == ("AGREE", [])


@pytest.mark.parametrize(
    ("zeroed", "expected"),
    [
        (lambda optimizer: None, ("WRONG", [("error", "accumulated")])),
        (lambda optimizer: optimizer.zero_grad(set_to_none=False), ("AGREE", [])),
        (lambda optimizer: optimizer.zero_grad(), ("AGREE", [])),
    ],
)
def test_steps_of_an_optimizer_of_torch_are_seen(zeroed, expected):
    torch = pytest.importorskip("torch")
    wp.init()  # from_torch does not
    tensor = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = torch.optim.SGD([tensor], lr=0.01)
    with td.watch_warp() as session:
        x = wp.from_torch(tensor)
        for _ in range(3):
            zeroed(optimizer)
            y, loss = programs.zeros(3), programs.zeros(1)
            with wp.Tape() as tape:
                wp.launch(programs.square, 3, [x], [y])
                wp.launch(programs.total, 3, [y], [loss])
            tape.backward(loss)
            optimizer.step()
    diagnosis = td.diagnose(session.tapes)
    assert messages(diagnosis) == expected
    left = [note for note in diagnosis.coverage.notes if "a tensor whose .grad was None" in note]
    assert bool(left) == (tensor.grad is None)


def test_a_gradient_that_something_else_has_changed_is_wrong():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
        x.grad.fill_(3.0)
        tape.backward(loss)
        assert "another gradient" not in " ".join(td.diagnose(session.tapes[0]).coverage.notes)
        tape.launches.append(lambda: x.grad.assign(np.float32([100.0, 0.0])))
        tape.backward(loss)
    found = td.diagnose(session.tapes[0])
    assert "x: backward left another gradient than its replay gives, off by" in " ".join(found.coverage.notes)
    twice_and_filled = [("warning", "accumulated")] * 2
    assert messages(found) == ("WRONG", [("error", "wrong-adjoint"), *twice_and_filled])
    assert found.findings[0].message.startswith("Backward at test_watch_warp.py:")
    assert "something that is not on the tape changed the gradient while backward ran" in str(
        found.findings[0]
    )


def test_a_gradient_that_the_program_clips_or_zeroes_after_backward_is_right():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
        wp.launch(programs.scale, 2, [x.grad, 0.01])
        x.grad.numpy()[:] *= 0.5
        assert messages(td.diagnose(session.tapes[0])) == ("AGREE", [])
        x.grad.zero_()
    assert messages(td.diagnose(session.tapes[0])) == ("AGREE", [])


def test_an_update_inside_the_block_after_backward_overwrites_nothing_that_the_pass_needed():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session, wp.Tape() as tape:
        wp.launch(programs.square, 2, [x], [y])
        wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
        x.assign(x.numpy() - 0.1 * x.grad.numpy())
    assert messages(td.diagnose(session.tapes[0])) == ("AGREE", [])


def test_a_pass_after_values_have_changed_is_not_compared_with_its_replay():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [y], [loss])
        for _ in range(2):  # the tape is recorded once; its launches run again without it
            tape.backward(loss)
            x.assign(x.numpy() - 0.5 * x.grad.numpy() + 1.0)
            tape.zero()
            wp.launch(programs.square, 2, [x], [y])
    found = td.diagnose(session.tapes[0])
    assert [finding for finding in found.findings if finding.rule == "wrong-adjoint"] == []
    assert [note for note in found.coverage.notes if note.startswith("values changed between two reverse")]


def one_pass(x, before=lambda tape: None, **named):
    """Record and reverse the sum of squares of an input on a tape of its own; return the tape."""
    y, loss = programs.zeros(x.size), programs.zeros(1)
    with wp.Tape() as tape:
        wp.launch(programs.square, x.size, [x], [y])
        wp.launch(programs.total, x.size, [y], [loss])
    before(tape)
    tape.backward(**(named or {"loss": loss}))
    return tape


@wp.kernel
def descend(x: wp.array(dtype=float), slope: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] - 0.25 * slope[i]


def by_launch(x):
    wp.launch(descend, x.size, [x, x.grad])


def by_assign(x):
    x.assign(x.numpy() - 0.25 * x.grad.numpy())


def by_list(x):
    x.assign([value - 0.25 * slope for value, slope in zip(x.list(), x.grad.list(), strict=True)])


def in_place(x):
    slope = x.grad.numpy()
    x.numpy()[:] -= 0.25 * slope


def by_clone(x):
    wp.launch(descend, x.size, [x, wp.clone(x.grad)])


def by_launch_and_zero(x):
    by_launch(x)
    x.grad.zero_()


def by_launch_and_momentum(x):
    by_launch(x)
    wp.launch(programs.scale, x.size, [x.grad, 0.5])


def by_launch_and_momentum_in_place(x):
    by_launch(x)
    x.grad.numpy()[:] *= 0.5


STEPS = {
    by_launch: ["accumulated"],
    by_assign: ["accumulated"],
    by_list: ["accumulated"],
    in_place: ["accumulated"],
    by_clone: ["accumulated"],
    by_launch_and_zero: [],
    by_launch_and_momentum: [],
    by_launch_and_momentum_in_place: [],
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_gradient_that_an_earlier_tape_left_is_wrong_if_the_input_was_updated_in_between(step):
    x = programs.array([1.0, 2.0])
    with td.watch_warp() as session:
        for _ in range(3):
            one_pass(x)
            step(x)
    found = [messages(td.diagnose(tape)) for tape in session.tapes]
    expected = [("error", rule) for rule in STEPS[step]]
    assert found == [("AGREE", []), *2 * [("WRONG" if expected else "AGREE", expected)]]


def test_an_accumulated_gradient_is_told_with_both_lines_and_both_norms():
    x = programs.array([1.0, 2.0])
    with td.watch_warp() as session:
        for _ in range(2):
            one_pass(x)
            by_launch(x)
    (finding,) = td.diagnose(session.tapes).findings
    assert finding.message.startswith(
        "The gradient of x was not zero when backward ran at test_watch_warp.py:"
    )
    assert "its norm was 4.47. x was updated since the pass before at test_watch_warp.py:" in finding.message
    assert "The pass alone gives a norm of 2.24; with the leftover gradient it was 6.71" in finding.message


def test_a_zero_before_the_first_pass_of_a_tape_zeroes_nothing():
    x = programs.array([1.0, 2.0])
    with td.watch_warp() as session:
        for _ in range(2):
            one_pass(x, before=lambda tape: tape.zero())
            by_launch(x)
    np.testing.assert_allclose(x.grad.numpy(), [3.0, 6.0])
    assert messages(td.diagnose(session.tapes[1])) == ("WRONG", [("error", "accumulated")])


def test_the_coverage_says_that_a_gradient_was_not_zero_when_a_pass_began():
    x = programs.array([1.0, 2.0])
    with td.watch_warp() as session:
        for _ in range(2):
            one_pass(x)
    np.testing.assert_array_equal(x.grad.numpy(), [4.0, 8.0])
    gap = "the gradient of x was not zero when the reverse pass of this tape began"
    said = [" ".join(td.diagnose(tape).coverage.notes) for tape in session.tapes]
    assert [gap in notes for notes in said] == [False, True]


def test_seeds_may_be_arrays_of_numpy():
    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y])
        tape.backward(grads={y: np.array([1.0, 3.0], np.float32)})
    assert session.not_covered == []
    assert messages(td.diagnose(session.tapes[0])) == ("AGREE", [])


def test_a_command_whose_arguments_are_not_known_is_not_covered():
    x, y = programs.array([1.0, 2.0]), programs.zeros(2)
    command = wp.launch(programs.square, 2, [x], [y], record_cmd=True)
    command.fwd_args = None
    with td.watch_warp() as session, wp.Tape():
        command.launch()
    assert [gap.reason for gap in session.not_covered] == ["its arguments are not known"]
    np.testing.assert_array_equal(y.numpy(), [1.0, 4.0])


def test_an_error_of_warp_about_a_call_is_the_same():
    x = programs.array([1.0])
    with td.watch_warp(), wp.Tape():
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'dim'"):
            wp.launch(programs.square)
        with pytest.raises(RuntimeError, match="passed 1 arguments but kernel requires 2"):
            wp.launch(programs.square, 1, [x])


def test_a_launch_inside_the_block_after_backward_is_no_part_of_the_pass():
    x = programs.array([1.0, 2.0, 3.0])
    with td.watch_warp() as session:
        for _ in range(2):
            y, loss = programs.zeros(3), programs.zeros(1)
            with wp.Tape() as tape:
                wp.launch(programs.square, 3, [x], [y])
                wp.launch(programs.total, 3, [y], [loss])
                tape.backward(loss)
                wp.launch(programs.descend, 3, [x, x.grad])
            tape.zero()
    found = td.diagnose(session.tapes)
    assert (found.verdict, found.findings) == ("AGREE", [])
    assert "recorded after the last reverse pass, and no part of it: descend" in found.coverage.notes


@pytest.mark.parametrize(
    ("between", "left", "back"),
    [
        ("back_as_array", "(numpy)", "as z at programs.py:"),
        ("back_as_list", "(list)", "as z at programs.py:"),
        ("back_as_number", "(numpy)", "as the number factor that launch 1 (times) is given at programs.py:"),
    ],
)
def test_values_that_left_the_tape_and_came_back_are_named_with_both_lines(between, left, back):
    tape, _ = watched(programs.through, getattr(programs, between))
    (finding,) = [item for item in td.diagnose(tape).findings if item.severity == "warning"]
    assert finding.rule == "disconnected"
    assert "y, which launch 0 (square) writes, left the tape at programs.py:" in finding.message
    assert f"{left}, and came back {back}" in finding.message
    assert finding.call_site.function == between


def test_values_that_are_only_printed_are_no_finding():
    tape, _ = watched(programs.through, programs.printed)
    assert messages(td.diagnose(tape)) == ("AGREE", [])


def test_an_array_that_another_tape_uses_has_a_gradient_of_zero_on_purpose():
    x, y, z, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(2), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as first:
            wp.launch(programs.square, 2, [x], [y])
            wp.launch(programs.total, 2, [z], [loss])
        first.backward(loss)
        with wp.Tape() as second:
            wp.launch(programs.square, 2, [y], [z])
    found = td.diagnose(session.tapes[0])
    assert (found.verdict, [item for item in found.findings if item.severity != "info"]) == ("AGREE", [])
    assert "y, which another tape uses" in " ".join(found.coverage.notes)
    del second


def test_launches_share_the_arrays_of_a_replay(monkeypatch):
    made = []
    plain = Binding._array_in
    monkeypatch.setattr(Binding, "_array_in", lambda *given: made.append(given[2]) or plain(*given))
    counts = []
    for steps in (2, 8):
        tape, _ = watched(programs.springs, steps=steps)
        tape.verify()
        made.clear()
        replay = tape.new_replay().forward()
        counts.append(len(made))
        replay.backward(tape.seeds, consume="current")
        made.clear()
        replay.forward(0).backward(tape.seeds, consume="current")
        assert not made, "everything is bound"
    assert counts == [4, 4], "x, v, k and the loss, however many launches use them"


def through_torch(compute):
    """`sum(z)`, where PyTorch computes z from the squares of x while the tape records."""
    wp.init()
    x, y, loss = programs.array([1.0, 2.0, 3.0]), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 3, [x], [y])
            z = wp.from_torch(compute(wp.to_torch(y)), requires_grad=True)
            wp.launch(programs.total, 3, [z], [loss])
        tape.backward(loss)
    return td.diagnose(session.tapes[0])


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("detached", [False, True])
def test_values_that_pass_through_torch_lose_their_gradient(detached):
    torch = pytest.importorskip("torch")
    found = through_torch(lambda t: torch.sin(t.detach() if detached else t))
    (finding,) = [item for item in found.findings if item.severity != "info"]
    assert (finding.rule, finding.severity, finding.arrays[:2]) == ("disconnected", "warning", ["z", "y"])
    assert "left the tape at test_watch_warp.py:" in finding.message
    assert "(to_torch), and came back as z at test_watch_warp.py:" in finding.message


def test_a_tensor_that_becomes_an_array_while_the_tape_records_is_an_input():
    torch = pytest.importorskip("torch")
    wp.init()
    weights, y, loss = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), programs.zeros(3), programs.zeros(1)
    with td.watch_warp() as session:
        with wp.Tape() as tape:
            x = wp.from_torch(weights)
            wp.launch(programs.square, 3, [x], [y])
            y.numpy()
            wp.launch(programs.total, 3, [y], [loss])
        tape.backward(loss)
    assert weights.grad.tolist() == [2.0, 4.0, 6.0]
    found = td.diagnose(session.tapes[0])
    assert (messages(found), found.findings) == (("AGREE", []), [])


def test_what_a_function_of_record_func_adds_is_no_change_from_outside():
    x, y, loss = programs.array([1.0, 2.0]), programs.zeros(2), programs.zeros(1)

    def backward():
        arguments = {"adj_inputs": [x.grad], "adj_outputs": [y.grad], "adjoint": True}
        wp.launch(programs.square, 2, [x], [y], **arguments)

    with td.watch_warp() as session:
        with wp.Tape() as tape:
            wp.launch(programs.square, 2, [x], [y], record_tape=False)
            tape.record_func(backward, [x, y])
            wp.launch(programs.total, 2, [y], [loss])
        tape.backward(loss)
    assert x.grad.numpy().tolist() == [2.0, 4.0]
    found = td.diagnose(session.tapes[0])
    assert (found.verdict, found.findings) == ("UNDECIDABLE", [])
    assert not [note for note in found.coverage.notes if "left another gradient" in note]
