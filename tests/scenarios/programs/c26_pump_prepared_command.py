"""A pump whose step is prepared as a command: Warp's tape does not record what a command launches."""

# RUN as-warp
from itertools import pairwise

import numpy as np
import warp as wp


@wp.kernel
def stroke(level: wp.array(dtype=float), power: wp.array(dtype=float), level_next: wp.array(dtype=float)):
    i = wp.tid()
    level_next[i] = level[i] + 0.1 * power[i] * (1.0 - level[i])


@wp.kernel
def shortage(level: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = 1.0 - level[wp.tid()]
    wp.atomic_add(loss, 0, d * d)


levels = [wp.zeros(4, dtype=float, requires_grad=True) for _ in range(5)]
power = wp.array(np.linspace(0.5, 1.5, 4), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    command = wp.launch(stroke, dim=4, inputs=[levels[0], power, levels[1]], record_cmd=True)
    for before, after in pairwise(levels):
        command.set_param_by_name("level", before)
        command.set_param_by_name("level_next", after)
        # FIX: wp.launch(stroke, dim=4, inputs=[before, power], outputs=[after])
        # EXPECT warp-limitation error: power
        command.launch()
    wp.launch(shortage, dim=4, inputs=[levels[-1]], outputs=[loss])
tape.backward(loss)
print(power.grad.numpy())
