"""Drive a pump. Its kernel reads the pressures, which nothing has computed, and overwrites the strokes."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

STAGES = 10


@wp.kernel
def compress(a: wp.array(dtype=float), gain: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT unused warning: stroke, pressure
    b[i] = gain[i] * a[i] * a[i]


@wp.kernel
def work(x: wp.array(dtype=float), gain: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - 2.0) * (x[i] - 2.0) + 0.1 * gain[i] * gain[i])


stroke = wp.array(np.linspace(0.5, 1.5, STAGES), dtype=float, requires_grad=True)
gain = wp.array(1.0 + 0.1 * np.cos(np.arange(STAGES)), dtype=float, requires_grad=True)
pressure = wp.zeros(STAGES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # FIX: wp.launch(compress, dim=STAGES, inputs=[stroke, gain], outputs=[pressure])
    wp.launch(compress, dim=STAGES, inputs=[pressure, gain], outputs=[stroke])
    # FIX: wp.launch(work, dim=STAGES, inputs=[pressure, gain], outputs=[loss])
    wp.launch(work, dim=STAGES, inputs=[stroke, gain], outputs=[loss])
tape.backward(loss)
print("gradient of the strokes", stroke.grad.numpy())
