"""Jacobians that are looked at in the panel: the numbers of the check, pooled, named, or refused in words."""

import json

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck
from tapedebug.panel import jacobian_query, result_cache
from tapedebug.panel.check_runner import CheckRunner
from tapedebug.panel.panel_source import PanelSource, subject_of
from tapedebug.panel.queries import answer
from tests.autograd import kernels as k


@wp.kernel
def mixes(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    y[i] = wp.cross(x[i], wp.vec3(1.0, 2.0, 3.0)) * x[i][0]


@wp.kernel
def squares(u: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, u[i, j] * u[i, j])


@wp.kernel
def clipped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i])


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    """Forget the results that other tests have cached."""
    fresh = result_cache.ResultCache()
    monkeypatch.setattr("tapedebug.panel.check_runner.result_cache", fresh)
    monkeypatch.setattr(jacobian_query, "result_cache", fresh)
    return fresh


def record(*launches, backward=None):
    tape = wp.Tape()
    with tape:
        for kernel, args in launches:
            wp.launch(kernel, dim=len(args[0]), inputs=args)
    if backward is not None:
        tape.backward(backward)
    return tape


def ask(subject, launch, source, target, **more):
    found = answer(subject, {"type": "jacobian", "launch": launch, "input": source, "output": target, **more})
    json.dumps(found.data, allow_nan=False)
    shape = found.data["cells"]
    cells = {
        buffer["name"]: np.frombuffer(raw, buffer["dtype"]).reshape(shape)
        for buffer, raw in zip(found.data["buffers"], found.buffers, strict=True)
    }
    return found.data, cells


@pytest.fixture
def wrong_cube():
    x, y = k.vector(np.linspace(0.5, 1.5, 4)), k.vector(np.zeros(4))
    kernel = k.with_adjoint_of(k.cube, k.square)
    return subject_of(record((kernel, [x, y]))), kernel, x, y


def test_the_numbers_are_those_of_gradcheck(wrong_cube):
    subject, kernel, x, y = wrong_cube
    data, cells = ask(subject, 0, "x", "y")
    result = gradcheck(kernel, dim=4, inputs=[x], outputs=[y], raise_exception=False, show_summary=False)
    (pair,) = result.pairs
    compared = pair.compared
    for name in ("ad", "fd", "error", "bar"):
        np.testing.assert_array_equal(cells[name], compared.dense(getattr(compared, name)))
    assert (cells["known"] == 1).all()
    assert data["verdict"] == pair.verdict == "WRONG"
    assert data["message"] == pair.message
    assert (data["max_abs_error"], data["shape"], data["pooled"]) == (pair.max_abs_error, [4, 4], None)


def test_the_worst_entry_is_named_with_its_line(wrong_cube):
    subject, *_ = wrong_cube
    data, _ = ask(subject, 0, "x", "y")
    first = data["worst"][0]
    assert (first["output"], first["input"], first["ad"], first["wrong"]) == ("y[3]", "x[3]", 3.0, True)
    assert first["fd"] == pytest.approx(6.75)
    assert [entry["row"] for entry in data["worst"]] == [3, 2, 1, 0]
    assert data["line"]["text"].strip() == "y[i] = x[i] * x[i] * x[i]"
    assert data["called"]["text"].strip().startswith("wp.launch(kernel, dim=len(args[0])")


def test_components_have_their_names():
    x = wp.array(np.ones((2, 3)), dtype=wp.vec3, requires_grad=True)
    y = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    data, cells = ask(subject_of(record((mixes, [x, y]))), 0, "x", "y")
    assert data["output"] == {"name": "y", "shape": [2], "suffixes": [".x", ".y", ".z"]}
    assert data["shape"] == [6, 6]
    assert cells["ad"].shape == (6, 6)


def test_what_a_run_has_found_is_not_computed_again(wrong_cube, monkeypatch):
    subject, *_ = wrong_cube
    CheckRunner(subject, lambda **_: None).run([[0, "x", "y"]])

    def again(*args, **options):
        raise AssertionError("computed twice")

    monkeypatch.setattr("tapedebug.panel.jacobian_query.check_pairs", again)
    assert ask(subject, 0, "x", "y")[0]["verdict"] == "WRONG"


def test_another_panel_of_the_tape_shows_the_same_though_it_has_other_names(wrong_cube):
    _, _, x, y = wrong_cube
    loss = k.vector([0.0])
    tape = record((k.square, [x, y]), (k.total, [y, loss]), backward=loss)
    first = subject_of(tape)
    labels = [info.label for info in first.source.arrays]
    CheckRunner(first, lambda **_: None).run([[None, labels[0], labels[2]]])
    second = subject_of(tape)
    second.source.arrays[0].label, second.source.arrays[1].label = "a", labels[0]
    found = ask(second, None, "a", labels[2])[0]
    assert found["verdict"] == "AGREE"
    assert found["input"]["name"] == "a"


def test_a_large_one_is_pooled_by_the_largest_error_and_a_window_is_exact():
    n = 700
    x, y = k.vector(np.linspace(0.5, 1.5, n)), k.vector(np.zeros(n))

    def break_one(seeds):
        seeds[171] = 0

    subject = subject_of(record((k.with_seeds(k.square, break_one, n), [x, y])))
    data, cells = ask(subject, 0, "x", "y")
    assert (data["shape"], data["cells"], data["pooled"]) == ([n, n], [256, 256], [3, 3])
    place = 171 * 256 // n
    assert cells["row"][place, place] == cells["column"][place, place] == 171
    assert cells["error"][place, place] == np.nanmax(cells["error"])
    assert (data["worst"][0]["output"], data["worst"][0]["input"]) == ("y[171]", "x[171]")
    window, near = ask(subject, 0, "x", "y", rows=[168, 175], columns=[170, 173])
    assert (window["cells"], window["pooled"], window["rows"]) == ([7, 3], None, [168, 175])
    np.testing.assert_allclose(np.diag(near["fd"][2:5]), 2 * x.numpy()[170:173], rtol=1e-6)
    assert near["ad"][3, 1] == 0
    assert set(np.unique(near["known"])) == {1, 2}
    assert window["scale"] == data["scale"]
    assert "the others are zero (traced, verified by random products)" in data["evaluation"]
    row, line = ask(subject, 0, "x", "y", rows=[171, 172], columns=[0, n])
    assert (row["cells"], row["pooled"]) == ([1, n], None)  # a whole row, to be seen as a field
    assert line["column"][0, 171] == 171 and line["error"][0, 171] == cells["error"][place, place]


def test_the_gradient_of_a_field_is_told_entry_by_entry():
    side = 32
    values = np.random.default_rng(0).normal(size=(side, side)).astype(np.float32)
    u = wp.array(values, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, dim=(side, side), inputs=[u], outputs=[loss])
    tape.backward(loss)
    data, cells = ask(subject_of(tape), None, "u", "loss")
    assert (data["cells"], data["pooled"], data["input"]["shape"]) == ([1, side * side], None, [side, side])
    np.testing.assert_allclose(cells["ad"][0].reshape(side, side), 2 * values, rtol=1e-6)


def test_all_entries_can_be_asked_for_where_a_sample_was_taken():
    n = 300
    y, loss = k.vector(np.linspace(0.5, 1.5, n)), k.vector([0.0])
    subject = subject_of(record((k.total, [y, loss])))
    data, cells = ask(subject, 0, "x", "loss")
    assert data["lacks"]
    assert set(np.unique(cells["known"])) == {0, 1}
    assert np.isnan(cells["ad"][cells["known"] == 0]).all()
    assert data["evaluation"] == (
        "256 of 300 entries were evaluated one by one, the others in random combinations."
    )
    data, cells = ask(subject, 0, "x", "loss", whole=True)
    assert (data["lacks"], data["evaluation"]) == (False, "All 300 entries were evaluated.")
    np.testing.assert_allclose(cells["ad"], 1.0)


def test_of_the_whole_tape_the_gradient_is_shown_against_what_confirms_it(wrong):
    tape, x, loss = wrong  # noqa: RUF059
    data, cells = ask(subject_of(tape), None, "x", "loss")
    assert data["verdict"] == "WRONG"
    assert data["against"] == "float64 adjoint"
    assert data["evaluation"].startswith(
        "This is the gradient of loss. Errors are against the float64 adjoint"
    )
    np.testing.assert_allclose(cells["ad"], [[8.0, 10.0, 12.0]])
    np.testing.assert_allclose(cells["reference"], [[2.0, 4.0, 6.0]])
    np.testing.assert_allclose(cells["fd"], [[2.0, 4.0, 6.0]], rtol=1e-4)
    np.testing.assert_allclose(cells["error"], [[6.0, 6.0, 6.0]])
    assert data["worst"][0]["output"] == "loss"


def test_of_many_entries_differences_are_along_some():
    n = 40
    x, y, loss = k.vector(np.linspace(0.5, 1.5, n)), k.vector(np.zeros(n)), k.vector([0.0])
    tape = record((k.square, [x, y]), (k.total, [y, loss]), backward=loss)
    subject = subject_of(tape)
    labels = [info.label for info in subject.source.arrays]
    data, cells = ask(subject, None, labels[0], labels[2])
    evaluated = np.isfinite(cells["fd"])
    assert 0 < evaluated.sum() < n
    assert (cells["known"] == np.where(evaluated, 1, 3)).all()
    assert np.isfinite(cells["error"]).all()
    assert f"along {evaluated.sum()} of 40 entries" in data["evaluation"]


def test_a_kink_has_both_slopes():
    x, y = k.vector([0.0, 1.0]), k.vector([0.0, 0.0])
    data, _ = ask(subject_of(record((clipped, [x, y]))), 0, "x", "y")
    assert data["verdict"] == "KINK"
    assert data["slopes"] == pytest.approx([-1.0, 1.0])


def test_a_pair_without_a_derivative_says_why(wrong):
    tape, _, _ = wrong
    data, cells = ask(subject_of(tape), 1, "y", "x")
    assert (data["verdict"], data["cells"], cells) == ("UNDECIDABLE", None, {})
    assert data["message"].startswith("not checked: the kernel does not ")


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"launch": 9}, "mask entry [9, 'x', 'y']: there is no launch 9; this tape has 1 launches"),
        ({"input": "z"}, "mask entry [0, 'z', 'y']: launch 0 (cube) has no array 'z'; it has x, y"),
        ({"input": ["x"]}, "launch 0 (cube) has no array ['x']"),
        ({"output": None}, "launch 0 (cube) has no array None"),
        ({"rows": [3, 2]}, "rows 3 to 2 are not in this Jacobian, which has 4 rows"),
        ({"columns": [0, 5]}, "columns 0 to 5 are not in this Jacobian, which has 4 columns"),
        ({"rows": "all"}, "rows are a range [from, to]; not 'all'"),
        ({"columns": [0.5, 2]}, "columns are a range [from, to]; not [0.5, 2]"),
    ],
)
def test_wrong_questions_are_refused_in_words(wrong_cube, question, message):
    subject, *_ = wrong_cube
    with pytest.raises(wp.TapedebugError) as caught:
        answer(subject, {"type": "jacobian", "launch": 0, "input": "x", "output": "y", **question})
    assert message in str(caught.value)


def test_without_a_kernel_there_is_none(wrong_cube):
    subject, *_ = wrong_cube
    with pytest.raises(wp.TapedebugError) as caught:
        ask(PanelSource(subject.source, None), 0, "x", "y")
    assert "Jacobians need the kernel that recorded the tape" in str(caught.value)


def test_a_tape_that_has_changed_is_not_mixed_up(wrong_cube):
    subject, _, x, y = wrong_cube
    ask(subject, 0, "x", "y")
    with subject.tape:
        wp.launch(k.square, dim=4, inputs=[x], outputs=[y])
    with pytest.raises(wp.TapedebugError) as caught:
        ask(subject, 0, "x", "y")
    assert "The tape has changed since this was drawn" in str(caught.value)


def test_the_script_shows_the_pair_alone(wrong_cube):
    x, y = k.vector([0.5, 1.0]), k.vector([0.0, 0.0])
    subject = subject_of(record((k.off_by_2_percent, [x, y]), (k.square, [x, y])))
    text = answer(subject, {"type": "script", "launch": 1, "input": "x", "output": "y"}).data["text"]
    compile(text, "script", "exec")
    assert "input_output_mask=[('x', 'y')]" in text
    assert text.startswith('"""launch 1 (square): AGREE"""')


def test_memory_is_bounded_and_the_newest_stays(wrong_cube, nothing_kept):
    subject, _, x, y = wrong_cube
    other = subject_of(record((k.square, [x, y])))
    nothing_kept.most_bytes = 3_000
    ask(subject, 0, "x", "y")
    assert nothing_kept.find(subject, 0, "x", "y") is not None
    ask(other, 0, "x", "y")
    assert nothing_kept.find(subject, 0, "x", "y") is None
    assert nothing_kept.find(other, 0, "x", "y") is not None


def test_what_is_kept_is_answered_while_a_check_runs(wrong_cube):
    from tapedebug.panel.execution_lock import execution_lock
    from tapedebug.panel.queries import answer_later

    subject, *_ = wrong_cube
    ask(subject, 0, "x", "y")
    sent = []
    question = {"type": "jacobian", "launch": 0, "input": "x", "output": "y"}
    with execution_lock.for_check(lambda: None):
        for asked in (question, {"type": "chunk", "name": "jacobian"}):
            thread = answer_later(subject, asked, 1, lambda *message: sent.append(message))
            thread.join(20)
            assert not thread.is_alive()
        waits = answer_later(subject, {**question, "output": "x"}, 2, lambda *message: sent.append(message))
        waits.join(0.2)
        assert waits.is_alive()
    waits.join(20)
    assert [message["type"] for message, _ in sent] == ["answer"] * 3
    assert b"export" in sent[1][1][0]


@pytest.mark.parametrize("question", [{}, {"launch": [0]}, {"launch": 0, "input": {}, "output": []}])
def test_odd_questions_are_not_taken_for_kept_ones(wrong_cube, question):
    assert not jacobian_query.is_kept(wrong_cube[0], question)


@pytest.mark.parametrize("name", ["../widget", None, "lanes"])
def test_only_chunks_of_the_panel_are_handed_out(wrong_cube, name):
    with pytest.raises(wp.TapedebugError) as caught:
        answer(wrong_cube[0], {"type": "chunk", "name": name})
    assert str(caught.value) == f"The panel has no chunk {name!r}."
