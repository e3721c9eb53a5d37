"""A kiln's schedule: the gradients are cloned for Adam, and cleared, by a helper that runs too early."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp
from tapedebug.optim import Adam

STEPS = 12


@wp.kernel
def fire(heat: wp.array(dtype=float), burn: wp.array(dtype=float), t: int, after: wp.array(dtype=float)):
    after[0] = heat[0] + 0.2 * burn[t] - 0.05 * heat[0] * heat[0]


@wp.kernel
def off_curve(heat: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, (heat[0] - wanted) * (heat[0] - wanted))


def fetch_and_clear(p):
    # EXPECT stale-gradient error: burn
    g = wp.clone(p.grad)
    p.grad.zero_()
    return g


def run(burn):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        heat = wp.array([0.2], dtype=float, requires_grad=True)
        for t in range(STEPS):
            after = wp.zeros(1, dtype=float, requires_grad=True)
            wp.launch(fire, dim=1, inputs=[heat, burn, t], outputs=[after])
            wp.launch(off_curve, dim=1, inputs=[after, 0.1 * float(t)], outputs=[loss])
            heat = after
    return tape, loss


burn = wp.array(np.full(STEPS, 0.5), dtype=float, requires_grad=True)
adam = Adam([burn], lr=0.02)
tapes = []
for _ in range(4):
    # FIX: tape, miss = run(burn)
    g = fetch_and_clear(burn)
    # FIX: tape.backward(miss)
    tape, miss = run(burn)
    # FIX: g = fetch_and_clear(burn)
    tape.backward(miss)
    adam.step([g])
    tapes.append(tape)
