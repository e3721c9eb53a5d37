"""Find the temperatures that a kiln starts from. The launch has its input and its output swapped."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

BRICKS = 15


@wp.kernel
def heat(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT unused warning: start, warm
    b[i] = a[i] + 0.3 * (8.0 - a[i]) * (1.0 + 0.1 * a[i])


@wp.kernel
def error(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 4.0) * (x[i] - 4.0))


start = wp.array(1.0 + 0.5 * np.sin(np.linspace(0.0, 3.0, BRICKS)), dtype=float, requires_grad=True)
warm = wp.zeros(BRICKS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # FIX: wp.launch(heat, dim=BRICKS, inputs=[start], outputs=[warm])
    wp.launch(heat, dim=BRICKS, inputs=[warm], outputs=[start])
    wp.launch(error, dim=BRICKS, inputs=[warm], outputs=[loss])
tape.backward(loss)
print("gradient of the start", start.grad.numpy())
