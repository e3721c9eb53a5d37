"""Forward mode in shadows: records with their tangents, in private memory."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.kernel import Kernel
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.replay.shadow import Shadow
from tests.runtime.kernels import cube_in_place, drift, gather, move, scale, square, total
from tests.runtime.test_replay import ping_pong, vector


def differences(tape, x, direction, y, h=1e-6):
    """The derivative of `y` along a direction in `x`, by central differences of the float64 twin."""
    start = tape.replay(dtype=wp.float64, stop=0).values(x)
    plus, minus = (
        tape.replay({x: start + s * h * np.asarray(direction)}, dtype=wp.float64).values(y) for s in (1, -1)
    )
    return (plus - minus) / (2 * h)


@pytest.mark.parametrize("mode", ["preserve", "ignore", "warn"])
@pytest.mark.filterwarnings("ignore::tapedebug.OverwriteWarning")
def test_overwrites_do_no_harm(mode):
    tape, loss, x = ping_pong(mode)
    direction = [1.0, -0.5]
    wide = tape.replay(dtype=wp.float64, stop=0).push({x: direction})
    np.testing.assert_allclose(wide.tangent(loss), differences(tape, x, direction, loss), rtol=1e-7)
    single = tape.replay(stop=0).push({x: direction})
    assert single.tangent(loss).dtype == np.float32
    np.testing.assert_allclose(single.tangent(loss), wide.tangent(loss), rtol=1e-5)
    assert single.matches_live(), "values are those of the program, bit for bit"


def test_the_inner_product_is_the_same_before_every_record():
    tape, loss, x = ping_pong()
    back = tape.replay(dtype=wp.float64)
    products = []
    for cut in range(len(tape.records) + 1):
        there = tape.replay(dtype=wp.float64, stop=0).push({x: [1.0, -0.5]}, stop=cut)
        products.append(there.inner(back.backward({loss: [2.0]}, stop=cut))[0])
    np.testing.assert_allclose(products, products[0], rtol=1e-14)
    lost = tape.replay(dtype=wp.float64).backward({loss: [2.0]}, consume="current")
    there = tape.replay(dtype=wp.float64, stop=0).push({x: [1.0, -0.5]}, stop=0)
    assert abs(there.inner(lost)[0] / products[0] - 1) > 0.1


def test_copies_fills_and_in_place_launches():
    x, y, z = vector(1, 2), wp.zeros(3, requires_grad=True), vector(7, 7)
    with wp.Tape() as tape:
        wp.launch(cube_in_place, 2, inputs=[x])
        wp.copy(y, x, dest_offset=1, count=2)
        wp.copy(y, y[1:3], dest_offset=0, count=2)
        wp.launch(move, 2, inputs=[x, z])
        z[0:1].fill_(5.0)
    for dtype in (None, wp.float64):
        shadow = tape.replay(dtype=dtype, stop=0).push({x: [1.0, 10.0]})
        assert shadow.tangent(x).tolist() == [3, 120]
        assert shadow.tangent(y).tolist() == [3, 120, 120]
        assert shadow.tangent(z).tolist() == [0, 120], "a fill is constant"


def test_vectors_views_and_indices():
    n = 5
    rng = np.random.default_rng(0)
    x = wp.array(rng.normal(size=(n, 3)), dtype=wp.vec3, requires_grad=True)
    v, out = wp.zeros_like(x), wp.zeros((2, n), dtype=wp.vec3, requires_grad=True)
    values, index, picked = wp.ones(3, requires_grad=True), wp.array([2, 0, 2], dtype=int), wp.zeros(3)
    with wp.Tape() as tape:
        wp.launch(drift, n, inputs=[x, v, (0, 0, -1), 0.5], outputs=[out[1]])
        wp.launch(gather, 3, inputs=[values, index, picked])
    direction = rng.normal(size=(n, 3))
    shadow = tape.replay(dtype=wp.float64, stop=0).push({x: direction, values: [1.0, 2.0, 3.0]})
    np.testing.assert_allclose(shadow.tangent(out[1]), differences(tape, x, direction, out[1]), atol=1e-8)
    assert not shadow.tangent(out[0]).any()
    assert shadow.tangent(picked).tolist() == [3, 1, 3], "tangents need no requires_grad"


def test_strided_arrays():
    x, y = wp.array(np.arange(6.0), dtype=float), wp.zeros(3)
    with wp.Tape() as tape:
        wp.launch(square, 3, inputs=[x[::2], y])
    for dtype in (None, wp.float64):
        shadow = tape.replay(dtype=dtype, stop=0).push({x: np.arange(1.0, 7.0)})
        assert shadow.tangent(y).tolist() == [0, 12, 40]


def test_what_was_written_outside_of_the_tape_is_constant():
    x, y, z = vector(1, 2), wp.zeros(2, requires_grad=True), wp.zeros(2, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(square, 2, inputs=[x, y])
    x[0:1].assign([5.0])
    with tape:
        wp.launch(square, 2, inputs=[x, z])
    shadow = tape.replay(stop=0).push({x: [1.0, 1.0]})
    assert (shadow.tangent(y).tolist(), shadow.tangent(z).tolist()) == ([2, 4], [0, 4])


def test_a_tangent_that_goes_into_a_custom_function_is_said_to_be_lost():
    x, y, c = vector(1, 2), wp.zeros(2, requires_grad=True), vector(1, 1)

    def mine():
        raise AssertionError

    with wp.Tape() as tape:
        wp.launch(move, 2, inputs=[x, y])
        tape.record_func(mine, arrays=[y, c])
    shadow = tape.replay(stop=0)
    assert shadow.push({x: [1.0, 0.0]}).lost == ["record 1 is a custom function (mine)"]
    assert shadow.push({x: [0.0, 0.0]}).lost == []


def test_again_and_step_by_step():
    tape, loss, x = ping_pong()
    shadow = tape.replay(dtype=wp.float64, stop=0)
    once = shadow.push({x: [1.0, 0.0]}).tangent(loss)
    np.testing.assert_array_equal(shadow.push({x: [2.0, 0.0]}).tangent(loss), 2 * once)
    seen = []
    shadow.push({x: [1.0, 0.0]}, stop=2)
    shadow.push(None, 2, on_operation=lambda record: seen.append(record.index))
    np.testing.assert_array_equal(shadow.tangent(loss), once)
    assert seen == [2, 3, 4]
    shadow.backward({loss: [1.0]})
    np.testing.assert_allclose(shadow.gradient(x)[0], once[0], rtol=1e-14)
    assert not tape.replay().tangent(loss).any(), "nothing was pushed"


def test_one_launch_and_a_kernel_without_an_adjoint():
    forward_only = Kernel(scale.python, options={"enable_backward": False})
    x, y = vector(1, 2), wp.zeros(2)
    shadow = Shadow.for_launch(forward_only, 2, [x, y, 3.0]).push({x: [1.0, 2.0]})
    assert shadow.tangent(y).tolist() == [3, 6]
    assert (x.numpy().tolist(), y.numpy().tolist()) == ([1, 2], [0, 0])


def test_detached_tangents_stop_where_gradients_do():
    x, held, y, z = vector(1, 2), vector(0, 0, grad=False), vector(0, 0), vector(0, 0)
    with wp.Tape() as tape:
        wp.copy(held, x)
        wp.launch(square, 2, inputs=[x, y])
        wp.copy(z, held)
        wp.launch(square, 2, inputs=[held, held])
    shadow = tape.replay(stop=0).push({x: [1.0, 1.0], z: [7.0, 7.0]}, detached=True)
    assert [shadow.tangent(a).tolist() for a in (held, y, z)] == [[0, 0], [2, 4], [0, 0]]
    shadow.push({x: [1.0, 1.0]})
    assert [shadow.tangent(a).tolist() for a in (held, y, z)] == [[2, 4], [2, 4], [1, 1]]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda shadow, x: shadow.push({x: [1.0]}),
            "replay: the tangent of the array(shape=(2,), dtype=float32) has shape (1,), not (2,)\n"
            "  = hint: pass values of shape (2,)",
        ),
        (
            lambda shadow, x: shadow.push({wp.zeros(2): [1.0, 1.0]}),
            "replay: the array(shape=(2,), dtype=float32) is not on the tape\n"
            "  = hint: pass an array that a recorded launch uses",
        ),
        (
            lambda shadow, x: shadow.push(None, 3),
            "replay: cannot run from record 3: the shadow stands before record 0\n"
            "  = hint: start at 0, or at 0",
        ),
    ],
)
def test_messages(action, message):
    tape, _, x = ping_pong()
    with pytest.raises(wp.TapeError) as caught:
        action(tape.replay(stop=0), x)
    assert str(caught.value) == message


def test_integers_have_no_tangent():
    values, index, picked = vector(1, 2), wp.array([1, 0], dtype=int), wp.zeros(2)
    shadow = Shadow.for_launch(gather, 2, [values, index, picked])
    with pytest.raises(wp.TapeError) as caught:
        shadow.push({index: [1, 1]})
    assert str(caught.value) == (
        "replay: the array(shape=(2,), dtype=int32) has no tangent\n  = hint: pass tangents of float arrays"
    )


def test_sums_over_threads():
    x, loss = vector(1, 2), wp.zeros(1, requires_grad=True)
    shadow = Shadow.for_launch(total, 2, [x, loss]).push({x: [1.0, 2.0], loss: [10.0]})
    assert shadow.tangent(loss).tolist() == [13]


def test_only_tangents_of_an_earlier_push_are_cleared(monkeypatch):
    x, y, z = (wp.array([1.0, 2.0], dtype=float, requires_grad=True) for _ in range(3))
    with wp.Tape() as tape:
        wp.launch(scale, 2, inputs=[x, y, 3.0])
        wp.launch(scale, 2, inputs=[y, z, 2.0])
    cleared = []
    clear = parallel_memcpy.clear
    monkeypatch.setattr(parallel_memcpy, "clear", lambda memory: (cleared.append(memory.size), clear(memory)))
    shadow = Shadow(tape.tracker, wp.float64)
    assert shadow.push({x: [1.0, 1.0]}).tangent(z).tolist() == [6.0, 6.0]
    assert not cleared
    assert shadow.push({y: [1.0, 1.0]}).tangent(z).tolist() == [0.0, 0.0]  # it is overwritten
    assert shadow.tangent(x).tolist() == [0.0, 0.0]
    assert cleared
    other = Shadow(tape.tracker, wp.float64)
    other.push(None).push({x: [1.0, 1.0]})
    assert other.tangent(z).tolist() == [6.0, 6.0]
