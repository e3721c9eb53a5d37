"""Weigh parcels: the mean error is reported and the sum is differentiated; one of its terms is there twice."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

PARCELS = 30


@wp.kernel
def weigh(spring: wp.array(dtype=float), mass: wp.array(dtype=float), shown: wp.array(dtype=float)):
    i = wp.tid()
    shown[i] = spring[0] * mass[i] + spring[1] * mass[i] * mass[i]


@wp.kernel
def squares(shown: wp.array(dtype=float), mass: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT duplicate-launch warning: total
    wp.atomic_add(total, 0, (shown[i] - mass[i]) * (shown[i] - mass[i]))


@wp.kernel
def divide(total: wp.array(dtype=float), mean: wp.array(dtype=float)):
    mean[0] = total[0] / float(PARCELS)


mass = wp.array(np.linspace(0.1, 2.0, PARCELS), dtype=float)
spring = wp.array([1.3, -0.1], dtype=float, requires_grad=True)
shown = wp.zeros(PARCELS, dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)
mean = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(weigh, dim=PARCELS, inputs=[spring, mass], outputs=[shown])
    wp.launch(squares, dim=PARCELS, inputs=[shown, mass], outputs=[total])
    # CALLED duplicate-launch
    # DROP
    wp.launch(squares, dim=PARCELS, inputs=[shown, mass], outputs=[total])
    # CALLED seed
    wp.launch(divide, dim=1, inputs=[total], outputs=[mean])
# EXPECT seed warning: total, mean
# FIX: tape.backward(mean)
tape.backward(total)
print("mean error", mean.numpy()[0])
