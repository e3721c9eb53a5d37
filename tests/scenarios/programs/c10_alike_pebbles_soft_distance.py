"""Distances that are rounded off by a millionth: smooth, although they look like kinks from afar."""

import numpy as np

import tapedebug as wp

PEBBLES = 3


@wp.kernel
def spread(place: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.sqrt(wp.length_sq(place[i]) + 1.0e-12) + 0.3 * place[i][0])


place = wp.array(np.zeros((PEBBLES, 3)), dtype=wp.vec3, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(spread, dim=PEBBLES, inputs=[place], outputs=[loss])
tape.backward(loss)
print("gradient", place.grad.numpy())
