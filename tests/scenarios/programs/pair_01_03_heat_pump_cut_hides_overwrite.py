"""A heat pump warms a wall. The pump's power has no gradient, and behind that two buffers take turns."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

CELLS = 24
STEPS = 8


@wp.kernel
def pump(t: wp.array(dtype=float), setting: wp.array(dtype=float), power: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: setting
    power[i] = setting[i] * (1.0 - 0.3 * t[i] * t[i])


@wp.kernel
def conduct(t: wp.array(dtype=float), power: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    left, right = t[wp.max(i - 1, 0)], t[wp.min(i + 1, CELLS - 1)]
    # EXPECT overwrite error: t
    t_next[i] = t[i] + 0.2 * (left - 2.0 * t[i] + right) + 0.1 * power[i]


@wp.kernel
def discomfort(t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - 0.7) * (t[i] - 0.7))


def cells(values=None):
    values = np.zeros(CELLS) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


t, t_next = cells(0.2 * np.cos(np.linspace(0.0, 3.0, CELLS))), cells()
setting = cells(np.linspace(0.2, 1.0, CELLS))
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [setting]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for _ in range(STEPS):
        # FIX: power = cells()
        power = wp.zeros(CELLS, dtype=float)
        # ADD: t_next = cells()
        # CALLED disconnected
        wp.launch(pump, dim=CELLS, inputs=[t, setting], outputs=[power])
        # CALLED overwrite
        wp.launch(conduct, dim=CELLS, inputs=[t, power], outputs=[t_next])
        t, t_next = t_next, t
    wp.launch(discomfort, dim=CELLS, inputs=[t], outputs=[loss])
tape.backward(loss)
