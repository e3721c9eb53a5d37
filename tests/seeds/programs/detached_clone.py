"""A clone without requires_grad is cut off (a note of the document's). Given here: the program."""

import numpy as np
import warp as wp


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    tid = wp.tid()
    y[tid] = x[tid] * 2.0


x = wp.array(np.arange(3), dtype=float, requires_grad=True)
z = wp.zeros_like(x)

tape = wp.Tape()
with tape:
    y = wp.clone(x, requires_grad=False)
    wp.launch(double, dim=3, inputs=[y, z])

tape.backward(grads={z: wp.ones_like(x)})

print(x.grad)
