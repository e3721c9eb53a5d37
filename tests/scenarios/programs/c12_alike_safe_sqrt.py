"""Distances with a safe square root: its gradient differs from the derivative only where there is none, at 0."""

import numpy as np

import tapedebug as wp

N = 16


@wp.func
def safe_sqrt(x: float):
    return wp.sqrt(x)


@wp.func_grad(safe_sqrt)
def adj_safe_sqrt(x: float, adj_ret: float):
    if x > 0.0:
        wp.adjoint[x] += 1.0 / (2.0 * wp.sqrt(x)) * adj_ret


@wp.kernel
def reach(joint: wp.array(dtype=wp.vec2), length: wp.array(dtype=float)):
    i = wp.tid()
    d = joint[i + 1] - joint[i]
    length[i] = safe_sqrt(wp.dot(d, d))


@wp.kernel
def strain(length: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, length[i] * length[i] * length[i] - 0.3 * length[i] * length[i])


rng = np.random.default_rng(1)
chain = np.cumsum(rng.normal(scale=0.4, size=(N + 1, 2)), axis=0)
chain[5] = chain[4]
joint = wp.array(chain, dtype=wp.vec2, requires_grad=True)
length = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(reach, dim=N, inputs=[joint], outputs=[length])
    wp.launch(strain, dim=N, inputs=[length], outputs=[loss])
tape.backward(loss)
