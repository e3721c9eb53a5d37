"""A population far into chaos: float32 and float64 go different ways, and nobody can say what is right."""

# VERDICT UNDECIDABLE
import numpy as np

import tapedebug as wp

YEARS = 120


@wp.kernel
def breed(x: wp.array(dtype=float), rate: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT exploding warning
    x_next[i] = rate[0] * x[i] * (1.0 - x[i])


@wp.kernel
def census(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 0.5) * (x[i] - 0.5))


x = wp.array(np.linspace(0.2, 0.4, 6), dtype=float, requires_grad=True)
rate = wp.array([3.9], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for year in range(YEARS):
        x_next = wp.zeros_like(x)
        # CALLED exploding
        wp.launch(breed, dim=6, inputs=[x, rate], outputs=[x_next])
        x = x_next
    wp.launch(census, dim=6, inputs=[x], outputs=[loss])
tape.backward(loss)
