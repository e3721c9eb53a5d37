"""Tapes: gradients, seeds, accumulation, retained gradients, copies, scopes, and what is refused."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import _tape_observers
from tapedebug._tape_observers import MOST_GONE
from tapedebug.runtime.state import state
from tests.runtime.kernels import (
    add_matrix,
    cube_in_place,
    drift,
    move,
    repeat,
    scale,
    square,
    square_without_adjoint,
    total,
)


def vector(*values, grad=True):
    return wp.array(list(values), dtype=float, requires_grad=grad)


def chain(x, mode=None):
    """loss = Σ (3 x²)²"""
    y, z, w = wp.zeros_like(x), wp.zeros_like(x), wp.zeros_like(x)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape(mode) as tape:
        wp.launch(square, len(x), inputs=[x], outputs=[y])
        wp.launch(scale, len(x), inputs=[y, z, 3.0])
        wp.launch(square, len(x), inputs=[z], outputs=[w])
        wp.launch(total, len(x), inputs=[w, loss])
    return tape, loss, (y, z, w)


def test_backward_gives_the_gradient_and_uses_up_intermediates():
    x = vector(1, 2)
    tape, loss, inner = chain(x)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [36, 36 * 8]
    assert loss.grad.numpy().tolist() == [1]
    for a in inner:
        assert a.grad.numpy().tolist() == [0, 0]
    assert tape.gradients[x] is x.grad
    assert list(tape.gradients) == [x, *inner, loss]
    assert tape.get_adjoint(x) is x.grad
    assert tape.get_adjoint(3) is None


def test_backward_twice_accumulates_into_leaves_only():
    x = vector(1, 2)
    tape, loss, _ = chain(x)
    tape.backward(loss)
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [72, 72 * 8]
    assert loss.grad.numpy().tolist() == [1]
    tape.zero()
    assert x.grad.numpy().tolist() == [0, 0]
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [36, 36 * 8]


def test_backward_twice_with_values_accumulated_by_atomics():
    """The gradient that an atomic leaves belongs to the values before the tape, not to those after it."""
    x, s = vector(1, 2), wp.zeros(1, requires_grad=True)
    out = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, 2, inputs=[x, s])
        wp.launch(square, 1, inputs=[s, out])
    tape.backward(out)
    once = x.grad.numpy().tolist()
    assert once == [6, 6]
    assert s.grad.numpy().tolist() == [6]
    tape.backward(out)
    assert x.grad.numpy().tolist() == [12, 12]
    assert s.grad.numpy().tolist() == [12]


def test_backward_twice_with_a_leaf_that_is_overwritten():
    x = vector(2)
    with wp.Tape() as tape:
        wp.launch(cube_in_place, 1, inputs=[x])
    seed = wp.ones(1)
    tape.backward(grads={x: seed})
    assert x.grad.numpy().tolist() == [12]
    tape.backward(grads={x: seed})
    assert x.grad.numpy().tolist() == [12]  # the seed replaces what was there


def test_a_seed_through_another_view_replaces_what_is_left():
    states = wp.zeros((2, 2), requires_grad=True)
    states[0].assign([2.0, 3.0])
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[states[0]], outputs=[states[1]])
    for times in (1, 2, 3):
        tape.backward(grads={states[1]: [1.0, 1.0]})
        assert states.grad.numpy().tolist() == [[4 * times, 6 * times], [0, 0]]


def test_seeds_and_jacobian_rows():
    x = vector(1, 2, 3)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[x, y])
    rows = []
    for i in range(3):
        e = np.zeros(3)
        e[i] = 1
        tape.backward(grads={y: wp.array(e, dtype=float)})
        rows.append(tape.gradients[x].numpy().copy())
        tape.zero()
    np.testing.assert_array_equal(rows, np.diag([2.0, 4.0, 6.0]))
    tape.backward(grads={y: [1.0, 0.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 0, 6]


def test_gradients_set_by_hand_are_seeds():
    x = vector(1, 2)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    y.grad.fill_(1)
    tape.backward()
    assert x.grad.numpy().tolist() == [2, 4]
    y.grad.fill_(1)
    tape.backward()
    assert x.grad.numpy().tolist() == [4, 8]


def test_two_tapes_pass_the_gradient_on():
    x = vector(3)
    y, z = wp.zeros_like(x), wp.zeros_like(x)
    with wp.Tape() as first:
        wp.launch(square, 1, inputs=[x, y])
    with wp.Tape() as second:
        wp.launch(square, 1, inputs=[y, z])
    second.backward(grads={z: [1.0]})
    assert y.grad.numpy().tolist() == [18]
    first.backward()
    assert x.grad.numpy().tolist() == [108]


def test_views_and_vectors():
    x = wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.vec3, requires_grad=True)
    v, out = wp.zeros_like(x), wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(drift, 2, inputs=[x, v, wp.vec3(0, 0, 0), 0.5], outputs=[out])
    tape.backward(grads={out: np.arange(6.0).reshape(2, 3)})
    np.testing.assert_array_equal(x.grad.numpy(), np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(v.grad.numpy(), np.arange(6.0).reshape(2, 3) / 2)


def test_trajectory_in_slices_of_one_array():
    states = wp.zeros((4, 2), requires_grad=True)
    states[0] = [1.5, 2.0]
    with wp.Tape() as tape:
        for t in range(3):
            wp.launch(square, 2, inputs=[states[t]], outputs=[states[t + 1]])
    tape.backward(grads={states[3]: [1.0, 1.0]})
    np.testing.assert_allclose(states.grad.numpy()[0], [8 * 1.5**7, 8 * 2.0**7], rtol=1e-6)
    assert states.grad.numpy()[1:].tolist() == [[0, 0]] * 3
    assert tape.preserved_bytes == 0
    assert tape.gradients[states].numpy()[0, 1] == 8 * 2.0**7  # never launched itself, but its memory was


def test_strided_views():
    a = wp.array(np.arange(6.0).reshape(2, 3), dtype=float, requires_grad=True)
    c = wp.zeros((3, 2), requires_grad=True)
    b = wp.full((3, 2), 2.0)
    with wp.Tape() as tape:
        wp.launch(add_matrix, (3, 2), inputs=[a.transpose(), b], outputs=[c])
        a[:, 1].zero_()
    tape.backward(grads={c: np.arange(6.0).reshape(3, 2)})
    np.testing.assert_array_equal(a.grad.numpy(), [[0, 4, 8], [2, 6, 10]])


def test_loops_with_scalar_arguments():
    x = vector(1, 2)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(repeat, 2, inputs=[x, 5, True, y])
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [10, 20]


def test_copy_clone_assign_are_differentiable():
    x = vector(0, 1, 2)
    y, z, w = wp.zeros_like(x), wp.zeros_like(x), wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(scale, 3, inputs=[x, y, 2.0])
        wp.copy(z, y)
        c = wp.clone(z)
        w.assign(c)
    assert [r.kind for r in tape.records] == ["kernel", "copy", "copy", "copy"]
    tape.backward(grads={w: wp.ones_like(x)})
    assert x.grad.numpy().tolist() == [2, 2, 2]
    assert w.grad.numpy().tolist() == [0, 0, 0]


def test_clone_detaches():
    x = vector(1, 2)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        c = wp.clone(x, requires_grad=False)
        wp.launch(total, 2, inputs=[c, loss])
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [0, 0]
    assert c.grad is None


def test_partial_copy_takes_its_part_of_the_gradient():
    x, y = vector(1, 2, 3, 4), wp.zeros(4, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, 4, inputs=[x, y])
        wp.copy(y, x, dest_offset=2, src_offset=0, count=2)
    tape.backward(grads={y: [1.0, 10.0, 100.0, 1000.0]})
    assert x.grad.numpy().tolist() == [101, 1010, 0, 0]


def test_fill_and_constant_assign_cut_the_gradient():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, 2, inputs=[x, y])
        y[0:1].fill_(5)
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [0, 1]
    tape.zero()
    with tape:
        y.assign([7.0, 8.0])
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [0, 0]


def test_retain_grad_holds_the_final_version_and_never_counts_twice():
    x = vector(1, 2)
    y = wp.zeros(2, requires_grad=True, retain_grad=True)
    loss = wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        wp.launch(total, 2, inputs=[y, loss])
        wp.launch(scale, 2, inputs=[x, y, 5.0])
        wp.launch(total, 2, inputs=[y, loss])
    for times in (1, 2):
        tape.backward(loss)
        assert x.grad.numpy().tolist() == [times * 7, times * 9]
        assert y.grad.numpy().tolist() == [times, times]


def test_record_func():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    seen = []

    def halves():
        seen.append(x.numpy().tolist())
        x.grad.assign(x.grad.numpy() + 0.5 * y.grad.numpy())

    with wp.Tape() as tape:
        y.assign(0.5 * x.numpy())
        tape.record_func(halves, arrays=[x, y])
        wp.launch(square, 2, inputs=[y, z])
        x.assign([7.0, 7.0])
    tape.backward(grads={z: [1.0, 1.0]})
    assert seen == [[1, 2]]  # the values of the time of recording
    assert x.numpy().tolist() == [7, 7]
    assert x.grad.numpy().tolist() == [0.5, 1.0]
    assert tape.records[1].name == "halves"


def test_a_kernel_without_adjoint_passes_nothing_on():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square_without_adjoint, 2, inputs=[x, y])
    with pytest.warns(wp.TapedebugWarning) as caught:
        tape.backward(grads={y: [1.0, 1.0]})
    assert str(caught[0].message) == (
        "backward: launch 0 (square_without_adjoint) passes no gradient on, because the kernel has "
        "enable_backward=False"
    )
    assert x.grad.numpy().tolist() == [0, 0]


def test_scopes_and_timers(capsys, monkeypatch):
    monkeypatch.setattr(wp.config, "quiet", False)
    monkeypatch.setattr(wp.ScopedTimer, "_indent", -1)  # as outside of all timers, whatever ran before
    x, y = vector(1), wp.zeros(1)
    wp.launch(move, 1, inputs=[x, y])  # compiled by now, and nothing but timers has something to say
    capsys.readouterr()
    times: dict = {}
    with wp.Tape() as tape:
        with wp.ScopedTimer("outer", dict=times):
            wp.launch(move, 1, inputs=[x, y])
            tape.record_scope_begin("inner", {"step": 1})
            wp.launch(move, 1, inputs=[x, y])
            tape.record_scope_end()
            with wp.ScopedTimer("empty", print=False):
                pass
        wp.launch(move, 1, inputs=[x, y])
        with wp.ScopedTimer("off", active=False):
            wp.launch(move, 1, inputs=[x, y])
        with wp.ScopedTimer("untaped", print=False, skip_tape=True):
            pass
        tape.record_scope_begin("left open")
        wp.launch(move, 1, inputs=[x, y])
    assert [(s.name, s.parent, s.first, s.last) for s in tape.scopes] == [
        ("outer", None, 0, 1),
        ("inner", 0, 1, 1),
        ("off", None, 3, 3),
        ("left open", None, 4, 4),
    ]
    assert [r.scope for r in tape.records] == [0, 1, None, 2, 3]
    assert tape.scopes[1].metadata == {"step": 1}
    (ms,) = times["outer"]
    assert capsys.readouterr().out == f"outer took {ms:.2f} ms\n"
    seen = []
    with wp.ScopedTimer("reported", report_func=lambda results, indent: seen.append((results, indent))):
        pass
    assert (seen, capsys.readouterr().out) == ([([], "")], "")
    with wp.ScopedTimer("profiled", detailed=True) as timer:
        sorted([2, 1])
    out = capsys.readouterr().out
    assert "built-in method builtins.sorted" in out
    assert out.endswith(f"profiled took {timer.elapsed:.2f} ms\n")
    with pytest.raises(wp.TapeError) as caught:
        tape.record_scope_end()
    assert str(caught.value) == (
        "record_scope_end: no scope is open\n  = hint: call record_scope_begin first, once for each end"
    )


def test_reset_forgets_and_zeroes():
    x = vector(1, 2)
    tape, loss, _ = chain(x)
    tape.backward(loss)
    tape.reset()
    assert tape.records == []
    assert tape.launches == []
    assert x.grad.numpy().tolist() == [0, 0]
    y = wp.zeros_like(x)
    with tape:
        wp.launch(square, 2, inputs=[x, y])
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 4]


def test_record_launch_records_without_running():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    tape = wp.Tape()
    tape.record_launch(square, 2, 0, [x], [y], "cpu")
    assert y.numpy().tolist() == [0, 0]
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 4]


def test_backward_inside_the_block():
    x, loss = vector(1, 2), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(total, 2, inputs=[x, loss])
        tape.backward(loss)
        assert state.tape is tape
    assert len(tape.records) == 1
    assert x.grad.numpy().tolist() == [1, 1]


def test_an_interrupted_backward_leaves_gradients_as_they_were():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    x.grad.fill_(5)

    def interrupt():
        raise KeyboardInterrupt

    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        tape.record_func(interrupt, arrays=[y])
        wp.launch(square, 2, inputs=[y, z])
    with pytest.raises(KeyboardInterrupt):
        tape.backward(grads={z: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [5, 5]
    assert y.grad.numpy().tolist() == [0, 0]
    assert z.grad.numpy().tolist() == [0, 0]
    assert tape.backward_calls == []
    assert state.tape is None


def test_an_exception_in_the_block_ends_the_recording():
    x, y = vector(1, 2), wp.zeros(2)
    tape = wp.Tape()
    with pytest.raises(ZeroDivisionError), tape:
        wp.launch(square, 2, inputs=[x, y])
        raise ZeroDivisionError
    assert state.tape is None
    assert len(tape.records) == 1


def test_a_dropped_tape_goes_away_at_once():
    gc.collect()
    gc.disable()
    try:
        x = vector(1, 2)
        tape, _, _ = chain(x)
        x.assign([3.0, 4.0])
        gone = weakref.ref(tape), weakref.ref(tape.tracker)
        assert tape in wp.live_tapes()
        del tape
        assert [r() for r in gone] == [None, None]
        for _ in range(5):
            chain(x)
        assert len(x.buffer.watch) <= 2
    finally:
        gc.enable()


def test_backward_calls_remember_their_seeds():
    x = vector(1, 2)
    tape, loss, _ = chain(x)
    tape.backward(loss)
    (call,) = tape.backward_calls
    assert call.loss is loss
    assert {k: v.tolist() for k, v in call.seeds.items()} == {loss: [1]}
    assert call.records == 4
    assert call.seconds > 0
    assert all(r.backward_elapsed > 0 for r in tape.records)


def test_observers():
    class Observer:
        def __init__(self):
            self.events = []

        def tape_created(self, tape):
            self.events.append(("created", tape))

        def tape_exited(self, tape):
            self.events.append(("exited", tape))

        def backward_done(self, tape, call):
            self.events.append(("backward", tape))

    from tapedebug.runtime import observers

    observer = Observer()
    observers.append(observer)
    try:
        tape, loss, _ = chain(vector(1))
        tape.backward(loss)
    finally:
        observers.remove(observer)
    assert observer.events == [("created", tape), ("exited", tape), ("backward", tape)]


# -- what is refused --------------------------------------------------------------------------------------


def _tape():
    x = vector(1, 2)
    return (x, *chain(x))


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda x, tape, loss, inner: tape.backward(x),
            "backward: the loss must be a scalar; got an array(shape=(2,), dtype=float32)\n"
            "  = hint: sum it into an array of one element, or pass grads={array: seed}",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(wp.zeros(1, dtype=wp.vec3, requires_grad=True)),
            "backward: the loss must be a scalar; got an array(shape=(1,), dtype=vec3)\n"
            "  = hint: sum it into an array of one element, or pass grads={array: seed}",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(1.0),
            "backward: the loss must be an array of one element; got 1.0 (float)\n"
            "  = hint: let a kernel write the loss into zeros(1, requires_grad=True)",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(wp.zeros(1, dtype=int, requires_grad=True)),
            "backward: the loss must be a float; got an array(shape=(1,), dtype=int32)\n  = hint: use "
            "dtype=float",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(wp.zeros(1)),
            "backward: the loss array(shape=(1,), dtype=float32) has no gradient: requires_grad is not set\n"
            "  = hint: create it with requires_grad=True",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(wp.zeros(1, requires_grad=True)),
            "backward: the loss, an array(shape=(1,), dtype=float32), is not on this tape: none of its 4 "
            "records "
            "uses it\n  = hint: launch what computes it inside `with tape:`",
        ),
        (
            lambda x, tape, loss, inner: wp.Tape().backward(loss),
            "backward: nothing was recorded on this tape\n  = hint: run the launches inside `with tape:` "
            "first",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(grads={inner[0]: wp.ones(3)}),
            "backward: the seed of the array(shape=(2,), dtype=float32) has shape (3,), dtype float32\n"
            "  = hint: pass values of shape (2,), such as ones_like(array)",
        ),
        (
            lambda x, tape, loss, inner: tape.backward(grads={wp.zeros(2, dtype=int): wp.ones(2)}),
            "backward: the keys of grads are arrays with requires_grad; got an array(shape=(2,), "
            "dtype=int32) "
            "without a gradient\n  = hint: create the array with requires_grad=True and a float dtype",
        ),
        (
            lambda x, tape, loss, inner: tape.record_func(None, []),
            "record_func: backward must be callable; got None\n  = hint: pass a function",
        ),
        (
            lambda x, tape, loss, inner: tape.record_func(print, [wp.zeros(2)]),
            "record_func: arrays must be arrays with a gradient; got an array(shape=(2,), dtype=float32) "
            "without "
            "requires_grad\n  = hint: create it with requires_grad=True",
        ),
        (
            lambda x, tape, loss, inner: wp.Tape(on_overwrite="keep"),
            "Tape: on_overwrite is one of preserve, warn, error, ignore; got 'keep'\n"
            "  = hint: use one of these, or leave it out",
        ),
    ],
)
def test_messages(action, message):
    x, tape, loss, inner = _tape()
    with pytest.raises(wp.TapeError) as caught:
        action(x, tape, loss, inner)
    assert str(caught.value) == message
    assert x.grad.numpy().tolist() == [0, 0]
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [36, 36 * 8]


def test_tapes_do_not_nest():
    tape = wp.Tape()
    with tape:
        with pytest.raises(wp.TapeError) as caught:
            wp.Tape().__enter__()
        assert str(caught.value) == (
            "cannot start recording: another tape is recording already, and tapes do not nest\n"
            "  = hint: leave the outer `with` block first"
        )
        with pytest.raises(wp.TapeError, match="this tape is recording already"):
            tape.__enter__()
        assert state.tape is tape


def test_gradients_say_why_there_is_none():
    x, tape, *_ = _tape()
    with pytest.raises(KeyError) as caught:
        tape.gradients[wp.zeros(2, requires_grad=True)]
    assert caught.value.args == (
        "the tape has no gradient of the array(shape=(2,), dtype=float32): it is not on the tape",
    )
    with pytest.raises(KeyError) as caught:
        tape.gradients[wp.zeros(2)]
    assert caught.value.args == (
        "the tape has no gradient of the array(shape=(2,), dtype=float32): it has no requires_grad",
    )
    assert tape.gradients[x[1:]].numpy().tolist() == [0]


def test_what_shows_a_tape_is_asked_lazily():
    _, tape, *_ = _tape()
    assert [launch.name for launch in tape.trace().launches] == ["square", "scale", "square", "total"]
    assert "square" in tape.visualize()
    data, metadata = tape._repr_mimebundle_()
    assert "text/plain" in data
    assert metadata == {}


def test_names_are_remembered_when_the_block_ends():
    from tapedebug.runtime.memory.array import range_key

    def local_variables():
        position = vector(1, 2)
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[position, wp.zeros(2)])
        return tape

    tape = local_variables()
    assert tape.array_names[range_key(tape.records[0].args[0])] == ["position"]


def test_looking_for_names_keeps_nothing_alive():
    gc.collect()
    gc.disable()
    try:
        x, y = vector(1, 2), wp.zeros(2)
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x, y])
        tape.trace()
        gone = weakref.ref(tape)
        del tape
        assert gone() is None
    finally:
        gc.enable()


def test_tapes_that_are_gone_are_not_listed():
    before = wp.live_tapes()
    first, *others = [wp.Tape() for _ in range(300)]
    assert wp.live_tapes() == [*before, first, *others]
    kept = others[-1]
    del others
    assert wp.live_tapes() == [*before, first, kept]
    for _ in range(1000):
        wp.Tape()
    assert wp.live_tapes() == [*before, first, kept]
    assert len(_tape_observers._live) <= 2 * len(wp.live_tapes()) + MOST_GONE
    _tape_observers.unlist(first)
    assert first not in wp.live_tapes()
