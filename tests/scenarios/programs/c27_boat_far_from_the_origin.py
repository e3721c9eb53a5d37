"""A boat on a map, in metres from a far origin: float32 loses each small step, and the boat stays where it is."""

import numpy as np

import tapedebug as wp

# FIX: ORIGIN = 0.0
ORIGIN = 443_000.0
STEPS, DT = 60, 0.01


@wp.kernel
def sail(x: wp.array(dtype=float), speed: wp.array(dtype=float), dt: float):
    i = wp.tid()
    # EXPECT stagnation error: x, speed
    x[i] = x[i] + dt * speed[i]


@wp.kernel
def miss(x: wp.array(dtype=float), buoy: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (x[i] - buoy[i]) * (x[i] - buoy[i]))


start = np.array([3.0, 8.0, 21.0])
x = wp.array(ORIGIN + start, dtype=float, requires_grad=True)
speed = wp.array([1.2, 0.9, 1.4], dtype=float, requires_grad=True)
buoy = wp.array(ORIGIN + start + 2.0, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for _ in range(STEPS):
        # CALLED stagnation
        wp.launch(sail, dim=3, inputs=[x, speed, DT])
    wp.launch(miss, dim=3, inputs=[x, buoy], outputs=[loss])
tape.backward(loss)
