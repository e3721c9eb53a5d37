"""The documented `torch.autograd.Function`, as PyTorch itself checks it, and others made like it."""

from __future__ import annotations

import re

import pytest

import tapedebug as wp
from tests.processes import ROOT

torch = pytest.importorskip("torch")

VALUES = (1.0, 2.0, 3.0)


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """The class on the page about arrays; the file makes its source readable."""
    page = (ROOT / "docs/arrays.md").read_text("utf-8")
    block = next(b for b in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M) if "class Cubes" in b)
    path = tmp_path_factory.mktemp("page") / "cubes.py"
    path.write_text("import tapedebug as wp\n" + block, "utf-8")
    names = {}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names["Cubes"].apply


def doubles(values=VALUES, requires_grad=True):
    return torch.tensor(values, dtype=torch.float64, requires_grad=requires_grad)


def test_gradcheck_of_torch_passes(documented):
    assert torch.autograd.gradcheck(documented, (doubles(),))
    assert torch.autograd.gradcheck(lambda v: documented(v.expand(4)), (doubles((2.0,)),))
    assert torch.autograd.gradcheck(lambda v: documented(v[::2]) * documented(v[:2]), (doubles(),))


def test_backward_may_run_again_and_results_stay_as_they_were(documented):
    v = doubles()
    loss = documented(v).sum()
    first, second = (torch.autograd.grad(loss, v, retain_graph=True)[0] for _ in range(2))
    assert first.tolist() == second.tolist() == [3.0, 12.0, 27.0]
    jacobian = torch.autograd.functional.jacobian(documented, v)
    assert jacobian.tolist() == [[3.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 27.0]]


def test_a_second_derivative_is_refused(documented):
    v = doubles()
    for loss in (documented(v).sum(), (documented(v) ** 2).sum()):
        with pytest.raises(NotImplementedError, match="Cubes has no second derivative"):
            torch.autograd.grad(loss, v, create_graph=True)


def test_gradients_accumulate_in_the_leaf_and_the_seed_is_left_alone(documented):
    v, seed = doubles(), torch.tensor([1.0, 10.0, 100.0], dtype=torch.float64)
    for _ in range(2):
        documented(v).backward(seed)
    assert v.grad.tolist() == [6.0, 240.0, 5400.0]
    assert seed.tolist() == [1.0, 10.0, 100.0]


def test_one_input_through_several_functions_and_operations_between(documented):
    v = doubles((0.5, -0.25, 0.75))
    assert torch.autograd.gradcheck(lambda x: documented(torch.sin(documented(x)) + x), (v,))


def test_a_result_may_be_changed_in_place(documented):
    v = doubles((1.0, -2.0, 3.0))
    y = documented(v)
    y.relu_()
    y.sum().backward()
    assert v.grad.tolist() == [3.0, 0.0, 27.0]


def test_an_input_may_be_changed_before_backward(documented):
    """The tape has kept its values."""
    v = doubles(requires_grad=False)
    w = (v * 1.0).requires_grad_()
    y = documented(w)
    with torch.no_grad():
        w.mul_(10.0)
    assert torch.autograd.grad(y.sum(), w)[0].tolist() == [3.0, 12.0, 27.0]


def test_without_gradient_it_only_computes(documented):
    assert documented(doubles(requires_grad=False)).tolist() == [1.0, 8.0, 27.0]
    with torch.no_grad():
        assert not documented(doubles()).requires_grad


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


class Turned(torch.autograd.Function):
    """Two inputs, two results."""

    @staticmethod
    def forward(ctx, points, angle):
        ctx.points = wp.from_torch(points.contiguous(), dtype=wp.vec2d, requires_grad=True)
        ctx.angle = wp.from_torch(angle.contiguous(), requires_grad=True)
        ctx.out = wp.zeros(ctx.points.shape, dtype=wp.vec2d, requires_grad=True)
        ctx.energy = wp.zeros(ctx.points.shape, dtype=wp.float64, requires_grad=True)
        with wp.Tape() as ctx.tape:
            wp.launch(turned, ctx.points.shape, inputs=[ctx.points, ctx.angle], outputs=[ctx.out, ctx.energy])
        return tuple(wp.to_torch(a, requires_grad=False) for a in (ctx.out, ctx.energy))

    @staticmethod
    def backward(ctx, adj_out, adj_energy):
        ctx.tape.zero()
        seeds = {
            ctx.out: wp.from_torch(adj_out.contiguous(), dtype=wp.vec2d),
            ctx.energy: wp.from_torch(adj_energy.contiguous()),
        }
        ctx.tape.backward(grads=seeds)
        return tuple(wp.to_torch(a.grad).clone() for a in (ctx.points, ctx.angle))


POINTS = [[1.0, 2.0], [0.5, -1.0], [3.0, 0.25]]


def test_two_inputs_and_two_results():
    points, angle = doubles(POINTS), doubles((0.3,))
    assert torch.autograd.gradcheck(Turned.apply, (points, angle))
    assert torch.autograd.gradcheck(lambda p, a: Turned.apply(p, a)[1], (points, angle))


@pytest.mark.parametrize("constant", [0, 1])
def test_an_input_without_gradient(constant):
    given = [doubles(POINTS, constant != 0), doubles((0.3,), constant != 1)]
    assert torch.autograd.gradcheck(Turned.apply, given)
    sum(y.sum() for y in Turned.apply(*given)).backward()
    assert [x.grad is None for x in given] == [constant == 0, constant == 1]
