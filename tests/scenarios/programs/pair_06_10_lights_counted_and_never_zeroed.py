"""Find how long lights must be green. Cars are counted in whole numbers, and gradients are never zeroed."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

LIGHTS = 8


@wp.kernel
def passing(green: wp.array(dtype=float), arrive: wp.array(dtype=float), cars: wp.array(dtype=float)):
    i = wp.tid()
    # FIX: cars[i] = green[i] * arrive[i]
    # EXPECT flat-op warning: green
    cars[i] = wp.floor(green[i] * arrive[i])


@wp.kernel
def jam(cars: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (cars[i] - 12.0) * (cars[i] - 12.0))


@wp.kernel
def descend(green: wp.array(dtype=float), slope: wp.array(dtype=float)):
    i = wp.tid()
    green[i] = green[i] - 0.01 * slope[i]


green = wp.array(np.linspace(4.0, 7.0, LIGHTS), dtype=float, requires_grad=True)
arrive = wp.array(np.linspace(1.1, 2.3, LIGHTS), dtype=float)


def fit_once():
    cars = wp.zeros(LIGHTS, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        # CALLED flat-op
        wp.launch(passing, dim=LIGHTS, inputs=[green, arrive], outputs=[cars])
        wp.launch(jam, dim=LIGHTS, inputs=[cars], outputs=[loss])
    # EXPECT accumulated warning: green
    tape.backward(loss)
    wp.launch(descend, dim=LIGHTS, inputs=[green, green.grad])
    # ADD: tape.zero()
    return tape


for _ in range(4):
    tape = fit_once()
