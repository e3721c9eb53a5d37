"""Optimisers: their steps beside PyTorch's and Warp's, what tapes see of them, messages."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import tapedebug as wp
from tests.runtime.kernels import square, total

SGDS = [
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "dampening": 0.1},
    {"weight_decay": 0.05},
    {"momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
]


def _gradients():
    return np.random.default_rng(3).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("options", SGDS)
def test_sgd_steps_as_pytorch_does(options):
    torch = pytest.importorskip("torch")
    ours, theirs = wp.ones(4), torch.ones(4, requires_grad=True)
    mine, other = wp.optim.SGD([ours], lr=0.1, **options), torch.optim.SGD([theirs], lr=0.1, **options)
    for gradient in _gradients():
        mine.step([wp.array(gradient)])
        theirs.grad = torch.tensor(gradient)
        other.step()
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5)


def test_adam_steps_as_pytorch_does():
    torch = pytest.importorskip("torch")
    ours, theirs = wp.ones(4), torch.ones(4, requires_grad=True)
    mine, other = (
        wp.optim.Adam([ours], lr=0.1, betas=(0.8, 0.95)),
        torch.optim.Adam([theirs], 0.1, (0.8, 0.95)),
    )
    for gradient in _gradients():
        mine.step([wp.array(gradient)])
        theirs.grad = torch.tensor(gradient)
        other.step()
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), rtol=1e-5)


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")
@pytest.mark.parametrize(("name", "options"), [("Adam", {}), *(("SGD", options) for options in SGDS)])
def test_steps_as_warp_does(name, options):
    import warp
    import warp.optim

    ends = []
    for module in (wp, warp):
        p = module.full((4,), 1.0, dtype=float)
        optimizer = getattr(module.optim, name)([p], lr=0.1, **options)
        for gradient in _gradients():
            optimizer.step([module.array(gradient, dtype=float)])
        ends.append(p.numpy())
    np.testing.assert_allclose(*ends, rtol=1e-5)


def test_vectors_doubles_and_state():
    v, d = wp.ones(2, dtype=wp.vec3), wp.ones(2, dtype=wp.float64)
    optimizer = wp.optim.Adam(lr=0.5)
    optimizer.set_params([v, d])
    optimizer.step([wp.ones_like(v), wp.ones_like(d)])
    np.testing.assert_allclose(v.numpy(), 0.5, rtol=1e-6)
    np.testing.assert_allclose(d.numpy(), 0.5, rtol=1e-6)
    assert optimizer.t == 1
    optimizer.reset_internal_state()
    assert (optimizer.t, optimizer.m) == (0, {})


@pytest.mark.parametrize("optimizer", [wp.optim.SGD, wp.optim.Adam])
def test_descent_beside_a_tape(optimizer):
    x = wp.array([3.0, -2.0], dtype=float, requires_grad=True)
    descent = optimizer([x], lr=0.1)
    losses = []
    for _ in range(60):
        y, loss = wp.zeros_like(x), wp.zeros(1, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(square, 2, inputs=[x], outputs=[y])
            wp.launch(total, 2, inputs=[y, loss])
        tape.backward(loss)
        losses.append(loss.list()[0])
        before = x.grad.numpy().copy()
        descent.step([x.grad])
        shadow = tape.replay(dtype=wp.float64).backward({loss: np.ones(1)})
        np.testing.assert_allclose(shadow.gradient(x), before, rtol=1e-6)
        tape.zero()
    assert losses[-1] < losses[0] / 100


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: wp.optim.Adam(wp.zeros(3)),
            "Adam: params must be a list of arrays; got array(shape=(3,), dtype=float32)\n"
            "  = hint: pass [array, …]",
        ),
        (
            lambda: wp.optim.SGD([1.0]),
            "SGD: params must be a list of arrays; got [1.0]\n  = hint: pass [array, …]",
        ),
        (
            lambda: wp.optim.SGD([wp.zeros(3, dtype=int)]),
            "SGD: parameter 0 is an array(shape=(3,), dtype=int32), which has no slope\n"
            "  = hint: use a float dtype",
        ),
        (
            lambda: wp.optim.SGD().step([wp.zeros(3)]),
            "SGD.step: no parameters are set\n  = hint: call set_params([array, …])",
        ),
        (
            lambda: wp.optim.SGD([wp.zeros(3)]).step([]),
            "SGD.step: 1 parameters and 0 gradients\n  = hint: pass one gradient for each parameter",
        ),
        (
            lambda: wp.optim.Adam([wp.zeros(3)]).step([wp.zeros(2)]),
            "Adam.step: gradient 0 must be like its parameter, an array(shape=(3,), dtype=float32); got "
            "array(shape=(2,), dtype=float32)\n  = hint: pass parameter.grad",
        ),
        (
            lambda: wp.optim.Adam([wp.zeros(3)]).step([None]),
            "Adam.step: gradient 0 must be like its parameter, an array(shape=(3,), dtype=float32); got "
            "None\n  = hint: pass parameter.grad",
        ),
    ],
)
def test_messages(action, message):
    with pytest.raises(wp.ArrayError) as caught:
        action()
    assert str(caught.value) == message
