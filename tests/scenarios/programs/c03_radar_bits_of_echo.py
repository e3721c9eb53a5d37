"""Echoes of a radar are copied word by word, as a driver would hand them on: their bits have no gradient."""

import numpy as np

import tapedebug as wp


@wp.kernel
def echo(distance: wp.array(dtype=float), strength: wp.array(dtype=float)):
    i = wp.tid()
    strength[i] = 1.0 / (distance[i] * distance[i])


@wp.kernel
def hand_on(words: wp.array(dtype=wp.int32), target: wp.array(dtype=wp.int32)):
    i = wp.tid()
    # EXPECT disconnected warning: distance
    target[i] = words[i]


@wp.kernel
def hand_on_floats(values: wp.array(dtype=float), target: wp.array(dtype=float)):
    i = wp.tid()
    target[i] = values[i]


@wp.kernel
def misfit(strength: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = strength[wp.tid()] - 0.1
    wp.atomic_add(loss, 0, d * d)


distance = wp.array(np.linspace(1.0, 3.0, 5), dtype=float, requires_grad=True)
strength, received = (wp.zeros(5, dtype=float, requires_grad=True) for _ in range(2))
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(echo, dim=5, inputs=[distance], outputs=[strength])
    # FIX: wp.launch(hand_on_floats, dim=5, inputs=[strength], outputs=[received])
    # CALLED disconnected
    wp.launch(hand_on, dim=5, inputs=[strength.view(wp.int32)], outputs=[received.view(wp.int32)])
    wp.launch(misfit, dim=5, inputs=[received], outputs=[loss])
tape.backward(loss)
print(distance.grad.numpy())
