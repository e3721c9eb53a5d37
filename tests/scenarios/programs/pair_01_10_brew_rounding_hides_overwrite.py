"""A brewer's temperature is read to whole degrees: no slope. Behind that the state is written over in place."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

VATS = 12
STEPS = 6


@wp.kernel
def ferment(sugar: wp.array(dtype=float), rate: wp.array(dtype=float), heat: wp.array(dtype=float)):
    i = wp.tid()
    heat[i] = 40.0 * rate[i] * sugar[i] * sugar[i]


@wp.kernel
def use_up(sugar: wp.array(dtype=float), rate: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT overwrite error: sugar
    sugar[i] = sugar[i] - 0.2 * rate[i] * sugar[i]


@wp.kernel
def read_off(heat: wp.array(dtype=float), shown: wp.array(dtype=float)):
    i = wp.tid()
    # FIX: shown[i] = shown[i] + heat[i]
    # EXPECT flat-op warning: rate
    shown[i] = shown[i] + wp.round(heat[i])


@wp.kernel
def off(shown: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (shown[i] - 60.0) * (shown[i] - 60.0) / float(VATS))


def vats(values=None):
    values = np.zeros(VATS) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


sugar, rate = vats(np.linspace(0.8, 1.2, VATS)), vats(np.linspace(0.3, 0.6, VATS))
shown = vats()
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [rate]

# FIX: tape = wp.Tape(on_overwrite="preserve")
tape = wp.Tape(on_overwrite="ignore")
with tape:
    for _ in range(STEPS):
        heat = vats()
        wp.launch(ferment, dim=VATS, inputs=[sugar, rate], outputs=[heat])
        # CALLED overwrite
        wp.launch(use_up, dim=VATS, inputs=[sugar, rate])
        # CALLED flat-op
        wp.launch(read_off, dim=VATS, inputs=[heat], outputs=[shown])
    wp.launch(off, dim=VATS, inputs=[shown], outputs=[loss])
tape.backward(loss)
