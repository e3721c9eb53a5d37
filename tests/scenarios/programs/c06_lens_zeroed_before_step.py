"""The curvature of a lens is fitted; the gradient is zeroed before it is used."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

RAYS = 48


@wp.kernel
def refract(curvature: wp.array(dtype=float), height: wp.array(dtype=float), spot: wp.array2d(dtype=float)):
    i, j = wp.tid()
    angle = wp.sin(curvature[j] * height[i]) / 1.5
    spot[i, j] = height[i] - 10.0 * angle / wp.sqrt(1.0 - angle * angle)


@wp.kernel
def blur(spot: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, spot[i, j] * spot[i, j])


curvature = wp.array([0.05, 0.1, 0.2], dtype=float, requires_grad=True)
height = wp.array(np.linspace(-1.0, 1.0, RAYS), dtype=float)
spot = wp.zeros((RAYS, 3), dtype=float, requires_grad=True)

for iteration in range(4):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(refract, dim=(RAYS, 3), inputs=[curvature, height], outputs=[spot])
        wp.launch(blur, dim=(RAYS, 3), inputs=[spot], outputs=[loss])
    tape.backward(loss)
    # DROP
    tape.zero()
    # EXPECT stale-gradient error: curvature
    curvature.assign(curvature.numpy() - 1e-4 * curvature.grad.numpy())
    # ADD: tape.zero()
    print(iteration, loss.numpy()[0])
