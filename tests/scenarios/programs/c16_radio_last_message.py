"""Stations report the wind to one register, with an atomic exchange: the last report is what the glider sees."""

import numpy as np

import tapedebug as wp

STATIONS = 5


@wp.kernel
def report(wind: wp.array(dtype=float), gain: wp.array(dtype=float), register: wp.array(dtype=float)):
    s = wp.tid()
    # EXPECT race error: register
    # FIX: wp.atomic_add(register, 0, gain[0] * wind[s] / float(STATIONS))
    wp.atomic_exch(register, 0, gain[0] * wind[s])


@wp.kernel
def drift(register: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = register[0] - 2.0
    loss[0] = d * d


wind = wp.array(np.array([1.0, 2.5, 0.5, 3.0, 1.5]), dtype=float, requires_grad=True)
gain = wp.array([1.2], dtype=float, requires_grad=True)
register = wp.zeros(1, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    # CALLED race
    wp.launch(report, dim=STATIONS, inputs=[wind, gain], outputs=[register])
    wp.launch(drift, dim=1, inputs=[register], outputs=[loss])
tape.backward(loss)
inputs = [wind, gain]
