"""A lens is nearly in focus, and the gradient written for its sharpness is 1 % too large: rounding is more."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

N = 32


@wp.func
def blurred(d: float):
    return d * d


@wp.func_grad(blurred)
def adj_blurred(d: float, adj: float):
    # EXPECT custom-grad error: focus
    # FIX: wp.adjoint[d] += 2.0 * d * adj
    wp.adjoint[d] += 2.02 * d * adj


@wp.kernel
def sharpness(focus: wp.array(dtype=float), depth: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, blurred(focus[i] - depth[i]) / float(N))


rng = np.random.default_rng(1)
depths = rng.uniform(1.0, 3.0, N)
depth = wp.array(depths, dtype=float)
focus = wp.array(depths * (1.0 + 1e-6 * rng.normal(size=N)), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(sharpness, dim=N, inputs=[focus, depth], outputs=[loss])
tape.backward(loss)
