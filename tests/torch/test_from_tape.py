"""`torch.from_tape`: launches as a function of `torch.autograd`, checked by PyTorch itself."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest

import tapedebug as wp

torch = pytest.importorskip("torch")


@wp.kernel
def turned(
    points: wp.array(dtype=wp.vec2d),
    angle: wp.array(dtype=wp.float64),
    out: wp.array(dtype=wp.vec2d),
    energy: wp.array(dtype=wp.float64),
):
    i = wp.tid()
    p, c, s = points[i], wp.cos(angle[0]), wp.sin(angle[0])
    out[i] = wp.vec2d(c * p[0] - s * p[1], s * p[0] + c * p[1] * p[1])
    energy[i] = wp.dot(p, p) * angle[0]


@wp.kernel
def cube(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def halve(x: wp.array(dtype=wp.float64)):
    i = wp.tid()
    x[i] = x[i] * wp.float64(0.5)


@pytest.fixture(scope="module")
def turn():
    @wp.torch.from_tape
    def turn(points: wp.array(dtype=wp.vec2d), angle: wp.array(dtype=wp.float64)):
        """Turn points, in a way of its own."""
        out = wp.zeros(points.shape, dtype=wp.vec2d, requires_grad=True)
        energy = wp.zeros(points.shape, dtype=wp.float64, requires_grad=True)
        wp.launch(turned, points.shape, inputs=[points, angle], outputs=[out, energy])
        return out, energy

    return turn


SCRATCH = {}


@pytest.fixture(scope="module")
def cubes():
    """x³ by way of arrays that all calls share, and with an input that is overwritten."""

    @wp.torch.from_tape(name="cubes")
    def cubes(x):
        y = SCRATCH.setdefault(x.shape, wp.zeros(x.shape, dtype=wp.float64, requires_grad=True))
        wp.launch(cube, x.shape, inputs=[x, y])
        wp.launch(halve, x.shape, inputs=[x])
        return y

    return cubes


def doubles(values, requires_grad=True):
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


POINTS = [[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]]


def test_gradcheck_of_torch_passes(turn, cubes):
    points, angle = doubles(POINTS), doubles([0.3])
    check = torch.autograd.gradcheck
    assert check(turn, (points, angle))
    assert check(lambda p: turn(p, doubles([0.3], False))[1], (points,))
    assert check(lambda a: turn(doubles(POINTS, False), angle=a), (doubles(0.3),)), "no dimensions"
    assert check(lambda p, a: turn(p.t().contiguous().t(), a.expand(1)), (points, angle)), "strided"
    assert check(cubes, (doubles([1.0, -2.0, 3.0]),))
    assert check(lambda v: cubes(v[::2]) * cubes(v[:2]), (doubles([1.0, -2.0, 3.0]),))
    assert check(lambda v: cubes(v.expand(4)), (doubles([2.0]),))
    assert check(lambda v: cubes(torch.sin(cubes(v)) + v), (doubles([0.5, -0.25, 0.75]),))


def test_backward_runs_again_and_earlier_results_stay(cubes):
    v = doubles([1.0, 2.0, 3.0])
    y = cubes(v)
    kept = y.detach().clone()
    first, second = (torch.autograd.grad(y.sum(), v, retain_graph=True)[0] for _ in range(2))
    other = cubes(doubles([5.0, 6.0, 7.0]))
    other.sum().backward()
    third = torch.autograd.grad(y.sum(), v)[0]
    assert first.tolist() == second.tolist() == third.tolist() == [3.0, 12.0, 27.0]
    assert torch.equal(y.detach(), kept), "calls share the array that the function returns"
    jacobian = torch.autograd.functional.jacobian(cubes, v)
    assert jacobian.tolist() == [[3.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 27.0]]


def test_gradients_accumulate_and_the_seed_is_left_alone(cubes):
    v, seed = doubles([1.0, 2.0, 3.0]), doubles([1.0, 10.0, 100.0], False)
    for _ in range(2):
        cubes(v).backward(seed)
    assert v.grad.tolist() == [6.0, 240.0, 5400.0]
    assert seed.tolist() == [1.0, 10.0, 100.0]


def test_inputs_and_results_may_change_in_place(cubes):
    w = (doubles([1.0, -2.0, 3.0], False) * 1.0).requires_grad_()
    y = cubes(w)
    with torch.no_grad():
        w.mul_(10.0)
    y.relu_()
    assert torch.autograd.grad(y.sum(), w)[0].tolist() == [3.0, 0.0, 27.0]
    assert w.tolist() == [10.0, -20.0, 30.0]


@pytest.mark.parametrize("constant", [0, 1])
def test_an_input_without_gradient(turn, constant):
    given = [doubles(POINTS, constant != 0), doubles([0.3], constant != 1)]
    assert torch.autograd.gradcheck(turn, given)
    sum(y.sum() for y in turn(*given)).backward()
    assert [x.grad is None for x in given] == [constant == 0, constant == 1]


def test_one_of_several_results_is_used(turn):
    points, angle = doubles(POINTS), doubles([0.3])
    turn(points, angle)[1].sum().backward()
    np.testing.assert_allclose(points.grad.numpy(), 0.6 * np.array(POINTS))


def test_without_gradient_it_only_computes(cubes):
    assert cubes(doubles([1.0, 2.0], False)).tolist() == [1.0, 8.0]
    with torch.no_grad():
        assert not cubes(doubles([1.0, 2.0])).requires_grad
    assert repr(cubes) == "<tapedebug.torch.from_tape of cubes>"


def test_a_second_derivative_is_refused(turn, cubes):
    v, points, angle = doubles([1.0, 2.0]), doubles(POINTS), doubles([0.3])
    for loss, wanted in (
        (cubes(v).sum(), v),
        ((cubes(v) * v).sum(), v),
        (turn(points, angle)[1].sum(), angle),
    ):
        (gradient,) = torch.autograd.grad(loss, wanted, create_graph=True)
        with pytest.raises(NotImplementedError, match="has no second derivative"):
            torch.autograd.grad(gradient.sum(), wanted)


def test_functions_of_torch_func(turn, cubes):
    points, angle = doubles(POINTS, False), doubles([0.3], False)

    def energy(p, a):
        return turn(p, a)[1].sum()

    np.testing.assert_allclose(torch.func.grad(energy)(points, angle).numpy(), 0.6 * np.array(POINTS))
    assert torch.func.jacrev(cubes)(doubles([1.0, 2.0], False)).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    angles = doubles([[0.1], [0.2], [0.4]], False)
    rows = torch.func.vmap(turn, in_dims=(None, 0))(points, angles)[1]
    assert rows.shape == (3, 3)
    each = torch.func.vmap(torch.func.grad(energy), in_dims=(None, 0))(points, angles)
    for row, a in zip(each, angles, strict=True):
        np.testing.assert_allclose(row.numpy(), 2 * a.item() * np.array(POINTS))


def test_torch_compile_leaves_it_out(turn):
    points, angle = doubles(POINTS), doubles([0.3])

    def loss(p, a):
        out, energy = turn(torch.sin(p) * 2, a)
        return (out.sum() + energy.sum()) ** 2

    wanted = torch.autograd.grad(loss(points, angle), [points, angle])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module="torch")
        compiled = torch.compile(loss, backend="aot_eager")
        for _ in range(2):
            found = torch.autograd.grad(compiled(points, angle), [points, angle])
            assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


def returns_constant(x):
    return wp.zeros(x.shape, dtype=wp.float64)


def returns_other(x):
    return wp.ones(x.shape, dtype=wp.float64, requires_grad=True)


REFUSED = [
    (lambda x: x, "the array that it returned was written by no launch", "return an argument as a copy"),
    (returns_other, "the array that it returned was written by no launch", "compute it in a kernel"),
    (
        returns_constant,
        "the array that it returned has no requires_grad",
        "create it with requires_grad=True",
    ),
    (lambda x: None, "it returned NoneType", "return an array, or a tuple of arrays"),
    (lambda x: (x, 3), "it returned array, int", "return an array, or a tuple of arrays"),
]


@pytest.mark.parametrize(("function", "message", "hint"), REFUSED, ids=[r[1] for r in REFUSED])
def test_functions_whose_gradient_would_be_lost_are_refused(function, message, hint):
    with pytest.raises(wp.LaunchError) as caught:
        wp.torch.from_tape(function, name="it")(doubles([1.0, 2.0]))
    assert str(caught.value).startswith(f"torch.from_tape of it: {message}")
    assert hint in str(caught.value)


def test_tensors_that_kernels_cannot_use(cubes):
    with pytest.raises(wp.LaunchError) as caught:
        cubes(torch.zeros(3, device="meta"))
    head, place, line, carets, hint = str(caught.value).splitlines()
    assert head == "torch.from_tape of cubes: x is on meta, and kernels run on the CPU"
    assert place.startswith(f"  --> {__file__}:")
    call = 'cubes(torch.zeros(3, device="meta"))'
    assert (line, carets) == (f"   |         {call}", f"   |         {'^' * len(call)}")
    assert hint == "  = hint: pass x.cpu()"
    with pytest.raises(wp.LaunchError, match=r"x is a tensor of layout torch.sparse_coo"):
        cubes(torch.eye(3).to_sparse())
    with pytest.raises(wp.LaunchError, match=r"3 cannot be called"):
        wp.torch.from_tape(3)


def test_other_arguments_are_passed_on():
    @wp.torch.from_tape
    def several(x, times, *, offset=0):
        y = wp.clone(x)
        for _ in range(times):
            wp.launch(halve, y.shape, inputs=[y])
        return y

    v = doubles([8.0])
    y = several(v, 2, offset=1)
    y.backward()
    assert (y.tolist(), v.grad.tolist()) == ([2.0], [0.25])
    assert several.__name__ == "several"
    assert wp.torch.from_tape(partial(several.function, times=1))(v).tolist() == [4.0]


def test_it_records_nothing_on_a_tape_of_the_caller(cubes):
    v = doubles([1.0, 2.0])
    with wp.Tape() as tape:
        cubes(v).sum().backward()
    assert tape.records == []
    assert v.grad.tolist() == [3.0, 12.0]
