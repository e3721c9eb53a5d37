"""Power curves of pumps at a thousand turns: cubic, and off by 5 % in float32 differences at the usual step."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

PUMPS = 32


@wp.kernel
def power(turns: wp.array(dtype=float), size: wp.array(dtype=float), watts: wp.array(dtype=float)):
    i = wp.tid()
    watts[i] = size[i] * turns[i] * turns[i] * turns[i]


@wp.kernel
def total(watts: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, watts[wp.tid()])


turns = wp.array(np.linspace(900.0, 1100.0, PUMPS), dtype=float, requires_grad=True)
size = wp.array(np.linspace(1.0, 2.0, PUMPS), dtype=float, requires_grad=True)
watts = wp.zeros(PUMPS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(power, dim=PUMPS, inputs=[turns, size], outputs=[watts])
    wp.launch(total, dim=PUMPS, inputs=[watts], outputs=[loss])
tape.backward(loss)
