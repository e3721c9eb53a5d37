"""A boat at anchor: a metric after the loss makes NaN, and so does the loss itself, at another element."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

BUOYS = 9


@wp.kernel
def sway(wind: wp.array(dtype=float), rope: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    # FIX: x[i] = wp.sqrt(wind[i] * wind[i] + 1.0e-6) / (1.0 + rope[i])
    # EXPECT nonfinite error
    x[i] = wp.sqrt(wind[i] * wind[i]) / (1.0 + rope[i])


@wp.kernel
def unrest(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i] * x[i] + x[i])


@wp.kernel
def slack(x: wp.array(dtype=float), rope: wp.array(dtype=float), free: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT after-loss error: free
    free[i] = wp.sqrt(rope[i] - 0.5)


wind = wp.array(np.linspace(0.0, 1.6, BUOYS), dtype=float, requires_grad=True)
rope = wp.array(np.linspace(1.3, 0.5, BUOYS), dtype=float, requires_grad=True)
x = wp.zeros(BUOYS, dtype=float, requires_grad=True)
free = wp.zeros(BUOYS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED nonfinite
    wp.launch(sway, dim=BUOYS, inputs=[wind, rope], outputs=[x])
    wp.launch(unrest, dim=BUOYS, inputs=[x], outputs=[loss])
    # CALLED after-loss
    # DROP
    wp.launch(slack, dim=BUOYS, inputs=[x, rope], outputs=[free])
tape.backward(loss)
