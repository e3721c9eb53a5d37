"""Bake bread: the flour of the next loaf is loaded before backward ran, and the crust has no gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

LOAVES = 12


@wp.kernel
def rise(flour: wp.array(dtype=float), yeast: wp.array(dtype=float), volume: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT stale-value error: flour
    volume[i] = flour[i] * (1.0 + yeast[i] * flour[i])


@wp.kernel
def bake(volume: wp.array(dtype=float), heat: wp.array(dtype=float), crust: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error
    crust[i] = heat[i] * heat[i] / (1.0 + volume[i])


@wp.kernel
def taste(volume: wp.array(dtype=float), crust: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (crust[i] - 0.5) * (crust[i] - 0.5) + (volume[i] - 1.5) * (volume[i] - 1.5))


flour = wp.array(np.linspace(0.8, 1.2, LOAVES), dtype=float)
yeast = wp.array(np.linspace(0.2, 0.5, LOAVES), dtype=float, requires_grad=True)
heat = wp.array(np.linspace(0.9, 1.3, LOAVES), dtype=float, requires_grad=True)
volume = wp.zeros(LOAVES, dtype=float, requires_grad=True)
# FIX: crust = wp.zeros(LOAVES, dtype=float, requires_grad=True)
crust = wp.zeros(LOAVES, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape(on_overwrite="ignore")
with tape:
    # CALLED stale-value
    wp.launch(rise, dim=LOAVES, inputs=[flour, yeast], outputs=[volume])
    # CALLED disconnected
    wp.launch(bake, dim=LOAVES, inputs=[volume, heat], outputs=[crust])
    wp.launch(taste, dim=LOAVES, inputs=[volume, crust], outputs=[loss])
# DROP
flour.assign(np.linspace(0.5, 0.9, LOAVES))
tape.backward(loss)
