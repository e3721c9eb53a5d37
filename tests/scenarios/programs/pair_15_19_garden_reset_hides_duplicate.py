"""Water a garden: a term of the cost is launched twice, and the reset of the cost on the tape hides it."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

BEDS = 16


@wp.kernel
def soak(water: wp.array(dtype=float), slope: wp.array(dtype=float), moisture: wp.array(dtype=float)):
    i = wp.tid()
    above = water[wp.max(i - 1, 0)]
    moisture[i] = wp.tanh(water[i] + slope[i] * above)


@wp.kernel
def thirst(moisture: wp.array(dtype=float), need: wp.array(dtype=float), cost: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(cost, 0, (moisture[i] - need[i]) * (moisture[i] - need[i]))


@wp.kernel
def bill(water: wp.array(dtype=float), price: float, cost: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT duplicate-launch warning: cost
    wp.atomic_add(cost, 0, price * water[i] * water[i])


def beds(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


water, slope = beds(np.linspace(0.2, 0.9, BEDS)), beds(np.full(BEDS, 0.3))
need, moisture = beds(np.linspace(0.3, 0.7, BEDS)), beds(np.zeros(BEDS))
cost = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [water]

tape = wp.Tape()
with tape:
    wp.launch(soak, dim=BEDS, inputs=[water, slope], outputs=[moisture])
    wp.launch(bill, dim=BEDS, inputs=[water, 0.05], outputs=[cost])
    wp.launch(thirst, dim=BEDS, inputs=[moisture, need], outputs=[cost])
    # CALLED duplicate-launch
    # DROP
    wp.launch(bill, dim=BEDS, inputs=[water, 0.05], outputs=[cost])
    print("cost", cost.numpy()[0])
    # EXPECT after-loss error: cost
    # CALLED after-loss
    # DROP
    cost.zero_()
tape.backward(cost)
