"""A robust fit that begins at the answer: |residual| has a corner at each measurement that is met exactly."""

# VERDICT KINK
import numpy as np

import tapedebug as wp

N = 16


@wp.kernel
def bend(height: wp.array(dtype=float), stiffness: float, bent: wp.array(dtype=float)):
    i = wp.tid()
    bent[i] = height[i] * stiffness


@wp.kernel
def robust(bent: wp.array(dtype=float), measured: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT flat-op info: height
    wp.atomic_add(loss, 0, wp.abs(bent[i] - measured[i]))


shape = np.linspace(1.0, 2.0, N).astype(np.float32)
height = wp.array(shape, dtype=float, requires_grad=True)
measured = wp.array(2.0 * shape, dtype=float)
bent = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(bend, dim=N, inputs=[height, 2.0], outputs=[bent])
    # CALLED flat-op
    wp.launch(robust, dim=N, inputs=[bent, measured], outputs=[loss])
tape.backward(loss)
