"""A beam with its load in newtons and its stiffness in gigapascals: one gradient is 1e14 times the other."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 25


@wp.kernel
def bend(
    load: wp.array(dtype=float), stiffness: wp.array(dtype=float), area: float, bent: wp.array(dtype=float)
):
    i = wp.tid()
    bent[i] = load[i] * 1.0e3 / (stiffness[0] * area * (1.0 + 0.1 * float(i)))


@wp.kernel
def misfit(bent: wp.array(dtype=float), measured: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = 1.0e6 * (bent[i] - measured[i])
    wp.atomic_add(loss, 0, d * d)


load = wp.array(np.linspace(50.0, 200.0, N), dtype=float, requires_grad=True)
stiffness = wp.array([2.1e11], dtype=float, requires_grad=True)
bent = wp.zeros(N, dtype=float, requires_grad=True)
measured = wp.array(np.linspace(3.0e-5, 9.0e-5, N), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(bend, dim=N, inputs=[load, stiffness, 1.0e-2], outputs=[bent])
    wp.launch(misfit, dim=N, inputs=[bent, measured], outputs=[loss])
tape.backward(loss)
