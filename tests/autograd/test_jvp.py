"""`jvp`: tangents of tapes, kernels and functions against differences of the float64 twin."""

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import jacobian, jvp
from tests.autograd import kernels as k
from tests.autograd.test_random_tapes import record

MODES = ("preserve", "ignore", "warn")


def ping_pong(mode: str, steps: int = 5) -> tuple[wp.Tape, Any, Any]:
    x, y, loss = k.vector([0.9, 1.1]), k.vector([0.0, 0.0]), k.vector([0.0])
    start = x
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        for _ in range(steps):
            wp.launch(k.square, 2, [x, y])
            x, y = y, x
        wp.launch(k.total, 2, [x, loss])
    return tape, start, loss


def differences(tape: wp.Tape, x: Any, v: Any, y: Any, h: float = 1e-6) -> np.ndarray:
    start = tape.replay(dtype=wp.float64, stop=0).values(x)
    plus, minus = (
        tape.replay({x: start + s * h * np.asarray(v)}, dtype=wp.float64).values(y) for s in (1, -1)
    )
    return (plus - minus) / (2 * h)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::tapedebug.OverwriteWarning")
def test_a_ping_pong_tape(mode: str) -> None:
    tape, x, loss = ping_pong(mode)
    before = x.numpy().copy()
    v = [1.0, -0.5]
    found = jvp(tape, tangents={x: v}, dtype=wp.float64)
    assert list(found) == [loss], "the other array is read again"
    np.testing.assert_allclose(found[loss], differences(tape, x, v, loss), rtol=1e-7)
    single = jvp(tape, tangents={x: wp.array(v, dtype=float)}, outputs=loss)[loss]
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found[loss], rtol=1e-5)
    np.testing.assert_array_equal(x.numpy(), before)
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("mode", ["preserve", "ignore"])
@pytest.mark.parametrize("seed", range(12))
def test_random_tapes(seed: int, mode: str) -> None:
    tape, loss, arrays = record(seed, mode)
    used = [a for a in arrays if a.buffer in tape.tracker.ledgers]
    for x in used:
        v = np.random.default_rng(seed).normal(size=6)
        shadow = tape.replay(dtype=wp.float64, stop=0).push({x: v})
        for y in (*used, loss):
            np.testing.assert_allclose(shadow.tangent(y), differences(tape, x, v, y), rtol=1e-6, atol=1e-8)


def test_a_kernel_is_its_jacobian_times_the_tangent() -> None:
    rng = np.random.default_rng(0)
    a = wp.array(rng.uniform(0.5, 1.5, 4), dtype=float, requires_grad=True)
    b = wp.array(rng.normal(size=(4, 3)), dtype=wp.vec3, requires_grad=True)
    out1, out2 = (wp.zeros(4, dtype=t, requires_grad=True) for t in (wp.vec2, wp.vec3))
    va, vb = rng.normal(size=4), rng.normal(size=(4, 3))
    found = jvp(k.documented, 4, [a, b], [out1, out2], tangents={a: va, b: vb})
    rows = jacobian(k.documented, 4, [a, b], [out1, out2])
    for index, out in enumerate((out1, out2)):
        by_a, by_b = (rows[i, index].numpy().reshape(out.size * found[out].shape[1], -1) for i in (0, 1))
        np.testing.assert_allclose(found[out].ravel(), by_a @ va + by_b @ vb.ravel(), rtol=1e-4, atol=1e-5)
    assert not out1.numpy().any()


def test_inputs_that_a_kernel_writes_are_among_the_results() -> None:
    x, y = k.vector([2.0, 3.0]), k.vector([5.0, 7.0])
    found = jvp(k.times, 2, [x, y], tangents={x: [1.0, 0.0], y: [0.0, 10.0]})
    assert {a: v.tolist() for a, v in found.items()} == {y: [5.0, 30.0]}


def test_a_function_gives_the_arrays_that_it_returned() -> None:
    x = k.vector([2.0, 3.0])

    def function(x: Any) -> Any:
        y, z = wp.zeros_like(x), wp.zeros_like(x)
        wp.launch(k.square, 2, [x, y])
        wp.launch(k.cube, 2, [y, z])
        return [z, y]

    z, y = jvp(function, inputs=[x], tangents={x: [1.0, -1.0]}).values()
    assert (z.tolist(), y.tolist()) == ([6 * 2.0**5, -6 * 3.0**5], [4.0, -6.0])


def test_a_severed_chain_is_not_severed_forward() -> None:
    x, y, loss = k.vector([1.0, 2.0]), k.vector([0.0, 0.0], grad=False), k.vector([0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x], [y])
        wp.launch(k.total, 2, [y, loss])
    assert jvp(tape, tangents={x: [1.0, 1.0]})[loss].tolist() == [6.0]


def into_a_custom_function() -> None:
    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])

    def mine() -> None:
        raise AssertionError

    with wp.Tape() as tape:
        wp.launch(k.square, 2, [x], [y])
        tape.record_func(mine, arrays=[y])
    jvp(tape, tangents={x: [1.0, 1.0]})


def of_what_is_overwritten() -> None:
    tape, _, _ = ping_pong("preserve")
    jvp(tape, tangents={tape.records[0].args[1]: [1.0, 1.0]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: jvp(ping_pong("preserve")[0]), "jvp: no tangents were given"),
        (
            lambda: jvp(ping_pong("preserve")[0], tangents={"x": 1.0}),
            "jvp: the keys of tangents are float arrays; got 'x'",
        ),
        (
            lambda: jvp(ping_pong("preserve")[0], tangents={wp.zeros(2, dtype=int): [1, 1]}),
            "jvp: the keys of tangents are float arrays; got an array of int32",
        ),
        (
            lambda: jvp(ping_pong("preserve")[0], tangents={k.vector([1.0, 2.0]): [1.0, 1.0]}),
            "replay: the array(shape=(2,), dtype=float32) is not on the tape",
        ),
        (
            lambda: jvp(ping_pong("preserve")[0], outputs=[3], tangents={k.vector([1.0]): [1.0]}),
            "jvp: the outputs of a tape are float arrays; got 3",
        ),
        (
            lambda: jvp(k.square, 1, [k.vector([1.0])] * 2, tangents={k.vector([1.0]): [1.0]}, dtype=int),
            f"replay: dtype is None or float64; got {int!r}",
        ),
        (
            into_a_custom_function,
            "jvp: a tangent went into a function that has none: record 1 is a custom function (mine); "
            "what comes out is unknown",
        ),
        (
            of_what_is_overwritten,
            "jvp: y is written by launch 0 before anything reads it: it is no input",
        ),
        (
            lambda: jvp(k.square, inputs=[k.vector([1.0])], tangents={k.vector([1.0]): [1.0]}),
            "kernel square needs dim, its number of threads",
        ),
        (
            lambda: jvp(3, tangents={k.vector([1.0]): [1.0]}),
            "jvp: a tape, a kernel or a function that launches kernels is needed; got 3 (int)",
        ),
    ],
)
def test_messages(call: Any, message: str) -> None:
    with pytest.raises((wp.GradcheckError, wp.TapeError)) as caught:
        call()
    assert caught.value.message == message
