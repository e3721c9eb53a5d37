"""A lens is fitted: the gradient of Snell's law by hand has a term for the angle, and none for the glass."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

RAYS = 30


@wp.func
def refracted(angle: float, glass: float):
    return wp.asin(wp.sin(angle) / glass)


@wp.func_grad(refracted)
# EXPECT custom-grad error: glass
def adj_refracted(angle: float, glass: float, adj_ret: float):
    s = wp.sin(angle) / glass
    slope = 1.0 / wp.sqrt(1.0 - s * s)
    wp.adjoint[angle] += slope * wp.cos(angle) / glass * adj_ret
    # ADD: wp.adjoint[glass] -= slope * s / glass * adj_ret


@wp.kernel
def trace(
    height: wp.array(dtype=float),
    curvature: wp.array(dtype=float),
    glass: wp.array(dtype=float),
    spot: wp.array(dtype=float),
):
    i = wp.tid()
    tilt = wp.asin(height[i] * curvature[0])
    inside = refracted(tilt, glass[0])
    spot[i] = height[i] - 4.0 * wp.tan(tilt - inside)


@wp.kernel
def blur(spot: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, spot[i] * spot[i])


height = wp.array(np.linspace(-0.8, 0.8, RAYS), dtype=float, requires_grad=True)
curvature = wp.array([0.7], dtype=float, requires_grad=True)
glass = wp.array([1.5], dtype=float, requires_grad=True)
spot = wp.zeros(RAYS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [curvature, glass]

with wp.Tape() as tape:
    # CALLED custom-grad
    wp.launch(trace, dim=RAYS, inputs=[height, curvature, glass], outputs=[spot])
    wp.launch(blur, dim=RAYS, inputs=[spot], outputs=[loss])
tape.backward(loss)
