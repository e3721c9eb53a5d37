"""Antennas that point at their satellites: the angle off axis is a length, which has a kink at 0."""

import numpy as np

import tapedebug as wp

ANTENNAS = 1
# VERDICT KINK


@wp.kernel
def off_axis(dish: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.acos(wp.dot(wp.normalize(dish[i]), wp.vec3(0.0, 0.0, 1.0))))


dish = wp.array(np.tile([0.0, 0.0, 2.0], (ANTENNAS, 1)), dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(off_axis, dim=ANTENNAS, inputs=[dish], outputs=[loss])
tape.backward(loss)
print("gradient", dish.grad.numpy())
