"""Preserved versions of overwritten memory, and the four modes of `on_overwrite`."""

from __future__ import annotations

import gc
import time
import warnings

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.kernels import (
    cube_in_place,
    first_half,
    move,
    scale,
    square,
    square_then_set,
    total,
)


def vector(*values, grad=True):
    return wp.array(list(values), dtype=float, requires_grad=grad)


def between_kernels(mode):
    """The documents' example A; the last launch reads b, as the printed numbers mean."""
    a, c = vector(1, 2, 3), vector(-1, -2, -3)
    b, loss = wp.zeros_like(a), wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, a.shape, inputs=[a], outputs=[b])
        wp.launch(move, c.shape, inputs=[c], outputs=[a])
        wp.launch(total, a.shape, inputs=[b, loss])
    return tape, loss, a


def within_a_kernel(mode):
    """The documents' example B."""
    a = vector(1, 2, 3)
    b, loss = wp.zeros_like(a), wp.zeros(1, requires_grad=True)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square_then_set, a.shape, inputs=[a, b])
        wp.launch(total, a.shape, inputs=[b, loss])
    return tape, loss, a


@pytest.mark.parametrize(
    ("example", "mode", "gradient"),
    [
        (between_kernels, "preserve", [2, 4, 6]),
        (between_kernels, "ignore", [-2, -4, -6]),
        (within_a_kernel, "preserve", [2, 4, 6]),
        (within_a_kernel, "ignore", [2, 2, 2]),
    ],
)
def test_the_documents_examples(example, mode, gradient):
    tape, loss, a = example(mode)
    values = a.numpy().copy()
    for _ in range(2):
        tape.backward(loss)
        assert a.grad.numpy().tolist() == gradient
        tape.zero()
    np.testing.assert_array_equal(a.numpy(), values)
    assert tape.preserved_bytes == (12 if mode == "preserve" else 0)


@pytest.mark.parametrize("mode", ["preserve", "ignore", "warn"])
def test_in_place_chains(mode):
    x, loss = vector(1, 2, 0.5), wp.zeros(1, requires_grad=True)
    with warnings.catch_warnings(), wp.Tape(mode) as tape:
        warnings.simplefilter("ignore")
        wp.launch(cube_in_place, 3, inputs=[x])
        wp.launch(cube_in_place, 3, inputs=[x])
        wp.launch(total, 3, inputs=[x, loss])
    values = x.numpy().copy()
    right = 9 * np.array([1, 2, 0.5]) ** 8
    for _ in range(2):
        tape.backward(loss)
        assert (mode == "preserve") == np.allclose(x.grad.numpy(), right, rtol=1e-6)
        tape.zero()
    np.testing.assert_array_equal(x.numpy(), values)  # re-executed stores never reach the user's memory


def ping_pong(mode, steps=6):
    x, y = vector(0.9, 1.1), wp.zeros(2, requires_grad=True)
    start, loss = x, wp.zeros(1, requires_grad=True)
    with wp.Tape(mode) as tape:
        for _ in range(steps):
            wp.launch(square, 2, inputs=[x], outputs=[y])
            x, y = y, x
        wp.launch(total, 2, inputs=[x, loss])
    return tape, loss, start


def test_ping_pong_buffers():
    tape, loss, x = ping_pong("preserve")
    tape.backward(loss)
    n = 2**6
    np.testing.assert_allclose(x.grad.numpy(), n * np.array([0.9, 1.1]) ** (n - 1), rtol=1e-5)
    assert tape.preserved_bytes == 5 * 8  # six versions are needed, the last is still in place
    assert tape.livein_bytes == 0  # what replays need of x is what adjoints need
    tape, loss, x = ping_pong("ignore")
    tape.backward(loss)
    assert not np.allclose(x.grad.numpy(), n * np.array([0.9, 1.1]) ** (n - 1), rtol=1e-2)
    assert (tape.preserved_bytes, tape.livein_bytes) == (0, 8)


def test_nothing_is_kept_that_no_adjoint_needs():
    x, force = vector(1, 2), wp.zeros(2, requires_grad=True)
    y, z = wp.zeros_like(x), wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x], outputs=[force])
        wp.launch(scale, 2, inputs=[force, y, 2.0])  # linear in force
        wp.launch(square, 2, inputs=[y], outputs=[force])
        wp.launch(scale, 2, inputs=[force, z, 2.0])
    tape.backward(grads={z: [1.0, 1.0]})
    np.testing.assert_allclose(x.grad.numpy(), [2 * 4 * 4 * 1, 2 * 4 * 4 * 8])
    assert (tape.preserved_bytes, tape.livein_bytes) == (0, 0)


def test_without_gradients_nothing_is_preserved():
    x, y = vector(1, 2, grad=False), wp.zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        wp.launch(square, 2, inputs=[y, x])
    assert tape.preserved_bytes == 0
    assert tape.livein_bytes == 8  # but x can be replayed


def test_the_optimisers_step_is_kept_after_backward_too():
    x, loss = vector(3), wp.zeros(1, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape(on_overwrite="error") as tape:
        wp.launch(square, 1, inputs=[x, y])
        wp.launch(total, 1, inputs=[y, loss])
    tape.backward(loss)
    x.assign(x.numpy() - 0.1 * x.grad.numpy())
    assert tape.preserved_bytes == 4
    tape.zero()
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [6]
    assert tape.replay().values(x).tolist() == [3]
    (event,) = tape.outside
    assert (event.how, event.at, event.array) == ("assign", 2, x)
    assert event.site[0].co_name == "test_the_optimisers_step_is_kept_after_backward_too"
    for step in range(3):
        x.assign([float(step)])
    assert (tape.preserved_bytes, tape.livein_bytes) == (4, 0)  # later values are of no interest


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.assign([9.0, 9.0]),
        lambda x: x.fill_(9.0),
        lambda x: x.zero_(),
        lambda x: wp.copy(x, wp.ones(2)),
        lambda x: x.flatten()[1:].fill_(9.0),
        lambda x: x.__setitem__(0, 9.0),
        lambda x: wp.launch(scale, 2, inputs=[x, x, 9.0]),
        lambda x: x.mark_write() or x.numpy().fill(9.0),
        lambda x: wp.array(ptr=x.ptr, shape=2, dtype=float).fill_(9.0),
        lambda x: wp.array(x.numpy(), copy=False).fill_(9.0),
    ],
)
def test_writes_outside_the_tape(write):
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    write(x)
    assert tape.preserved_bytes == 8
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 4]


def test_several_tapes_each_keep_what_they_need():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as first:
        wp.launch(square, 2, inputs=[x, y])
    with wp.Tape() as second:
        wp.launch(square, 2, inputs=[y, z])
        wp.launch(cube_in_place, 2, inputs=[x])
    assert first.preserved_bytes == 8
    second.backward(grads={z: [1.0, 1.0]})
    first.backward()
    assert x.grad.numpy().tolist() == [4 * 1, 4 * 8]


def test_disjoint_slices_are_not_overwrites():
    x = vector(1, 2, 3, 4)
    with wp.Tape(on_overwrite="error") as tape:
        wp.launch(square, 2, inputs=[x[:2]], outputs=[x[2:]])
        grid = wp.ones((3, 4), requires_grad=True)
        wp.launch(square, 3, inputs=[grid[:, 0]], outputs=[grid[:, 1]])
    assert tape.preserved_bytes == 0
    tape.backward(grads={x: [0.0, 0.0, 1.0, 10.0]})
    assert x.grad.numpy().tolist() == [2, 40, 0, 0]


def test_overlapping_siblings_are_overwrites():
    x, y = vector(1, 2, 3, 4), wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[x[:3], y])
        x[2:].zero_()
    assert tape.preserved_bytes == 12
    tape.backward(grads={y: [1.0, 1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 4, 6, 0]


def test_a_write_through_a_strided_view():
    x, y = wp.ones((2, 2), requires_grad=True), wp.zeros((4,), requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 4, inputs=[x.flatten(), y])
        x[:, 1].fill_(5)
    tape.backward(grads={y: [1.0] * 4})
    assert x.grad.numpy().tolist() == [[2, 2], [2, 2]]
    assert tape.preserved_bytes == 16


def test_writes_through_numpy_while_a_view_lives():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    view = x.numpy()
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        view[:] = 10
        wp.launch(square, 2, inputs=[x, z])
    view[:] = 100
    tape.backward(grads={y: [1.0, 1.0], z: [0.0, 0.0]})
    assert x.grad.numpy().tolist() == [2, 4]
    tape.zero()
    tape.backward(grads={y: [0.0, 0.0], z: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [20, 20]
    assert [event.how for event in tape.outside] == ["numpy", "numpy"]
    shadow = tape.replay()
    assert (shadow.values(y).tolist(), shadow.values(z).tolist()) == ([1, 4], [100, 100])


def test_live_ins_are_not_copied_where_the_content_is_known():
    a, b, loss = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(1, requires_grad=True)
    ones = wp.ones(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(move, 2, inputs=[a, b])
        wp.launch(total, 2, inputs=[b, loss])
        wp.launch(first_half, 2, inputs=[ones])
    assert (tape.preserved_bytes, tape.livein_bytes) == (0, 0)
    assert tape.replay().values(ones).tolist() == [10, 10]
    with wp.Tape() as again:
        wp.launch(total, 2, inputs=[b, loss])  # now loss holds something that is added to
    assert again.livein_bytes == 4
    assert again.replay().values(loss).tolist() == [6]


# -- modes ------------------------------------------------------------------------------------------------


def test_warn_consumes_like_ignore_and_keeps_the_evidence():
    with pytest.warns(wp.OverwriteWarning) as caught:
        tape, loss, a = between_kernels("warn")
    (warning,) = caught
    assert warning.filename == __file__
    text = str(warning.message)
    here = "test_versions.py"
    for part in (
        "launch 1 (move, called at ",
        "), writing 'y' (shape (3,), float32) at ",
        "overwrites values of 'x' (shape (3,), float32) that the adjoint of launch 0 (square, called at ",
        "the gradient will use the new values, and be wrong where they differ (the old are kept as evidence)",
        here,
    ):
        assert part in text
    tape.backward(loss)
    assert a.grad.numpy().tolist() == [-2, -4, -6]
    assert tape.preserved_bytes == 12
    shadow = tape.replay()
    shadow.backward({loss: [1.0]})
    assert shadow.gradient(a).tolist() == [2, 4, 6]


def test_warn_warns_once_for_each_pair_of_lines():
    with pytest.warns(wp.OverwriteWarning) as caught:
        ping_pong("warn", steps=10)
    assert len(caught) == 1


def test_verify_autograd_array_access_warns_and_preserves():
    wp.config.verify_autograd_array_access = True
    try:
        with pytest.warns(wp.OverwriteWarning, match="the old values are kept for the reverse pass"):
            tape, loss, a = between_kernels("preserve")
    finally:
        wp.config.verify_autograd_array_access = False
    tape.backward(loss)
    assert a.grad.numpy().tolist() == [2, 4, 6]


def test_error_refuses_before_anything_changes():
    a, c = vector(1, 2, 3), vector(-1, -2, -3)
    b = wp.zeros_like(a)
    with wp.Tape(on_overwrite="error") as tape:
        wp.launch(square, 3, inputs=[a], outputs=[b])
        with pytest.raises(wp.OverwriteError) as caught:
            wp.launch(move, 3, inputs=[c], outputs=[a])
        with pytest.raises(wp.OverwriteError):
            a.zero_()
        with pytest.raises(wp.OverwriteError) as own:
            wp.launch(square_then_set, 3, inputs=[c, b])
    message = caught.value.message
    assert message.startswith("launch 1 (move, called at ")
    assert (
        "would overwrite, through 'y' (shape (3,), float32), values that the adjoint of launch 0 (square,"
        in message
    )
    assert message.endswith("needs of 'x' (shape (3,), float32)")
    assert caught.value.span.text == "    y[i] = x[i]"
    assert caught.value.hint == "give the launch its own output array, or use on_overwrite='preserve'"
    assert (
        "would overwrite values of 'a' (shape (3,), float32) that its own adjoint needs (read at line"
        in str(own.value)
    )
    assert own.value.hint == "write to another array than the one that is read"
    assert a.numpy().tolist() == [1, 2, 3]
    assert b.numpy().tolist() == [1, 4, 9]
    assert len(tape.records) == 1
    tape.backward(grads={b: [1.0, 1.0, 1.0]})
    assert a.grad.numpy().tolist() == [2, 4, 6]


def test_error_lets_harmless_overwrites_pass():
    x, force, y = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape(on_overwrite="error") as tape:
        for _ in range(3):
            wp.launch(square, 2, inputs=[x], outputs=[force])
            wp.launch(scale, 2, inputs=[force, y, 2.0])
    assert len(tape.records) == 6


# -- the list of versions ---------------------------------------------------------------------------------


def test_versions():
    tape, _, a = between_kernels("preserve")
    found = {
        (v.number, v.written_by, tuple(v.readers), tuple(v.needed_by), v.overwritten_by, v.status)
        for v in tape.versions()
        if v.array is a
    }
    assert found == {
        (0, None, (0,), (0,), 1, "preserved"),
        (1, 1, (), (), None, "live"),
    }
    a.fill_(0)
    last = [v for v in tape.versions() if v.array is a][-1]
    assert (last.number, last.outside, last.status) == (2, True, "live")


def test_versions_of_force_are_harmless_and_of_positions_lost():
    tape, _, x = ping_pong("ignore", steps=3)
    assert [v.status for v in tape.versions() if v.array is x] == ["lost", "kept"]
    x, force, y = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(2):
            wp.launch(square, 2, inputs=[x], outputs=[force])
            wp.launch(scale, 2, inputs=[force, y, 2.0])
    assert [v.status for v in tape.versions() if v.array is force] == ["harmless", "harmless", "live"]


def test_many_slices_of_one_array_cost_no_more_each():
    """A trajectory in one array: the time of a launch must not grow with the number of slices."""

    def record(steps):
        states = wp.ones((steps + 1, 2), requires_grad=True)
        with wp.Tape() as tape:
            states[0].fill_(1)
            states.mark_read()  # the whole array is a range, too, that overlaps all others
            start = time.process_time()
            for t in range(steps):
                wp.launch(square, 2, inputs=[states[t]], outputs=[states[t + 1]])
            return (time.process_time() - start) / steps, tape

    few = min(record(200)[0] for _ in range(3))
    many, tape = record(4000)
    assert many < 8 * few
    tape.backward(grads={tape.records[-1].args[1]: [1.0, 1.0]})
    assert tape.preserved_bytes == 0


def test_a_numpy_view_that_only_reads_costs_nothing_in_the_end():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        view = x.numpy()
        assert tape.preserved_bytes == 8
        del view
        assert (tape.preserved_bytes, tape.livein_bytes) == (0, 0)
    assert not tape.outside
    assert tape.replay().values(y).tolist() == [1, 4]


@pytest.mark.parametrize("closed", [True, False])
def test_a_write_through_a_numpy_view_made_after_recording(closed):
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 2, inputs=[x, y])
    view = x.numpy()
    view[:] = 10
    if closed:
        del view
        assert [(event.how, event.at) for event in tape.outside] == [("numpy", 1)]
    with tape:
        wp.launch(square, 2, inputs=[x, z])
    tape.backward(grads={y: [1.0, 1.0], z: [0.0, 0.0]})
    assert x.grad.numpy().tolist() == [2, 4]
    shadow = tape.replay()
    assert (shadow.values(y).tolist(), shadow.values(z).tolist()) == ([1, 4], [100, 100])
    x.fill_(0)
    again = tape.replay().backward({z: [1.0, 1.0]})
    assert again.values(z).tolist() == [100, 100]
    assert again.gradient(x).tolist() == [20, 20]
    assert [event.how for event in tape.outside] == ["numpy", "fill_"]


def test_numpy_views_of_foreign_memory_are_never_trusted():
    values = np.array([1, 2], np.float32)
    x = wp.array(values, copy=False, requires_grad=True)
    y = wp.zeros(2, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    values[:] = 10
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [2, 4]
    assert tape.replay().values(y).tolist() == [1, 4]


def test_the_mode_comes_from_the_configuration():
    wp.config.on_overwrite = "ignore"
    try:
        assert wp.Tape().on_overwrite == "ignore"
        assert wp.Tape("warn").on_overwrite == "warn"
    finally:
        wp.config.on_overwrite = "preserve"
    assert wp.Tape().on_overwrite == "preserve"


def test_a_warning_that_is_an_error_leaves_nothing_half_done():
    a, c = vector(1, 2, 3), vector(-1, -2, -3)
    b = wp.zeros_like(a)
    with warnings.catch_warnings(), wp.Tape(on_overwrite="warn") as tape:
        warnings.simplefilter("error")
        wp.launch(square, 3, inputs=[a], outputs=[b])
        with pytest.raises(wp.OverwriteWarning):
            wp.launch(move, 3, inputs=[c], outputs=[a])
        assert a.numpy().tolist() == [1, 2, 3]
        assert len(tape.records) == 1
        wp.launch(move, 3, inputs=[c], outputs=[a])
    tape.backward(grads={b: [1.0, 1.0, 1.0]})
    assert a.grad.numpy().tolist() == [-2, -4, -6]
    shadow = tape.replay().backward({b: [1.0, 1.0, 1.0]})
    assert shadow.gradient(a).tolist() == [2, 4, 6]


def test_a_write_outside_the_tape_warns_with_its_place():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)
    with wp.Tape(on_overwrite="warn") as tape:
        wp.launch(square, 2, inputs=[x, y])
    with pytest.warns(wp.OverwriteWarning) as caught:
        x.assign([5.0, 5.0])
    assert str(caught[0].message).startswith("assign outside the tape at ")
    assert caught[0].filename == __file__
    tape.backward(grads={y: [1.0, 1.0]})
    assert x.grad.numpy().tolist() == [10, 10]


@wp.kernel
def two_in_place(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    a[i] = a[i] * a[i]
    b[i] = b[i] * b[i]


def test_two_arrays_of_one_size_changed_in_one_launch_keep_their_own_values():
    a = wp.array([2.0, 3.0], dtype=float, requires_grad=True)
    b = wp.array([5.0, 7.0], dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(two_in_place, dim=2, inputs=[a, b])
    ones = wp.ones(2, dtype=float)
    tape.backward(grads={a: ones, b: ones})
    assert a.grad.numpy().tolist() == [4.0, 6.0]
    assert b.grad.numpy().tolist() == [10.0, 14.0]


def test_tapes_that_are_gone_are_forgotten_by_what_they_used():
    x, y = wp.ones(2, dtype=float), wp.zeros(2, dtype=float)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
    wp.launch(square, 2, inputs=[x, y])
    assert [event.how for event in tape.outside] == ["launch"]
    assert y.buffer.watch == tape.tracker.watch
    del tape
    gc.collect()
    wp.launch(square, 2, inputs=[x, y])
    assert y.buffer.watch == ()


def test_what_numpy_may_write_is_kept_for_each_buffer_apart():
    x, y, z = (wp.ones(2, dtype=float, requires_grad=True) for _ in range(3))
    seen = x.numpy()
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        wp.launch(square, 2, inputs=[y, z])
    guarded = {
        name: bool(tape.tracker.ledgers[a.buffer].guarded) for name, a in zip("xyz", (x, y, z), strict=True)
    }
    assert guarded == {"x": True, "y": False, "z": False}
    assert seen.tolist() == [1, 1]


# A tape that is kept while a newer one records -----------------------------------------------------------


def test_writes_after_a_tape_are_listed_and_enter_its_versions_when_asked_for() -> None:
    """The first write of a range is listed; a second changes nothing; live-ins are made on demand."""
    x, y, z = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    tapes = []
    for _ in range(3):
        with wp.Tape() as tape:
            wp.launch(scale, 2, [x, y, 2.0])
            wp.launch(scale, 2, [y, z, 3.0])
        tapes.append(tape)
    kept = tapes[0].tracker
    assert [(write.at, write.array, write.how) for write in kept.outside] == [
        (2, y, "launch"),
        (2, z, "launch"),
    ]
    assert [len(ledger.liveins) for ledger in kept._ledgers.values()] == [1, 0, 0]
    assert [[live.injected for live in ledger.liveins] for ledger in kept.ledgers.values()] == [
        [False],
        [True],
        [True],
    ]


def test_a_tape_that_goes_on_finds_what_another_one_wrote_meanwhile() -> None:
    """Its replay loads these values where they were written."""
    x, y, z = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    with wp.Tape() as tape:
        wp.launch(scale, 2, [x, y, 2.0])
    with wp.Tape():
        wp.launch(scale, 2, [x, y, 5.0])
    with tape:
        wp.launch(scale, 2, [y, z, 3.0])
    assert [live.at for live in tape.tracker.ledgers[y.buffer].liveins if live.injected] == [1]
    assert tape.replay().values(z).tolist() == [15.0, 30.0]


def test_values_that_a_reverse_pass_read_after_another_tape_are_kept() -> None:
    """They are live-ins of the pass: the next write copies them."""
    x, y = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(2))
    with wp.Tape() as tape:
        wp.launch(scale, 2, [x, y, 2.0])
    with wp.Tape():
        wp.launch(scale, 2, [x, y, 5.0])
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    with wp.Tape():
        wp.launch(scale, 2, [x, y, 7.0])
    assert [(write.at, write.settled) for write in tape.outside] == [(1, False), (1, True)]
    live = tape.tracker.ledgers[y.buffer].liveins[0]
    assert live.copy is not None
    assert live.copy.view(np.float32).tolist() == [5.0, 10.0]
