"""Optimisers: the steps that the papers give, and Warp's numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.optim import SGD, Adam

OPTIONS = [
    (SGD, {"lr": 0.1}),
    (SGD, {"lr": 0.1, "momentum": 0.9}),
    (SGD, {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}),
    (SGD, {"lr": 0.05, "momentum": 0.8, "nesterov": True}),
    (Adam, {"lr": 0.1}),
    (Adam, {"lr": 0.2, "betas": (0.5, 0.8), "eps": 1e-3}),
]


def descend(w, optimizer, steps=6):
    """Values after each step on fixed gradients of a float and a vec3 array."""
    rng = np.random.default_rng(2)
    start, vectors = rng.normal(size=4).astype(np.float32), rng.normal(size=(3, 3)).astype(np.float32)
    params = [w.array(start, dtype=float, device="cpu"), w.array(vectors, dtype=w.vec3, device="cpu")]
    optimizer = optimizer(params)
    seen = []
    for _ in range(steps):
        grads = [
            w.array(rng.normal(size=4).astype(np.float32), dtype=float, device="cpu"),
            w.array(rng.normal(size=(3, 3)).astype(np.float32), dtype=w.vec3, device="cpu"),
        ]
        optimizer.step(grads)
        seen.append(np.concatenate([p.numpy().ravel() for p in params]))
    return np.array(seen)


@pytest.mark.peer
@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=str)
def test_beside_warp(kind, options):
    pytest.importorskip("warp", reason="warp-lang is not installed")
    import warp
    import warp.optim

    ours = descend(wp, lambda params: kind(params, **options))
    theirs = descend(warp, lambda params: getattr(warp.optim, kind.__name__)(params, **options))
    np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_adam_by_hand():
    x = wp.array([1.0], dtype=float)
    optimizer = wp.optim.Adam([x], lr=0.1)
    m = v = 0.0
    expected = 1.0
    for t, g in enumerate([0.5, -2.0, 0.25], 1):
        optimizer.step([wp.array([g], dtype=float)])
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        expected -= 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        assert x.numpy()[0] == pytest.approx(expected, rel=1e-5)


@wp.kernel
def bowl(x: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = x[i] - wp.vec3(1.0, 2.0, 3.0)
    wp.atomic_add(loss, 0, wp.dot(d, d))


@pytest.mark.parametrize(("kind", "options"), [OPTIONS[1], OPTIONS[4]], ids=str)
def test_descent_reaches_the_minimum(kind, options):
    x = wp.zeros(2, dtype=wp.vec3, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    optimizer = kind([x], **options)
    tape = wp.Tape()
    for _ in range(150):
        loss.zero_()
        with tape:
            wp.launch(bowl, 2, [x, loss])
        tape.backward(loss)
        optimizer.step([x.grad])
        tape.reset()
    np.testing.assert_allclose(x.numpy(), [[1, 2, 3]] * 2, atol=0.05)


def test_state_is_kept_and_forgotten():
    x, y = wp.ones(2, dtype=float), wp.ones(3, dtype=float)
    optimizer = Adam([x])
    optimizer.step([wp.ones(2, dtype=float)])
    m = optimizer.m[0]
    assert m.numpy().all() and optimizer.t == 1
    optimizer.set_params([x, y])
    assert optimizer.m[0] is m
    assert not optimizer.m[1].numpy().any()
    optimizer.reset_internal_state()
    assert optimizer.t == 0
    assert not m.numpy().any()


def test_a_step_is_no_part_of_a_tape_and_does_no_harm_to_it():
    x, loss = wp.zeros(1, dtype=wp.vec3, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(bowl, 1, [x, loss])
    SGD([x], lr=1.0).step([wp.ones(1, dtype=wp.vec3)])
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [[-2, -4, -6]]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: SGD([wp.zeros(2, dtype=int)]),
            "SGD: parameter 0 is the array(shape=(2,), dtype=int32)\n  = mend: pass arrays of floats",
        ),
        (lambda: Adam([3.0]), "Adam: parameter 0 is 3.0"),
        (lambda: SGD().step([]), "SGD: there are no parameters"),
        (lambda: SGD([wp.zeros(2)]).step([]), "SGD: 1 parameters have 0 gradients"),
        (lambda: Adam([wp.zeros(2)]).step([wp.zeros(3)]), "Adam: the gradient of parameter 0 (the array"),
        (lambda: Adam([wp.zeros(2)]).step([None]), "Adam: the gradient of parameter 0 (the array"),
    ],
)
def test_refused(action, message):
    with pytest.raises(wp.ArrayError) as caught:
        action()
    assert message in str(caught.value)
    assert "  = mend: " in str(caught.value)
