"""A tape for the physics and one for the cost: the pass of the second writes the seed of the first, which begins from
that and from a loss of its own."""

import numpy as np

import tapedebug as wp

N = 8


@wp.kernel
def fall(v: wp.array(dtype=float), h: wp.array(dtype=float)):
    i = wp.tid()
    h[i] = v[i] * 2.0 - 0.5 * v[i] * v[i]


@wp.kernel
def smooth(v: wp.array(dtype=float), prior: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(prior, 0, 0.1 * v[i] * v[i])


@wp.kernel
def miss(h: wp.array(dtype=float), cost: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(cost, 0, (h[i] - 1.0) * (h[i] - 1.0))


v = wp.array(np.linspace(0.1, 1.0, N), dtype=float, requires_grad=True)
tapes = []
for _ in range(3):
    h = wp.zeros(N, dtype=float, requires_grad=True)
    prior = wp.zeros(1, dtype=float, requires_grad=True)
    cost = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as physics:
        wp.launch(fall, dim=N, inputs=[v], outputs=[h])
        wp.launch(smooth, dim=N, inputs=[v], outputs=[prior])
    with wp.Tape() as measure:
        wp.launch(miss, dim=N, inputs=[h], outputs=[cost])
    measure.backward(cost)
    physics.backward(prior)
    v.assign(v.numpy() - 0.1 * v.grad.numpy())
    physics.zero()
    measure.zero()
    tapes += [physics, measure]
