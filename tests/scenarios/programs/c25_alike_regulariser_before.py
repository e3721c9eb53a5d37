"""A penalty on a tape of its own, then the misfit on another: both go into one loss, which each step clears."""

import numpy as np

import tapedebug as wp

N = 10


@wp.kernel
def penalty(w: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 0.01 * w[i] * w[i])


@wp.kernel
def misfit(w: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (w[i] - seen[i]) * (w[i] - seen[i]))


w = wp.array(np.full(N, 0.5), dtype=float, requires_grad=True)
seen = wp.array(np.linspace(1.0, 2.0, N), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

for _ in range(3):
    loss.zero_()
    with wp.Tape() as first:
        wp.launch(penalty, dim=N, inputs=[w], outputs=[loss])
    with wp.Tape() as tape:
        wp.launch(misfit, dim=N, inputs=[w, seen], outputs=[loss])
    first.backward(loss)
    tape.backward(loss)
    print(loss.numpy()[0])
    w.assign(w.numpy() - 0.1 * w.grad.numpy())
    tape.zero()
