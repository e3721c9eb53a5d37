"""Values as they were then: against NumPy, of every version, without touching an array of the user."""

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._errors import TapedebugError
from tapedebug.panel import values_query
from tapedebug.panel.panel_source import PanelSource, subject_of
from tapedebug.panel.queries import answer
from tapedebug.trace import version_values


@wp.struct
class State:
    q: wp.array(dtype=wp.vec2)
    m: wp.array(dtype=float)


@wp.kernel
def double(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * 2.0


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, y[wp.tid()])


@wp.kernel
def move(state: State):
    i = wp.tid()
    state.q[i] = state.q[i] * state.m[i]


@wp.kernel
def turn(m: wp.array(dtype=wp.mat22), h: wp.array2d(dtype=wp.float16), b: wp.array(dtype=wp.bool)):
    i = wp.tid()
    m[i] = m[i] * 2.0
    h[i, 1] = h[i, 1] + wp.float16(1.0)
    b[i] = not b[i]


@wp.kernel
def roots(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


def ask(subject, array, version, of="value", **window):
    """The answer's data, and its buffers by name, as NumPy arrays of the shape that was sent."""
    subject = subject if isinstance(subject, PanelSource) else subject_of(subject)
    number = array if isinstance(array, int) else subject.source.array(array).id
    given = answer(subject, {"type": "values", "array": number, "version": version, "of": of, **window})
    data = given.data
    buffers = dict(zip(data["buffers"], given.buffers, strict=True))
    found = {}
    for name in ("values", "before"):
        if name in buffers:
            found[name] = np.frombuffer(buffers[name], data["sent"]).reshape(-1, *data["element"])
    if "overview" in buffers:
        cells = data["overview"]
        shape = (3, cells["rows"], cells["columns"], cells["series"])
        found["overview"] = np.frombuffer(buffers["overview"], "<f8").reshape(shape)
    return data, found


@pytest.fixture
def doubled():
    """x doubled four times in place, then squared and summed."""
    x = wp.array([1.0, -2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(4):
            wp.launch(double, dim=3, inputs=[x])
        wp.launch(squares, dim=3, inputs=[x], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape, x


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]])
def test_every_version_is_what_numpy_says_in_any_order(doubled, order):
    tape, x = doubled
    now, gradient = x.numpy().copy(), x.grad.numpy().copy()
    subject = subject_of(tape)
    for version in order:
        data, found = ask(subject, "x", version)
        wanted = np.array([1, -2, 3], np.float32) * 2**version
        np.testing.assert_array_equal(found["values"], wanted)
        assert data["summary"]["norm"] == pytest.approx(np.linalg.norm(wanted))
        _, found = ask(subject, "x", version, "adjoint")
        # loss = (2⁴⁻ᵛ x)² summed
        np.testing.assert_allclose(found["values"], 2 * wanted * 4.0 ** (4 - version), rtol=1e-6)
    np.testing.assert_array_equal(x.numpy(), now)
    np.testing.assert_array_equal(x.grad.numpy(), gradient)


def test_it_says_what_a_launch_changed(doubled):
    tape, _ = doubled
    data, found = ask(tape, "x", 2)
    np.testing.assert_array_equal(found["before"], [2, -4, 6])
    assert data["change"] == {
        **{"of": 1, "changed": 3, "total": 3, "largest": 6.0, "at": [2], "before": 6.0, "after": 12.0}
    }
    data, found = ask(tape, "x", 0)
    assert data["change"] is None and "before" not in found


def test_going_on_does_not_start_over(doubled, monkeypatch):
    tape, _ = doubled
    subject = subject_of(tape)
    monkeypatch.setattr(version_values, "AROUND", 0)
    ask(subject, "x", 1)
    moments = subject.memo["moments"]
    ran = []
    shadow = moments._replayed
    monkeypatch.setattr(
        type(shadow), "forward", lambda self, start=0, stop=None, **_: ran.append((start, stop))
    )
    monkeypatch.setattr(moments, "_memory", lambda: 0)
    with pytest.raises(TapedebugError):  # nothing was run, so nothing was found
        ask(subject, "x", 3)
    assert ran == [(1, 3)]


def test_another_reverse_pass_has_other_adjoints(doubled):
    tape, _ = doubled
    subject = subject_of(tape)
    _, once = ask(subject, "x", 0, "adjoint")
    loss = tape.backward_calls[-1].loss
    tape.zero()
    tape.backward(grads={loss: wp.array([2.0], dtype=float)})
    _, twice = ask(subject, "x", 0, "adjoint")
    np.testing.assert_allclose(twice["values"], 2 * once["values"])


def test_an_overwritten_version_and_its_adjoint_as_it_was_consumed(wrong):
    tape, x, _ = wrong
    _, found = ask(tape, "work", 1)
    np.testing.assert_array_equal(found["values"], [1, 2, 3])
    _, found = ask(tape, "x", 0, "adjoint")
    np.testing.assert_array_equal(found["values"], x.grad.numpy())  # the wrong one: that is what it is about


def test_views_and_fields_of_structs():
    base = wp.zeros(6, dtype=float)
    state = State()
    state.q = wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=wp.vec2)
    state.m = wp.array([2.0, 10.0], dtype=float)
    part = base[2:4]
    base.fill_(1.0)
    with wp.Tape() as tape:
        wp.launch(double, dim=2, inputs=[part])
        wp.launch(double, dim=6, inputs=[base])
        wp.launch(move, dim=2, inputs=[state])
    subject = subject_of(tape)
    _, found = ask(subject, "base", 1)  # written through the view
    np.testing.assert_array_equal(found["values"], [1, 1, 2, 2, 1, 1])
    _, found = ask(subject, "part", 2)  # written through its parent
    np.testing.assert_array_equal(found["values"], [4, 4])
    data, found = ask(subject, "state.q", 1)
    np.testing.assert_array_equal(found["values"], [[2, 4], [30, 40]])
    assert (data["shape"], data["element"]) == ([2], [2])


def test_matrices_halves_and_truth_values():
    m = wp.array(np.ones((3, 2, 2)), dtype=wp.mat22)
    h = wp.array(np.ones((3, 2)), dtype=wp.float16)
    b = wp.zeros(3, dtype=wp.bool)
    with wp.Tape() as tape:
        wp.launch(turn, dim=3, inputs=[m, h, b])
    data, found = ask(tape, "m", 1)
    assert data["element"] == [2, 2]
    np.testing.assert_array_equal(found["values"], np.full((3, 2, 2), 2))
    data, found = ask(tape, "h", 1)
    assert (data["dtype"], data["sent"], data["shape"]) == ("float16", "<f4", [3, 2])
    np.testing.assert_array_equal(found["values"], [1, 2, 1, 2, 1, 2])
    data, found = ask(tape, "b", 1)
    assert (data["dtype"], data["sent"]) == ("bool", "|u1")
    assert data["change"]["changed"] == 3 and data["change"]["largest"] == 1.0
    np.testing.assert_array_equal(found["values"], [1, 1, 1])


def test_nan_and_inf_are_named_and_a_nan_that_stays_is_no_change():
    x = wp.array([1.0, -1.0, np.inf], dtype=float)
    y = wp.array([5.0, np.nan, 7.0], dtype=float)
    with wp.Tape() as tape:
        wp.launch(roots, dim=3, inputs=[x], outputs=[y])
        wp.launch(double, dim=3, inputs=[y])
    data, found = ask(tape, "y", 1)
    np.testing.assert_array_equal(found["values"], [1, np.nan, np.inf])
    assert data["first"] == {"nan": [1], "inf": [2]}
    assert data["summary"]["nan"] == data["summary"]["inf"] == 1
    data, _ = ask(tape, "y", 2)
    assert (data["change"]["changed"], data["change"]["largest"]) == (1, 1.0)


def test_what_becomes_nan_has_no_size_but_a_place():
    x = wp.array([-1.0, 4.0], dtype=float)
    y = wp.array([3.0, 2.0], dtype=float)
    with wp.Tape() as tape:
        wp.launch(roots, dim=2, inputs=[y], outputs=[x])
        wp.launch(roots, dim=2, inputs=[x], outputs=[y])
        wp.launch(roots, dim=2, inputs=[wp.array([-1.0, 1.19], dtype=float)], outputs=[x])
    data, _ = ask(tape, "x", 2)
    change = data["change"]
    assert change["at"] == [1] or change["largest"] is not None
    assert data["first"]["nan"] == [0]
    alone = {"x": np.array([1.0, 2.0]), "y": np.array([np.nan, 2.0])}
    assert values_query._largest(alone["x"], alone["y"], np.array([True, False])) == (None, [0])


def test_large_arrays_come_in_windows_with_an_overview():
    count = 10_000
    x = wp.array(np.arange(count, dtype=np.float32), dtype=float)
    with wp.Tape() as tape:
        wp.launch(double, dim=count, inputs=[x])
    subject = subject_of(tape)
    data, found = ask(subject, "x", 1)
    assert (data["start"], data["count"]) == (0, 4096)
    low, high, bad = found["overview"]
    assert low.shape == (1, 512, 1) and low.min() == 0 and high.max() == 2.0 * (count - 1) and not bad.any()
    data, found = ask(subject, "x", 1, start=9_990, count=500)
    assert (data["start"], data["count"]) == (9_990, 10)
    np.testing.assert_array_equal(found["values"], 2.0 * np.arange(9_990, count))
    np.testing.assert_array_equal(found["before"], np.arange(9_990, count))
    data, _ = ask(subject, "x", 1, start=10**12)
    assert (data["start"], data["count"]) == (9_999, 1)


@pytest.mark.parametrize(
    ("shape", "dimensions", "picture"),
    [((700,), 1, (1, 512, 1)), ((5, 3), 1, (1, 5, 3)), ((5, 9), 1, (1, 5, 1)), ((100, 7), 2, (64, 7, 1))]
    + [((4, 5, 200), 3, (20, 64, 1)), ((), 0, (1, 1, 1)), ((3, 3, 2), 2, (3, 3, 1))],
)
def test_overviews_fit_a_picture(shape, dimensions, picture):
    from tapedebug.panel.values_overview import overview_of

    values = np.random.default_rng(0).standard_normal(shape)
    low, high, bad = overview_of(values, dimensions)
    assert low.shape == high.shape == bad.shape == picture
    assert (low <= high).all()


def test_an_overview_counts_what_is_not_finite():
    from tapedebug.panel.values_overview import overview_of

    values = np.zeros(1024)
    values[[0, 1, 2]] = np.nan, np.inf, -np.inf
    low, high, bad = overview_of(values, 1)
    assert np.isnan(low[0, 0, 0]) and bad[0, :2, 0].tolist() == [2, 1] and high[0, 1, 0] == 0


REFUSED = [
    ({"array": 99, "version": 0}, "The tape has no array 99."),
    ({"array": "x", "version": 0}, "The tape has no array 'x'."),
    ({"array": True, "version": 0}, "The tape has no array True."),
    ({"array": 0, "version": 77}, "The tape has no version 77 of array 0."),
    ({"array": 0, "version": None}, "A version is a number, not None."),
    ({"array": 0, "version": 0, "of": "soul"}, 'Of a version there are "value" and "adjoint", not \'soul\'.'),
    ({"array": 0, "version": 0, "start": -1}, "start and count are whole numbers from 0, not -1."),
]


@pytest.mark.parametrize(("question", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_in_words(doubled, question, words):
    with pytest.raises(TapedebugError, match=".") as caught:
        answer(subject_of(doubled[0]), {"type": "values", **question})
    assert str(caught.value) == words


def test_why_there_is_no_adjoint():
    x = wp.array([1.0], dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=1, inputs=[x], outputs=[y])
    with pytest.raises(TapedebugError, match="No reverse pass has run"):
        ask(tape, "x", 0, "adjoint")
    with pytest.raises(TapedebugError, match="y v1 has no adjoint: the array was made without requires_grad"):
        ask(tape, "y", 1, "adjoint")


def test_what_nobody_read_before_it_was_overwritten():
    x = wp.array([1.0], dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=1, inputs=[x], outputs=[y])
    with pytest.raises(TapedebugError, match="Nothing read y v0 before launch 0 overwrote it"):
        ask(tape, "y", 0)
    data, found = ask(tape, "y", 1)
    assert data["change"] is None and "before" not in found


def test_a_custom_function_ends_the_way_back_and_says_so():
    x = wp.array([3.0], dtype=float, requires_grad=True)
    y = wp.zeros(1, dtype=float, requires_grad=True)
    z = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(squares, dim=1, inputs=[x], outputs=[y])
        tape.record_func(lambda: None, [y])
        wp.launch(squares, dim=1, inputs=[y], outputs=[z])
    z.grad.fill_(1.0)
    tape.backward(grads={z: z.grad})
    _, found = ask(tape, "z", 1, "adjoint")
    assert found["values"].tolist() == [1]
    with pytest.raises(TapedebugError, match="lies behind launch 1, the custom function"):
        ask(tape, "x", 0, "adjoint")


def test_a_replay_that_takes_too_long_is_ended(doubled, monkeypatch):
    tape, x = doubled
    monkeypatch.setattr(version_values, "monotonic", iter(range(0, 10_000, 100)).__next__)
    now = x.numpy().copy()
    with pytest.raises(TapedebugError, match="took longer than 10 s"):
        ask(tape, "x", 3)
    np.testing.assert_array_equal(x.numpy(), now)


def test_little_is_kept(doubled, monkeypatch):
    tape, _ = doubled
    monkeypatch.setattr(version_values, "KEPT", 30)
    subject = subject_of(tape)
    for version in (4, 0, 2, 3, 1):
        ask(subject, "x", version)
        known = subject.memo["moments"]._known
        assert sum(values.nbytes for values in known.values()) <= 30


def test_a_trace_without_its_tape_answers_from_what_it_holds(doubled):
    tape, _ = doubled
    whole = PanelSource(tape.trace(values="arrays"), None)
    _, found = ask(whole, "x", 3)
    np.testing.assert_array_equal(found["values"], [8, -16, 24])
    _, found = ask(whole, "x", 3, "adjoint")
    np.testing.assert_allclose(found["values"], [64, -128, 192])
    with pytest.raises(
        TapedebugError, match=r'does not hold the values of x v3, .* tape\.trace\(values="arr'
    ):
        ask(PanelSource(tape.trace(), None), "x", 3)


def test_a_tape_that_went_on_says_so(doubled):
    tape, x = doubled
    subject = subject_of(tape)
    with tape:
        wp.launch(double, dim=3, inputs=[x])
    with pytest.raises(TapedebugError, match="it had 6 launches and has 7 now"):
        ask(subject, "x", 1)


def test_values_of_another_recording_with_as_many_launches_are_not_shown(doubled):
    tape, x = doubled
    subject = subject_of(tape)
    count = len(tape.records)
    tape.reset()
    with tape:
        for _ in range(count):
            wp.launch(double, dim=3, inputs=[x])
    with pytest.raises(TapedebugError, match="^The tape was reset and recorded again since this was drawn"):
        ask(subject, "x", 1)
    with pytest.raises(TapedebugError, match="^The tape was reset and recorded again since this was drawn"):
        answer(subject, {"type": "jacobian", "launch": 0, "input": "x", "output": "x"})


def test_what_was_written_outside_the_tape(doubled):
    x = wp.array([1.0, 2.0], dtype=float)
    with wp.Tape() as tape:
        wp.launch(double, dim=2, inputs=[x])
        x.assign([10.0, 20.0])
        wp.launch(double, dim=2, inputs=[x])
    for version, wanted in enumerate([[1, 2], [2, 4], [10, 20], [20, 40]]):
        _, found = ask(tape, "x", version)
        assert found["values"].tolist() == wanted, version
