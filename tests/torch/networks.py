"""Programs with a PyTorch function between two launches."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapedebug as wp

N = 12


@wp.kernel
def bent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 0.3 * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def values() -> Any:
    return np.linspace(-1.0, 1.0, N)


def recorded(net: Any, mode: str | None = None) -> tuple[Any, Any, Any]:
    """Record the loss Σ bent(net(bent(x))) and its gradient; return tape, x and loss."""
    x = wp.array(values(), dtype=float, requires_grad=True)
    y, loss = wp.zeros(N, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape(mode) as tape:
        wp.launch(bent, N, inputs=[x, y])
        action = net(y)
        z = wp.zeros(action.shape, requires_grad=True)
        wp.launch(bent, action.shape, inputs=[action, z])
        wp.launch(total, action.shape, inputs=[z, loss])
    tape.backward(loss)
    return tape, x, loss


def by_torch(torch: Any, module: Any, x: Any = None) -> tuple[Any, Any]:
    """Return the same loss and the gradient of x, in float64, by PyTorch alone."""
    t = torch.tensor(values() if x is None else x, dtype=torch.float64, requires_grad=True)

    def curve(v: Any) -> Any:
        return v * v + 0.3 * v

    loss = curve(module(curve(t))).sum()
    loss.backward()
    return loss.item(), t.grad.numpy()
