"""Isotopes decay in a chain, written for Warp: a loop of so many parts, and a buffer that takes turns."""

# RUN as-warp
import numpy as np
import warp as wp

ISOTOPES = 8
STEPS = 6


@wp.kernel
def decay(
    amount: wp.array(dtype=float), rate: wp.array(dtype=float), parts: int, amount_next: wp.array(dtype=float)
):
    i = wp.tid()
    left = amount[i]
    # FIX: for k in range(3):
    # EXPECT warp-limitation error
    for k in range(parts):
        left *= 1.0 - 0.1 * rate[i] * left
    gained = float(0.0)
    if i > 0:
        gained = 0.1 * rate[i - 1] * amount[i - 1] * amount[i - 1]
    # EXPECT overwrite error
    amount_next[i] = left + gained


@wp.kernel
def seen(amount: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (amount[i] - 0.3) * (amount[i] - 0.3))


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


amount, amount_next = numbers(np.linspace(1.0, 0.2, ISOTOPES)), numbers(np.zeros(ISOTOPES))
rate = numbers(np.linspace(0.2, 0.9, ISOTOPES))
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for _ in range(STEPS):
        # ADD: amount_next = numbers(np.zeros(ISOTOPES))
        # CALLED overwrite
        # CALLED warp-limitation
        wp.launch(decay, dim=ISOTOPES, inputs=[amount, rate, 3], outputs=[amount_next])
        amount, amount_next = amount_next, amount
    wp.launch(seen, dim=ISOTOPES, inputs=[amount], outputs=[loss])
tape.backward(loss)
print(rate.grad.numpy())
