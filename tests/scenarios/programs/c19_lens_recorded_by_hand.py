"""Rays through a lens, focused by its profile. Somebody records the launches by hand, and they record themselves."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

RAYS = 32
KNOTS = 6


@wp.kernel
def refract(height: wp.array(dtype=float), profile: wp.array(dtype=float), slope: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    power = height[i]
    for k in range(KNOTS):
        total += profile[k] * power
        power = power * height[i] * height[i]
    slope[i] = -total


@wp.kernel
def spot(
    height: wp.array(dtype=float), slope: wp.array(dtype=float), focus: float, size: wp.array(dtype=float)
):
    i = wp.tid()
    where = height[i] + focus * slope[i]
    # EXPECT duplicate-launch error: size
    wp.atomic_add(size, 0, where * where)


height = wp.array(np.linspace(-1.0, 1.0, RAYS), dtype=float)
profile = wp.array([0.4, 0.05, 0.01, 0.0, 0.0, 0.0], dtype=float, requires_grad=True)
slope = wp.zeros(RAYS, dtype=float, requires_grad=True)
size = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(refract, dim=RAYS, inputs=[height, profile], outputs=[slope])
    wp.launch(spot, dim=RAYS, inputs=[height, slope, 2.0], outputs=[size])
    # CALLED duplicate-launch
    # DROP
    tape.record_launch(spot, RAYS, inputs=[height, slope, 2.0], outputs=[size])
tape.backward(size)
print("spot", size.numpy()[0], "gradient", profile.grad.numpy())
