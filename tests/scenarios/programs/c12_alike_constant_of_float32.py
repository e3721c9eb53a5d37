"""A gradient by hand has a constant of seven digits, where the function divides: as right as float32 can be."""

import numpy as np

import tapedebug as wp

N = 200


@wp.func
def density(x: float):
    return wp.exp(-0.5 * x * x) / wp.sqrt(6.283185307)


@wp.func_grad(density)
def adj_density(x: float, adj_ret: float):
    wp.adjoint[x] -= 0.3989423 * x * wp.exp(-0.5 * x * x) * adj_ret


@wp.kernel
def likelihood(x: wp.array(dtype=float), shift: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, -wp.log(density(x[i] - shift[0])))


rng = np.random.default_rng(4)
x = wp.array(rng.normal(0.3, 1.0, N), dtype=float, requires_grad=True)
shift = wp.array([0.1], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(likelihood, dim=N, inputs=[x, shift], outputs=[loss])
tape.backward(loss)
