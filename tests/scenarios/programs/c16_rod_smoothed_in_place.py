"""Find the initial temperatures of a measured rod. Each step reads its neighbours' new values.

The step was written for two arrays; somebody saved one of them.
"""

import numpy as np

import tapedebug as wp

CELLS, STEPS = 24, 6
DIFFUSION = 0.3


@wp.kernel
def diffuse(u: wp.array(dtype=float), rate: float, following: wp.array(dtype=float)):
    i = wp.tid()
    n = u.shape[0]
    left = wp.max(i - 1, 0)
    right = wp.min(i + 1, n - 1)
    # EXPECT race error: u
    following[i] = u[i] + rate * (u[left] - 2.0 * u[i] + u[right])


@wp.kernel
def misfit(u: wp.array(dtype=float), measured: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = u[i] - measured[i]
    wp.atomic_add(loss, 0, d * d)


def simulate(start, measured, loss):
    u = wp.clone(start)
    for _ in range(STEPS):
        # FIX: following = wp.zeros_like(u)
        following = u
        # CALLED race
        wp.launch(diffuse, dim=CELLS, inputs=[u, DIFFUSION], outputs=[following])
        u = following
    wp.launch(misfit, dim=CELLS, inputs=[u, measured], outputs=[loss])


where = np.linspace(0.0, 1.0, CELLS)
measured = wp.array(np.exp(-8.0 * (where - 0.4) ** 2), dtype=float)
start = wp.array(np.sin(9.0 * where) + 1.0, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    simulate(start, measured, loss)
tape.backward(loss)
