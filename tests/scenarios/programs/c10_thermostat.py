"""A controller: at which temperature should the heating of each room switch? It switches, and so has no slope."""

import numpy as np

import tapedebug as wp

ROOMS = 10
STEPS = 40
WIDTH = wp.constant(1.5)


@wp.kernel
def warm(
    t: wp.array(dtype=float), setpoint: wp.array(dtype=float), outside: float, t_next: wp.array(dtype=float)
):
    i = wp.tid()
    # FIX: heating = 2.0 / (1.0 + wp.exp((t[i] - setpoint[i]) / WIDTH))
    # EXPECT flat-op warning: setpoint
    heating = wp.where(t[i] < setpoint[i], 2.0, 0.0)
    t_next[i] = t[i] + 0.05 * (outside - t[i]) + heating


@wp.kernel
def discomfort(t: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - wanted[i]) * (t[i] - wanted[i]))


t = wp.array(np.linspace(12.0, 17.0, ROOMS), dtype=float, requires_grad=True)
setpoint = wp.array(np.linspace(18.0, 22.0, ROOMS), dtype=float, requires_grad=True)
wanted = wp.array(np.linspace(19.0, 21.0, ROOMS), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for hour in range(STEPS):
        outside = 5.0 + 3.0 * np.sin(0.26 * hour)
        t_next = wp.zeros_like(t)
        # CALLED flat-op
        wp.launch(warm, dim=ROOMS, inputs=[t, setpoint, outside], outputs=[t_next])
        t = t_next
        if hour % 10 == 9:
            wp.launch(discomfort, dim=ROOMS, inputs=[t, wanted], outputs=[loss])
tape.backward(loss)
