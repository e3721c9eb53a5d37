"""Rooms that lose their heat: after 60 steps the initial temperature is forgotten, and its gradient is tiny."""

import numpy as np

import tapedebug as wp

ROOMS = 12
STEPS = 60


@wp.kernel
def cool(t: wp.array(dtype=float), heater: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    left = t[(i + t.shape[0] - 1) % t.shape[0]]
    right = t[(i + 1) % t.shape[0]]
    t_next[i] = 0.5 * t[i] + 0.05 * (left - 2.0 * t[i] + right) + heater[i]


@wp.kernel
def discomfort(t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - 21.0) * (t[i] - 21.0))


t = wp.array(np.linspace(14.0, 24.0, ROOMS), dtype=float, requires_grad=True)
heater = wp.array(np.linspace(8.0, 12.0, ROOMS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        t_next = wp.zeros(ROOMS, dtype=float, requires_grad=True)
        wp.launch(cool, dim=ROOMS, inputs=[t, heater], outputs=[t_next])
        t = t_next
    wp.launch(discomfort, dim=ROOMS, inputs=[t], outputs=[loss])
tape.backward(loss)
