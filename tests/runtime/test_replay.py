"""Shadows: the tape again, in private memory, with other inputs, in float64, forward and backward."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._float_types import are_equal
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.single_launch import one_launch
from tests.runtime.kernels import cube_in_place, drift, gather, move, scale, square, total


def vector(*values, grad=True):
    return wp.array(list(values), dtype=float, requires_grad=grad)


def ping_pong(mode="preserve", steps=4):
    x, y = vector(0.9, 1.1), wp.zeros(2, requires_grad=True)
    start, loss = x, wp.zeros(1, requires_grad=True)
    with wp.Tape(mode) as tape:
        for _ in range(steps):
            wp.launch(square, 2, inputs=[x], outputs=[y])
            x, y = y, x
        wp.launch(total, 2, inputs=[x, loss])
    return tape, loss, start


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
def test_replay_computes_what_was_computed(mode):
    tape, loss, x = ping_pong(mode)
    before = x.numpy().copy(), loss.numpy().copy()
    shadow = tape.replay()
    assert shadow.matches_live()
    assert shadow.values(loss).tolist() == loss.numpy().tolist()
    assert shadow.values(loss).dtype == np.float32
    shadow.set(x, [5.0, 5.0])
    assert not shadow.matches_live()
    np.testing.assert_array_equal(x.numpy(), before[0])
    np.testing.assert_array_equal(loss.numpy(), before[1])
    assert shadow.uncovered == []


def test_double_precision_twin():
    tape, loss, _ = ping_pong()
    shadow = tape.replay(dtype=wp.float64)
    start = np.float32([0.9, 1.1]).astype(np.float64)
    assert shadow.values(loss).dtype == np.float64
    np.testing.assert_allclose(shadow.values(loss), (start**16).sum(), rtol=1e-14)
    shadow.backward({loss: [1.0]})
    x = tape.records[0].args[0]
    np.testing.assert_allclose(shadow.gradient(x), 16 * start**15, rtol=1e-14)
    assert tape.replay(dtype=np.float64).is_float64
    assert tape.replay(dtype=np.dtype("float64")).is_float64


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
def test_consume_versions_and_current(mode):
    tape, loss, x = ping_pong(mode)
    tape.backward(loss)
    shadow = tape.replay()
    shadow.backward({loss: [1.0]})
    right = shadow.gradient(x)
    np.testing.assert_allclose(right, 16 * np.float32([0.9, 1.1]) ** 15, rtol=1e-5)
    shadow.backward({loss: [1.0]}, consume="current")
    wrong = shadow.gradient(x)
    assert not np.allclose(right, wrong, rtol=1e-2)
    np.testing.assert_array_equal(x.grad.numpy(), right if mode == "preserve" else wrong)


def test_other_inputs():
    tape, loss, x = ping_pong()
    shadow = tape.replay({x: [2.0, 1.0]})
    assert shadow.values(loss).tolist() == [2.0**16 + 1]
    shadow.forward()  # starts over, with the input that was set
    assert shadow.values(loss).tolist() == [2.0**16 + 1]
    shadow.backward({loss: [1.0]})
    assert shadow.gradient(x).tolist() == [16 * 2.0**15, 16]
    shadow = Shadow(tape.tracker)
    shadow.set(x, [1.0, 1.0])
    assert shadow.forward().values(loss).tolist() == [2]
    assert tape.replay().values(loss).tolist() == loss.numpy().tolist()


def test_in_place_launches_and_copies():
    x, y, loss = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cube_in_place, 2, inputs=[x])
        y.fill_(1)
        wp.copy(y, x)
        y[0:1].assign([4.0])
        wp.launch(cube_in_place, 2, inputs=[y])
        wp.launch(total, 2, inputs=[y, loss])
    tape.backward(loss)
    for dtype in (None, wp.float64):
        shadow = tape.replay(dtype=dtype)
        assert shadow.values(y).tolist() == [64, 512]
        for _ in range(2):
            shadow.backward({loss: [1.0]})
            assert shadow.gradient(x).tolist() == [0, 9 * 2.0**8]
        shadow = tape.replay({x: [1.0, 1.0]}, dtype=dtype)
        assert shadow.values(loss).tolist() == [65]
    assert x.grad.numpy().tolist() == [0, 9 * 2.0**8]


def test_vectors_views_and_indices():
    n = 5
    x = wp.array(np.random.default_rng(0).normal(size=(n, 3)), dtype=wp.vec3, requires_grad=True)
    v, out = wp.zeros_like(x), wp.zeros((2, n), dtype=wp.vec3, requires_grad=True)
    values, index = wp.ones(3, requires_grad=True), wp.array([2, 0, 2], dtype=int)
    picked = wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(drift, n, inputs=[x, v, (0, 0, -1), 0.5], outputs=[out[1]])
        wp.launch(gather, 3, inputs=[values, index, picked])
    for dtype in (None, wp.float64):
        shadow = tape.replay(dtype=dtype)
        assert shadow.values(out).shape == (2, n, 3)
        np.testing.assert_allclose(shadow.values(out[1]), out[1].numpy(), rtol=1e-6)
        seed = np.arange(3.0 * n).reshape(n, 3)
        shadow.backward({out[1]: seed, picked: [1.0, 2.0, 4.0]})
        np.testing.assert_array_equal(shadow.gradient(x), seed)
        np.testing.assert_array_equal(shadow.gradient(v), seed / 2)
        np.testing.assert_array_equal(shadow.gradient(values), [2, 0, 5])
        np.testing.assert_array_equal(shadow.gradient(x[1:2]), seed[1:2])


def test_stepping_forward_and_backward():
    tape, loss, x = ping_pong()
    shadow = tape.replay(stop=2)
    assert shadow.position == 2
    np.testing.assert_allclose(shadow.values(x), np.float32([0.9, 1.1]) ** 4, rtol=1e-6)
    seen = []
    shadow.forward(2, on_operation=lambda record: seen.append(record.index))
    assert seen == [2, 3, 4]
    assert shadow.values(loss).tolist() == loss.numpy().tolist()
    seen.clear()
    shadow.backward({loss: [1.0]}, stop=3, on_operation=lambda record: seen.append(record.index))
    assert seen == [4, 3]
    shadow.backward(None, start=3, stop=0)
    whole = tape.replay()
    whole.backward({loss: [1.0]})
    np.testing.assert_array_equal(shadow.gradient(x), whole.gradient(x))
    with pytest.raises(wp.TapeError) as caught:
        tape.replay(stop=1).forward(3)
    assert str(caught.value) == (
        "replay: cannot run from record 3: the shadow stands before record 1\n  = hint: start at 1, or at 0"
    )
    with pytest.raises(wp.TapeError) as caught:
        tape.replay(stop=1).backward({}, start=3)
    assert str(caught.value) == (
        "replay: cannot run backward from record 3: forward has run 1 records\n  = hint: run forward "
        "further first"
    )


def test_values_written_between_the_records_are_replayed():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 2, inputs=[x, y])
    x.assign([5.0, 6.0])
    with tape:
        wp.launch(square, 2, inputs=[x, z])
    x.assign([0.0, 0.0])
    shadow = tape.replay()
    assert shadow.values(y).tolist() == [1, 4]
    assert shadow.values(z).tolist() == [25, 36]
    assert shadow.values(x).tolist() == [5, 6]
    assert shadow.matches_live()  # x was written outside since: left out
    shadow.backward({y: [1.0, 1.0], z: [0.0, 0.0]})
    assert shadow.gradient(x).tolist() == [2, 4]
    other = tape.replay({x: [10.0, 10.0]})
    assert (other.values(y).tolist(), other.values(z).tolist()) == ([100, 100], [25, 36])


def test_a_shadow_keeps_nothing_of_the_user_current():
    tape, loss, x = ping_pong()
    shadow = Shadow(tape.tracker)
    x.fill_(3)
    loss.fill_(3)
    np.testing.assert_allclose(shadow.forward().values(loss), 0.9**16 + 1.1**16, rtol=1e-5)


def test_one_launch_without_a_tape():
    x, y = vector(1, 2, 3), wp.array([7.0, 7.0, 7.0], dtype=float, requires_grad=True)
    writes = x.buffer.writes, y.buffer.writes
    shadow = Shadow.for_launch(square, 3, [x, y], dtype=wp.float64)
    assert shadow.values(y).tolist() == [7, 7, 7]
    shadow.forward()
    assert shadow.values(y).tolist() == [1, 4, 9]
    shadow.backward({y: [1.0, 1.0, 1.0]})
    assert shadow.gradient(x).tolist() == [2, 4, 6]
    assert y.numpy().tolist() == [7, 7, 7]
    assert (x.buffer.writes, y.buffer.writes) == writes
    assert (x.buffer.watch, y.buffer.watch) == ((), ())
    frozen = Shadow.for_launch(scale, 3, [x, y, 2.0], active=frozenset({1})).forward()
    frozen.backward({y: [1.0, 1.0, 1.0]})
    assert frozen.gradient(x).tolist() == [0, 0, 0]
    plain = wp.ones(3)
    both = Shadow.for_launch(square, 3, [plain, wp.zeros(3)], active=frozenset({0, 1})).forward()
    (record,) = both.records
    both.backward({record.args[1]: [1.0, 1.0, 1.0]})
    assert both.gradient(plain).tolist() == [2, 2, 2]
    in_place = Shadow.for_launch(cube_in_place, 3, [x]).forward()
    in_place.backward({x: [1.0, 1.0, 1.0]})
    assert in_place.gradient(x).tolist() == [3, 12, 27]
    assert x.numpy().tolist() == [1, 2, 3]


def test_custom_functions_are_not_covered():
    x, y = vector(1, 2), wp.zeros(2, requires_grad=True)

    def mine():
        raise AssertionError

    with wp.Tape() as tape:
        wp.launch(move, 2, inputs=[x, y])
        tape.record_func(mine, arrays=[y])
    shadow = tape.replay()
    assert shadow.uncovered == ["record 1 is a custom function (mine), which is not replayed"]
    shadow.backward({y: [1.0, 1.0]})
    assert shadow.gradient(x).tolist() == [1, 1]


def test_mixed_views_have_no_double_twin():
    x, y = vector(1, 2), wp.zeros(2, dtype=int)
    with wp.Tape() as tape:
        wp.copy(y, x.view(int))
        wp.launch(move, 2, inputs=[x, wp.zeros(2)])
    assert tape.replay().matches_live()
    with pytest.raises(wp.TapeError) as caught:
        tape.replay(dtype=wp.float64)
    assert str(caught.value) == (
        "replay: one buffer of 8 bytes is used as float32, int32; its float64 twin has no such views\n"
        "  = hint: replay without dtype=, or use one array for each type"
    )


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda tape, x: tape.replay({wp.zeros(2): [1.0, 1.0]}),
            "replay: the array(shape=(2,), dtype=float32) is not on the tape\n"
            "  = hint: pass an array that a recorded launch uses",
        ),
        (
            lambda tape, x: tape.replay({x: [1.0]}),
            "replay: the values for the array(shape=(2,), dtype=float32) have shape (1,), not (2,)\n"
            "  = hint: pass values of shape (2,)",
        ),
        (
            lambda tape, x: tape.replay().backward({x: [1.0]}),
            "replay: the seed of the array(shape=(2,), dtype=float32) has shape (1,), not (2,)\n"
            "  = hint: pass values of shape (2,)",
        ),
        (
            lambda tape, x: tape.replay(dtype=int),
            f"replay: dtype is None or float64; got {int!r}\n  = hint: pass dtype=float64, or leave it out",
        ),
        (
            lambda tape, x: tape.replay().backward({}, consume="old"),
            "replay: consume is 'versions' or 'current'; got 'old'\n  = hint: use one of these",
        ),
    ],
)
def test_messages(action, message):
    tape, _, x = ping_pong()
    with pytest.raises(wp.TapeError) as caught:
        action(tape, x)
    assert str(caught.value) == message


def test_a_dropped_shadow_goes_away_at_once():
    tape, loss, _ = ping_pong()
    gc.collect()
    gc.disable()
    try:
        shadow = tape.replay()
        shadow.backward({loss: [1.0]})
        gone = weakref.ref(shadow)
        del shadow
        assert gone() is None
    finally:
        gc.enable()


def test_what_was_reset_after_the_tape_starts_anew_in_each_run():
    x, sum_of = wp.array([1.0, 2.0], dtype=float), wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[x, sum_of])
    sum_of.zero_()
    shadow = tape.replay()
    assert shadow.values(sum_of) == 3.0
    assert shadow.forward().values(sum_of) == 3.0


def test_records_that_are_left_out():
    x, sum_of = wp.array([1.0, 2.0], dtype=float), wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        wp.launch(total, dim=2, inputs=[x, sum_of])
        wp.launch(total, dim=2, inputs=[x, sum_of])
    assert tape.replay().values(sum_of) == 6.0
    assert tape.replay(stop=0).forward(skip={1}).values(sum_of) == 3.0


def test_inputs_by_label():
    x, y = wp.array([1.0, 2.0], dtype=float), wp.zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x], outputs=[y])
    assert tape.array_named("y") is y
    assert tape.replay(inputs={"x": [3.0, 4.0]}).values(y).tolist() == [9, 16]
    with pytest.raises(wp.TapeError) as caught:
        tape.replay(inputs={"z": [3.0, 4.0]})
    assert str(caught.value) == (
        "the tape has no array 'z'; it has x, y\n  = hint: use one of these, or the array itself"
    )


@pytest.mark.parametrize("seen_by_numpy", [False, True])
def test_shadows_of_one_launch_start_from_what_memory_holds_when_they_are_made(seen_by_numpy):
    x = vector(1, 2)
    window = x.numpy() if seen_by_numpy else None
    launch = one_launch(cube_in_place, 2, [x])
    for dtype in (None, wp.float64):
        for start in ([1, 2], [3, 4]):
            x.assign([float(value) for value in start])
            shadow = Shadow(launch, dtype).forward()
            assert shadow.values(x).tolist() == [value**3 for value in start]
            assert shadow.backward({x: [1.0, 1.0]}).gradient(x).tolist() == [3 * v * v for v in start]
            assert shadow.reset().values(x).tolist() == start
    assert x.numpy().tolist() == [3, 4]
    ledger = launch.ledgers[x.buffer]
    assert [need.copy for need in ledger.needs] == [live.copy for live in ledger.liveins] == [None]
    assert [save.copy for save in launch.records[0].inplace_saves] == [None]
    assert ledger.guarded == {}, "nothing was copied"
    del window


def test_values_that_were_set_are_never_lost_without_a_word():
    tape, loss, x = ping_pong()
    shadow = tape.replay()  # stands at the end
    shadow.set(x, [1.0, 1.0])
    with pytest.raises(wp.TapedebugError) as messages:
        shadow.forward()
    assert str(messages.value) == (
        f"replay: the values that were set for the array{x._facts()} before record 5 would be lost: "
        "forward(0) starts over\n"
        "  = hint: for an input, call reset(discard=True) before set(); else go on with forward(5)"
    )
    shadow.reset(discard=True)
    shadow.set(x, [1.0, 1.0])  # an input, which stays
    assert shadow.forward().values(loss).tolist() == [2]
    assert shadow.forward().values(loss).tolist() == [2]
    half = tape.replay(stop=2)
    half.set(x, [1.0, 1.0])
    assert half.forward(2).values(loss).tolist() == [2]
    assert half.forward().values(loss).tolist() == loss.numpy().tolist()  # they were used, and are gone


def in_place(steps: int):
    x, loss = vector(1.000001, 0.999999), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        for _ in range(steps):
            wp.launch(cube_in_place, 2, inputs=[x])
        wp.launch(total, 2, inputs=[x, loss])
    return tape, x, loss


def test_values_that_launches_overwrite_are_copied_in_the_compiled_pass_and_once():
    tape, x, loss = in_place(12)
    shadow, pulses = Shadow(tape.tracker), []
    shadow.pulse = lambda: pulses.append(shadow.position)
    shadow.forward()
    assert len(pulses) < 4, "a pass over all launches, not one a launch"
    saves = [(record, save) for record in tape.records for save in record.inplace_saves]
    assert len(saves) == 12
    kept = list(shadow.space.copies.values())
    assert all(any(shadow.space.inplace_values[save] is copy for copy in kept) for _, save in saves)
    shadow.backward({loss: [1.0]})
    once = shadow.gradient(x)
    tape.backward(loss)
    np.testing.assert_array_equal(once, x.grad.numpy())
    other = Shadow(tape.tracker)  # one launch at a time, as if every one was observed
    other.forward(on_operation=lambda record: None).backward({loss: [1.0]})
    np.testing.assert_array_equal(other.gradient(x), once)


def test_a_pass_that_goes_on_in_the_middle_keeps_what_was_copied_before():
    tape, x, loss = in_place(12)
    shadow = Shadow(tape.tracker)
    shadow.forward(stop=5, on_operation=lambda record: None).forward(start=5).backward({loss: [1.0]})
    tape.backward(loss)
    np.testing.assert_array_equal(shadow.gradient(x), x.grad.numpy())


def test_a_replay_that_only_runs_forward_copies_nothing_and_runs_in_one_piece():
    tape, _, loss = in_place(12)
    shadow, pulses = Shadow(tape.tracker), []
    shadow.forward_only = True
    shadow.pulse = lambda: pulses.append(shadow.position)
    shadow.forward()
    assert len(pulses) < 4 and not shadow.space.copies and not shadow.space.inplace_values
    np.testing.assert_array_equal(shadow.values(loss), loss.numpy())


@pytest.mark.parametrize("dtype", [None, wp.float64])
def test_memory_that_is_also_written_outside_the_tape_starts_with_zeros_without_a_copy(dtype):
    x, y, z = vector(1.0, 2.0), vector(5.0, 5.0), vector(7.0, 7.0)
    with wp.Tape() as tape:
        wp.launch(square, 2, inputs=[x, y])
        y.numpy()[:] = [3.0, 4.0]  # before the next launch reads it
        wp.launch(square, 2, inputs=[y, z])
    z.assign([0.0, 1.0])  # after the tape
    shadow = Shadow(tape.tracker, dtype)
    buffers = [shadow._buffers[a.buffer] for a in (y, z)]
    assert all(buffer._starts_zero and buffer._initial is None for buffer in buffers)
    for _ in range(3):
        assert shadow.values(y).tolist() == shadow.values(z).tolist() == [0.0, 0.0]
        shadow.forward(0, 1)
        assert shadow.values(y).tolist() == [1.0, 4.0]
        shadow.forward(1)
        assert shadow.values(y).tolist() == [3.0, 4.0]
        assert shadow.values(z).tolist() == [9.0, 16.0]
        shadow.reset()


@pytest.mark.parametrize("dtype", [None, wp.float64])
def test_a_weighted_sum_is_that_of_the_present_values(dtype):
    tape, x, _ = in_place(3)
    shadow = tape.replay(dtype=dtype)
    weights = np.random.default_rng(0).normal(size=x.size)
    assert shadow.weighted_sum(x, weights) == weights @ shadow.values(x).astype(np.float64)
    half = x[0:1]
    assert shadow.weighted_sum(half, weights[:1]) == weights[0] * shadow.values(x)[0]
    with pytest.raises(wp.TapeError, match="is not on the tape"):
        shadow.weighted_sum(wp.zeros(2), weights)


def test_long_arrays_are_compared_without_copies() -> None:
    one = np.ones(1 << 20)
    one[-1] = np.nan
    other = one.copy()
    tracemalloc.start()
    try:
        assert are_equal(one, other)
        assert not are_equal(one, other, equal_nan=False)
        other[-2] = 2.0
        assert not are_equal(one, other)
        assert tracemalloc.get_traced_memory()[1] < one.nbytes / 4
    finally:
        tracemalloc.stop()
