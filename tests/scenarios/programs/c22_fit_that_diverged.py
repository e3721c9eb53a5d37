"""A wave is fitted with too large a step: parameters of 1e16, of whose gradient float32 has no digit left."""

# VERDICT UNDECIDABLE
# FIXED AGREE
import numpy as np

import tapedebug as wp

N = 64
# FIX: RATE = 0.2
RATE = 5.0


@wp.kernel
def wave(p: wp.array(dtype=float), u: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p[0] + p[1] * u[i] + p[2] * u[i] * u[i] + p[3] * wp.sin(p[4] * u[i])


u = np.linspace(-1.0, 1.0, N)
wanted = 0.3 + u - 0.5 * u * u + 0.2 * np.sin(5.0 * u)
places = wp.array(u, dtype=float)
p = wp.array([0.0, 0.0, 0.0, 0.1, 4.0], dtype=float, requires_grad=True)

for step in range(12):
    y = wp.zeros(N, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(wave, dim=N, inputs=[p, places], outputs=[y])
    seed = 2.0 * (y.numpy() - wanted) / N
    tape.backward(grads={y: wp.array(seed, dtype=float)})
    p = wp.array(p.numpy() - RATE * p.grad.numpy(), dtype=float, requires_grad=True)
