"""The same fit with one loss that is set to zero between the passes, which the tape that goes on does not see."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

SAMPLES = 24


@wp.kernel
def misfit(
    shape: wp.array(dtype=float),
    x: wp.array(dtype=float),
    measured: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    r = shape[0] * x[i] * x[i] + wp.sin(shape[1] * x[i]) - measured[i]
    wp.atomic_add(loss, 0, r * r)


place = np.linspace(-1.0, 1.0, SAMPLES, dtype=np.float32)
x = wp.array(place, dtype=float)
measured = wp.array(place**3, dtype=float)
shape = wp.array([0.5, 0.2], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
for step in range(3):
    # EXPECT stale-value error: loss
    loss.zero_()
    # ADD: tape.reset()
    with tape:
        # CALLED stale-value
        wp.launch(misfit, dim=SAMPLES, inputs=[shape, x, measured], outputs=[loss])
    tape.backward(loss)
    shape.assign(shape.numpy() - 0.01 * shape.grad.numpy())
    tape.zero()
