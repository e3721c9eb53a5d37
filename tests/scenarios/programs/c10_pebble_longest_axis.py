"""The longest axis of a pebble that is nearly a ball: it turns at random, and so does its gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp


@wp.kernel
def longest(shape: wp.array(dtype=wp.mat33), sun: wp.array(dtype=wp.vec3), shade: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT wrong-adjoint error: shape
    u, s, _v = wp.svd3(shape[i])
    along = u[0, 0] * sun[i][0] + u[1, 0] * sun[i][1] + u[2, 0] * sun[i][2]
    wp.atomic_add(shade, 0, s[0] * along * along)


shape = wp.array(
    [np.eye(3) + 1e-6 * np.random.default_rng(0).normal(size=(3, 3))], dtype=wp.mat33, requires_grad=True
)
sun = wp.array([[0.3, 0.8, -0.4]], dtype=wp.vec3)
shade = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(longest, dim=1, inputs=[shape, sun], outputs=[shade])
tape.backward(shade)
print("gradient", shape.grad.numpy())
