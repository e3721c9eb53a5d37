"""Prices at which a market clears, found by trading back and forth; taxes are chosen for a wanted revenue."""

import numpy as np

import tapedebug as wp

GOODS = 12
# FIX: ROUNDS = 40
ROUNDS = 4


@wp.kernel
def demand(price: wp.array(dtype=float), tax: wp.array(dtype=float), sold: wp.array(dtype=float)):
    i = wp.tid()
    sold[i] = 10.0 / (1.0 + price[i] + tax[i])


@wp.kernel
def offer(sold: wp.array(dtype=float), cost: wp.array(dtype=float), price: wp.array(dtype=float)):
    i = wp.tid()
    other = sold[(i + 1) % sold.shape[0]]
    # EXPECT unconverged warning: price
    price[i] = cost[i] + 0.55 * sold[i] + 0.1 * other


@wp.kernel
def revenue(
    price: wp.array(dtype=float), tax: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)
):
    i = wp.tid()
    taken = tax[i] * 10.0 / (1.0 + price[i] + tax[i])
    wp.atomic_add(loss, 0, (taken - wanted) * (taken - wanted))


tax = wp.array(np.linspace(0.1, 0.6, GOODS), dtype=float, requires_grad=True)
cost = wp.array(np.linspace(0.2, 0.9, GOODS), dtype=float, requires_grad=True)
price = wp.zeros(GOODS, dtype=float, requires_grad=True)
sold = wp.zeros(GOODS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    tape.record_scope_begin("fixed point of the market")
    for _ in range(ROUNDS):
        wp.launch(demand, dim=GOODS, inputs=[price, tax], outputs=[sold])
        # CALLED unconverged
        wp.launch(offer, dim=GOODS, inputs=[sold, cost], outputs=[price])
    tape.record_scope_end()
    wp.launch(revenue, dim=GOODS, inputs=[price, tax, 1.2], outputs=[loss])
tape.backward(loss)
