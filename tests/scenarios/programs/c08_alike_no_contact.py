"""A ball that never reaches the ground: the stiffness of the ground has a gradient of exactly 0, and should."""

import numpy as np

import tapedebug as wp

BALLS = 10
STEPS = 30
DT = 0.02


@wp.kernel
def fall(
    height: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    stiffness: wp.array(dtype=float),
    height_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    i = wp.tid()
    contact = stiffness[0] * wp.max(-height[i], 0.0)
    faster = speed[i] + DT * (contact - 9.81)
    speed_next[i] = faster
    height_next[i] = height[i] + DT * faster


@wp.kernel
def miss(height: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (height[i] - 5.0) * (height[i] - 5.0))


height = wp.array(np.linspace(8.0, 12.0, BALLS), dtype=float, requires_grad=True)
speed = wp.array(np.linspace(-1.0, 1.0, BALLS), dtype=float, requires_grad=True)
stiffness = wp.array([2000.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        height_next, speed_next = wp.zeros_like(height), wp.zeros_like(speed)
        wp.launch(fall, BALLS, [height, speed, stiffness], [height_next, speed_next])
        height, speed = height_next, speed_next
    wp.launch(miss, BALLS, [height], [loss])
tape.backward(loss)
