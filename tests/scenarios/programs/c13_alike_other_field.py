"""A battery pack ages: the field of the struct that is written over is not the one that an adjoint needs."""

import numpy as np

import tapedebug as wp

CELLS = 15
CYCLES = 5


@wp.struct
class Pack:
    charge: wp.array(dtype=float)
    heat: wp.array(dtype=float)
    age: wp.array(dtype=float)


@wp.kernel
def discharge(pack: Pack, load: wp.array(dtype=float), charge_next: wp.array(dtype=float)):
    i = wp.tid()
    charge_next[i] = pack.charge[i] - load[i] * load[i] * wp.exp(-pack.charge[i])


@wp.kernel
def warm(pack: Pack, load: wp.array(dtype=float)):
    i = wp.tid()
    pack.heat[i] = 0.9 * pack.heat[i] + 0.1 * load[i]
    pack.age[i] = pack.age[i] + 1.0


@wp.kernel
def deficit(pack: Pack, loss: wp.array(dtype=float)):
    i = wp.tid()
    left = pack.charge[i] - 0.2 - 0.05 * pack.heat[i] * pack.heat[i]
    wp.atomic_add(loss, 0, left * left)


rng = np.random.default_rng(1)
pack = Pack()
pack.charge = wp.full(CELLS, 2.0, dtype=float, requires_grad=True)
pack.heat = wp.zeros(CELLS, dtype=float, requires_grad=True)
pack.age = wp.zeros(CELLS, dtype=float)
load = wp.array(rng.uniform(0.3, 1.0, CELLS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [load]

with wp.Tape(on_overwrite="ignore") as tape:
    for cycle in range(CYCLES):
        charge_next = wp.zeros(CELLS, dtype=float, requires_grad=True)
        wp.launch(discharge, dim=CELLS, inputs=[pack, load], outputs=[charge_next])
        wp.launch(warm, dim=CELLS, inputs=[pack, load])
        pack.charge = charge_next
    wp.launch(deficit, dim=CELLS, inputs=[pack], outputs=[loss])
tape.backward(loss)
