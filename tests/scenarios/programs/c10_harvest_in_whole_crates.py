"""Find how much to water a field. Crates are counted in whole numbers, and the income follows from the count."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

FIELDS = 14


@wp.kernel
def grow(water: wp.array(dtype=float), soil: wp.array(dtype=float), wheat: wp.array(dtype=float)):
    i = wp.tid()
    wheat[i] = 40.0 * soil[i] * water[i] * (2.0 - water[i])


@wp.kernel
def pack(wheat: wp.array(dtype=float), crates: wp.array(dtype=int)):
    i = wp.tid()
    # EXPECT disconnected warning: water, crates
    # EXPECT disconnected warning: soil, crates
    crates[i] = int(wheat[i])


@wp.kernel
def sell(crates: wp.array(dtype=int), loss: wp.array(dtype=float)):
    i = wp.tid()
    missing = 60.0 - float(crates[i])
    wp.atomic_add(loss, 0, missing * missing)


@wp.kernel
def sell_by_weight(wheat: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    missing = 60.0 - wheat[i]
    wp.atomic_add(loss, 0, missing * missing)


place = np.linspace(0.0, 1.0, FIELDS)
water = wp.array(0.3 + 0.4 * place, dtype=float, requires_grad=True)
soil = wp.array(1.0 + 0.3 * np.sin(4.0 * place), dtype=float, requires_grad=True)
wheat = wp.zeros(FIELDS, dtype=float, requires_grad=True)
crates = wp.zeros(FIELDS, dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(grow, dim=FIELDS, inputs=[water, soil], outputs=[wheat])
    wp.launch(pack, dim=FIELDS, inputs=[wheat], outputs=[crates])
    # FIX: wp.launch(sell_by_weight, dim=FIELDS, inputs=[wheat], outputs=[loss])
    wp.launch(sell, dim=FIELDS, inputs=[crates], outputs=[loss])
tape.backward(loss)
print("gradient of the water", water.grad.numpy().max())
