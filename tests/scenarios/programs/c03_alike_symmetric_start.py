"""A pendulum that stands exactly upright falls to neither side: the gradient is 0, and so is the slope."""

import numpy as np

import tapedebug as wp

RODS = 5
STEPS = 10


@wp.kernel
def fall(
    angle: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    mass: wp.array(dtype=float),
    table: wp.array(dtype=float),
    angle_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    i = wp.tid()
    later = speed[i] + 0.05 * mass[i] * 9.81 * wp.sin(angle[i]) * table[i]
    speed_next[i] = later
    angle_next[i] = angle[i] + 0.05 * later


@wp.kernel
def lean(angle: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, angle[i] * angle[i])


@wp.kernel(enable_backward=False)
def count_steps(counter: wp.array(dtype=int)):
    wp.atomic_add(counter, 0, 1)


def zeros():
    return wp.zeros(RODS, dtype=float, requires_grad=True)


angle, speed = zeros(), zeros()
mass = wp.array(np.linspace(0.5, 1.5, RODS), dtype=float, requires_grad=True)
table = wp.array(np.ones(RODS), dtype=float)  # a constant needs no gradient
counter = wp.zeros(1, dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        angle_next, speed_next = zeros(), zeros()
        wp.launch(fall, dim=RODS, inputs=[angle, speed, mass, table], outputs=[angle_next, speed_next])
        wp.launch(count_steps, dim=1, inputs=[counter])
        angle, speed = angle_next, speed_next
    wp.launch(lean, dim=RODS, inputs=[angle], outputs=[loss])
tape.backward(loss)
