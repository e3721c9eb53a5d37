"""A crane lifts loads: two arguments are crossed, and the rope's force goes through an array without gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

LOADS = 7
STEPS = 8


@wp.kernel
def rope(height: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: stiffness
    force[i] = stiffness[i] * (1.0 - height[i])


@wp.kernel
def lift(
    height: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    force: wp.array(dtype=float),
    height_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    i = wp.tid()
    later = 0.9 * speed[i] + 0.1 * (force[i] - 1.0)
    speed_next[i] = later
    # EXPECT unused warning
    height_next[i] = height[i] + 0.1 * later * later


@wp.kernel
def short(height: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (height[i] - 0.8) * (height[i] - 0.8))


def loads(values=None):
    values = np.zeros(LOADS) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


height, speed = loads(np.linspace(0.1, 0.4, LOADS)), loads(np.full(LOADS, 0.3))
stiffness = loads(np.linspace(2.0, 5.0, LOADS))
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [stiffness]

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        # FIX: force = loads()
        force = wp.zeros(LOADS, dtype=float)
        height_next, speed_next = loads(), loads()
        # CALLED disconnected
        wp.launch(rope, dim=LOADS, inputs=[height, stiffness], outputs=[force])
        # CALLED unused
        # FIX: wp.launch(lift, dim=LOADS, inputs=[height, speed, force], outputs=[height_next, speed_next])
        wp.launch(lift, dim=LOADS, inputs=[speed, height, force], outputs=[height_next, speed_next])
        height, speed = height_next, speed_next
    wp.launch(short, dim=LOADS, inputs=[height], outputs=[loss])
tape.backward(loss)
