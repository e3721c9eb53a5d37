"""Find where goods earn most. The price is that of the shelf, an index computed from the place."""

import numpy as np

import tapedebug as wp

GOODS = 20
SHELVES = 9
LENGTH = 4.0


@wp.kernel
def earn(
    place: wp.array(dtype=float),
    demand: wp.array(dtype=float),
    price: wp.array(dtype=float),
    profit: wp.array(dtype=float),
):
    i = wp.tid()
    last = price.shape[0] - 1
    shelves = wp.clamp(place[i] / LENGTH, 0.0, 0.999) * float(last)
    # EXPECT flat-op warning: place
    shelf = int(shelves)
    # FIX: profit[i] = demand[i] * wp.lerp(price[shelf], price[shelf + 1], shelves - wp.floor(shelves))
    profit[i] = demand[i] * price[shelf]


@wp.kernel
def lost(profit: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (30.0 - profit[i]) * (30.0 - profit[i]))


rng = np.random.default_rng(2)
place = wp.array(rng.uniform(0.1, 3.9, GOODS), dtype=float, requires_grad=True)
demand = wp.array(rng.uniform(1.0, 2.0, GOODS), dtype=float, requires_grad=True)
price = wp.array(np.linspace(3.0, 9.0, SHELVES) ** 1.2, dtype=float)
profit = wp.zeros(GOODS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED flat-op
    wp.launch(earn, dim=GOODS, inputs=[place, demand, price], outputs=[profit])
    wp.launch(lost, dim=GOODS, inputs=[profit], outputs=[loss])
tape.backward(loss)
