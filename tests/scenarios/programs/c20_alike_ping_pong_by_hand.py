"""Waves on a ring, two steps at a time: the second launch has the names of the arrays the other way round."""

import numpy as np

import tapedebug as wp

RING = 36


@wp.kernel
def wave(
    height: wp.array(dtype=float),
    velocity: wp.array(dtype=float),
    height_new: wp.array(dtype=float),
    velocity_new: wp.array(dtype=float),
):
    i = wp.tid()
    bend = height[(i + 1) % RING] - 2.0 * height[i] + height[(i + RING - 1) % RING]
    velocity_new[i] = velocity[i] + 0.1 * bend
    height_new[i] = height[i] + 0.1 * velocity_new[i]


@wp.kernel
def attract(position: wp.array(dtype=float), anchor: wp.array(dtype=float), energy: wp.array(dtype=float)):
    i = wp.tid()
    d = position[i] - anchor[i]
    wp.atomic_add(energy, 0, d * d)


angle = np.linspace(0.0, 2.0 * np.pi, RING, endpoint=False)
height = wp.array(np.sin(angle), dtype=float, requires_grad=True)
velocity = wp.zeros(RING, dtype=float, requires_grad=True)
height_new = wp.zeros(RING, dtype=float, requires_grad=True)
velocity_new = wp.zeros(RING, dtype=float, requires_grad=True)
anchor = wp.array(np.cos(angle), dtype=float, requires_grad=True)
energy = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(4):
        wp.launch(wave, dim=RING, inputs=[height, velocity], outputs=[height_new, velocity_new])
        wp.launch(wave, dim=RING, inputs=[height_new, velocity_new], outputs=[height, velocity])
    # symmetric: which is which makes no difference
    position = height
    wp.launch(attract, dim=RING, inputs=[anchor, position], outputs=[energy])
tape.backward(energy)
