"""A truck on a hill: its drag goes through an array without a gradient, and is also added twice."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

TRUCKS = 8
STEPS = 6


@wp.kernel
def air(speed: wp.array(dtype=float), shape: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: shape
    # EXPECT duplicate-launch warning
    force[i] += -shape[i] * speed[i] * speed[i]


@wp.kernel
def drive(speed: wp.array(dtype=float), force: wp.array(dtype=float), speed_next: wp.array(dtype=float)):
    i = wp.tid()
    speed_next[i] = speed[i] + 0.1 * (force[i] + 2.0 - 0.3 * speed[i])


@wp.kernel
def late(speed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (speed[i] - 3.0) * (speed[i] - 3.0))


def trucks(values=None):
    values = np.zeros(TRUCKS) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


speed, shape = trucks(np.linspace(1.0, 2.0, TRUCKS)), trucks(np.linspace(0.05, 0.2, TRUCKS))
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [shape]

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        # FIX: force = trucks()
        force = wp.zeros(TRUCKS, dtype=float)
        speed_next = trucks()
        wp.launch(air, dim=TRUCKS, inputs=[speed, shape], outputs=[force])
        # CALLED disconnected
        # CALLED duplicate-launch
        # DROP
        wp.launch(air, dim=TRUCKS, inputs=[speed, shape], outputs=[force])
        wp.launch(drive, dim=TRUCKS, inputs=[speed, force], outputs=[speed_next])
        speed = speed_next
    wp.launch(late, dim=TRUCKS, inputs=[speed], outputs=[loss])
tape.backward(loss)
