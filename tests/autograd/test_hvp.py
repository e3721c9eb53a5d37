"""`hvp`: second derivatives of tapes, kernels and functions against differences of gradients."""

import importlib.util
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import hvp, hvp_check
from tests.autograd import kernels as k
from tests.autograd.test_jvp import MODES, ping_pong
from tests.autograd.test_random_tapes import record
from tests.processes import ROOT
from tests.runtime.test_shared_memory import CASES, SEEDS, multiplied


def differences(tape: wp.Tape, loss: Any, x: Any, v: Any, h: float = 1e-5) -> np.ndarray:
    """(∇L(x + h v) - ∇L(x - h v)) / 2h by x."""
    start = tape.replay(dtype=wp.float64, stop=0).values(x)
    sides = [
        tape.replay({x: start + s * h * np.asarray(v)}, dtype=wp.float64)
        .backward({loss: np.ones(1)})
        .gradient(x)
        for s in (1, -1)
    ]
    return (sides[0] - sides[1]) / (2 * h)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore::tapedebug.OverwriteWarning")
def test_a_ping_pong_tape(mode: str) -> None:
    """x^32, of values that were overwritten four times."""
    tape, x, loss = ping_pong(mode)
    before = x.numpy().copy()
    found = hvp(tape, loss=loss, tangents={x: [1.0, -0.5]}, dtype=wp.float64)
    a = before.astype(float)
    # ping_pong says what `x` holds at the end; the tape begins with 0.9 and 1.1.
    start = tape.replay(dtype=wp.float64, stop=0).values(x)
    np.testing.assert_allclose(found.gradient[x], 32 * start**31, rtol=1e-12)
    np.testing.assert_allclose(found.product[x], 32 * 31 * start**30 * [1.0, -0.5], rtol=1e-12)
    single = hvp(tape, loss=loss, tangents={x: wp.array([1.0, -0.5], dtype=float)})
    assert single.product[x].dtype == np.float32
    np.testing.assert_allclose(single.product[x], found.product[x], rtol=1e-5)
    np.testing.assert_array_equal(x.numpy(), a)
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("seed", range(12))
def test_random_tapes(seed: int) -> None:
    tape, loss, arrays = record(seed, "preserve")
    used = [a for a in arrays if a.buffer in tape.tracker.ledgers]
    for x in used:
        v = np.random.default_rng(seed).normal(size=6)
        try:
            found = hvp(tape, loss=loss, tangents={x: v}, dtype=wp.float64)
        except wp.GradcheckError as error:
            assert "it is no input" in str(error)
            continue
        np.testing.assert_allclose(found.product[x], differences(tape, loss, x, v), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("buffers", ["pingpong", "distinct"])
def test_of_the_net(buffers: str) -> None:
    """Forty steps of springs: the Hessian by the throw is symmetric, and the derivative of the gradient."""
    spec = importlib.util.spec_from_file_location("net", ROOT / "notebooks" / "net.py")
    assert spec is not None and spec.loader is not None
    net = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(net)
    throw = wp.array([(0.25, 1.5, 3.0)], dtype=wp.vec3, requires_grad=True)
    tape, loss = net.record(net.make_net(), throw, buffers)
    rows = [
        hvp(tape, loss=loss, tangents={throw: [row]}, dtype=wp.float64).product[throw][0] for row in np.eye(3)
    ]
    np.testing.assert_allclose(rows, np.transpose(rows), rtol=1e-9)
    expected = [differences(tape, loss, throw, [row], 1e-4)[0] for row in np.eye(3)]
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    assert hvp_check(tape, loss=loss)


@wp.kernel
def bowl(x: wp.array(dtype=float), q: wp.array(dtype=wp.quat), y: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.quat_rotate(wp.normalize(q[i]), wp.vec3(x[i], x[i] * x[i], 1.0))
    total = float(0.0)
    for j in range(i + 1):
        total += wp.sin(v.x * float(j)) * total + v.y
    y[i] = total


def bowl_arguments() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(4)
    x = wp.array(rng.uniform(0.3, 1.5, 4), dtype=float, requires_grad=True)
    q = wp.array(rng.normal(size=(4, 4)), dtype=wp.quat, requires_grad=True)
    return x, q, wp.zeros(4, dtype=float, requires_grad=True)


def test_a_kernel() -> None:
    x, q, y = bowl_arguments()
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    found = hvp(bowl, 4, [x, q], [y], loss={y: weights}, tangents={x: np.ones(4)}, dtype=wp.float64)
    assert set(found.gradient) == set(found.product) == {x, q}
    with wp.Tape() as tape:
        wp.launch(bowl, 4, [x, q, y])
    tape.backward(grads={y: weights})
    np.testing.assert_allclose(found.gradient[q], q.grad.numpy(), rtol=1e-4, atol=1e-5)
    other = hvp(tape, loss={y: weights}, inputs=[q], tangents={x: np.ones(4)}, dtype=wp.float64)
    np.testing.assert_array_equal(other.product[q], found.product[q])
    assert hvp_check(bowl, 4, [x, q], [y], loss={y: weights})


def test_a_function() -> None:
    x = k.vector([2.0, 3.0])

    def function(x: Any) -> Any:
        y, loss = wp.zeros_like(x), wp.zeros(1, dtype=float, requires_grad=True)
        wp.launch(k.cube, 2, [x, y])
        wp.launch(k.total, 2, [y, loss])
        return loss

    gradient, product = hvp(function, inputs=[x], tangents={x: [1.0, 10.0]})
    assert gradient[x].tolist() == [12.0, 27.0]
    assert product[x].tolist() == [12.0, 180.0]
    check = hvp_check(function, inputs=[x])
    assert check and check.verdict == "AGREE"
    assert check.forward == pytest.approx(check.reverse, rel=1e-12)
    assert str(check).startswith("second derivatives AGREE: ⟨u, H v⟩ = ")


def test_copies_fills_and_writes_outside() -> None:
    x, y, z, loss = k.vector([2.0, 3.0]), k.vector([0.0, 0.0]), k.vector([0.0, 0.0]), k.vector([0.0])
    with wp.Tape() as tape:
        wp.copy(y, x)
        wp.launch(k.cube, 2, [y, z])
        y.zero_()
        wp.launch(k.square, 2, [z, y])
        wp.launch(k.total, 2, [y, loss])
    found = hvp(tape, loss=loss, tangents={x: [1.0, 1.0]})
    np.testing.assert_allclose(found.product[x], [30 * 2.0**4, 30 * 3.0**4])


@pytest.mark.parametrize(("kernel", "views", "_"), CASES, ids=lambda v: getattr(v, "key", ""))
def test_parameters_that_share_memory(kernel: Any, views: Any, _: Any) -> None:
    x, y = k.vector([1.0, 2.0, 0.5, 1.5]), k.vector([0.0, 0.0, 0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(kernel, 3, views(x))
        wp.launch(multiplied, 4, [x, y])
        wp.launch(kernel, 3, views(x))
    assert hvp_check(tape, inputs=[x], loss={x: SEEDS, y: SEEDS})


# Where it cannot be had ------------------------------------------------------------------------------------


@wp.kernel
def corner(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i]) * x[i]


def test_a_kink_of_the_gradient() -> None:
    """x |x| has the gradient 2 |x|, which has no derivative at 0."""
    x, y = k.vector([0.0]), k.vector([0.0])
    assert hvp(corner, 1, [x], [y], loss=y, tangents={x: [1.0]}).product[x].tolist() == [0.0]
    found = hvp_check(corner, 1, [x], [y], loss=y)
    assert not found
    assert found.verdict == "KINK"


def message(call: Any) -> str:
    with pytest.raises(wp.GradcheckError) as info:
        call()
    return str(info.value)


@wp.kernel(enable_backward=False)
def without(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


def test_misuse() -> None:
    x, y, plain, two = k.vector([1.0]), k.vector([0.0]), k.vector([1.0], grad=False), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(k.square, 1, [x, y])
    v = {x: [1.0]}
    assert message(lambda: hvp(tape, loss=y)) == (
        "hvp: no tangents were given\n  = hint: pass tangents={array: values}"
    )
    assert message(lambda: hvp(tape, tangents=v)) == (
        "hvp: no loss was given\n  = hint: pass loss=array, as to Tape.backward"
    )
    assert message(lambda: hvp(tape, loss=3.0, tangents=v)) == (
        "hvp: the loss is an array of one element, or arrays with weights; got 3.0\n"
        "  = hint: pass loss=array, or loss={array: weights}"
    )
    assert message(lambda: hvp(tape, loss=two, tangents=v)) == (
        "hvp: the loss has 2 elements\n  = hint: pass loss={array: weights} for a weighted sum"
    )
    assert message(lambda: hvp(tape, loss=plain, tangents=v)) == (
        "hvp: the loss has requires_grad=False\n  = hint: create it with requires_grad=True"
    )
    assert message(lambda: hvp(k.square, 1, [plain, y], loss=y, tangents={plain: [1.0]})) == (
        "hvp: the array of float32 has requires_grad=False\n  = hint: pass inputs with requires_grad=True"
    )
    assert message(lambda: hvp(tape, loss=y, tangents={y: [1.0]})) == (
        "hvp: y is written by launch 0 before anything reads it: it is no input\n"
        "  = hint: pass inputs with requires_grad=True"
    )
    assert message(lambda: hvp(without, 1, [x], [y], loss=y, tangents=v)) == (
        "hvp: launch 0 (without) has no adjoint: enable_backward=False: its second derivative is unknown\n"
        "  = hint: compute in kernels with an adjoint what depends on the inputs"
    )
    assert message(lambda: hvp(k.square, None, [x], [y], loss=y, tangents=v)) == (
        "kernel square needs dim, its number of threads\n  = hint: pass dim=len(array), or its shape"
    )
    assert message(lambda: hvp("net", loss=y, tangents=v)) == (
        "hvp: a tape, a kernel or a function that launches kernels is needed; got 'net' (str)"
    )
    assert message(lambda: hvp_check(k.square, 1, [plain], [y], loss=y)) == (
        "hvp_check: there is nothing to differentiate by\n  = hint: pass inputs with requires_grad=True"
    )
