"""The energy of a crowd, added up in a half: the sum stops growing long before everybody is counted."""

import numpy as np

import tapedebug as wp

# FIX: Sum = wp.float32
Sum = wp.float16
PEOPLE = 8000


@wp.kernel
def kinetic(speed: wp.array(dtype=float), energy: wp.array(dtype=Sum)):
    i = wp.tid()
    # EXPECT stagnation warning: energy, speed
    wp.atomic_add(energy, 0, Sum(0.5 * speed[i] * speed[i]))


@wp.kernel
def excess(energy: wp.array(dtype=Sum), loss: wp.array(dtype=float)):
    over = wp.float32(energy[0]) - 9000.0
    loss[0] = over * over


speed = wp.array(np.linspace(1.1, 1.5, PEOPLE), dtype=float, requires_grad=True)
energy = wp.zeros(1, dtype=Sum, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED stagnation
    wp.launch(kinetic, dim=PEOPLE, inputs=[speed], outputs=[energy])
    wp.launch(excess, dim=1, inputs=[energy], outputs=[loss])
tape.backward(loss)
