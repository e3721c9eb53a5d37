"""Weights are rounded to a few levels; the gradient passes straight through, and the program says so."""

# VERDICT UNDECIDABLE
import numpy as np

import tapedebug as wp

N = 32


@wp.func
def levels(x: float):
    return wp.round(x * 4.0) / 4.0


@wp.func_grad(levels, differs=True)
def adj_levels(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.kernel
def respond(weight: wp.array(dtype=float), signal: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = levels(weight[i]) * signal[i]


@wp.kernel
def misfit(out: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (out[i] - wanted[i]) * (out[i] - wanted[i]))


rng = np.random.default_rng(7)
weight = wp.array(rng.normal(size=N), dtype=float, requires_grad=True)
signal = wp.array(rng.uniform(0.5, 2.0, N), dtype=float, requires_grad=True)
wanted = wp.array(rng.normal(size=N), dtype=float)
out = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(respond, dim=N, inputs=[weight, signal], outputs=[out])
    wp.launch(misfit, dim=N, inputs=[out, wanted], outputs=[loss])
tape.backward(loss)
