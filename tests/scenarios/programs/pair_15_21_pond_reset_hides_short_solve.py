"""The level of a pond is solved for by Jacobi, too briefly; and the loss is reset on the tape."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 24
# FIX: ROUNDS = 1500
ROUNDS = 20


@wp.kernel
def relax(h: wp.array(dtype=float), inflow: wp.array(dtype=float), h_next: wp.array(dtype=float)):
    i = wp.tid()
    if i == 0 or i == N - 1:
        h_next[i] = 0.0
    else:
        # EXPECT unconverged warning
        h_next[i] = 0.5 * (h[i - 1] + h[i + 1] + inflow[i])


@wp.kernel
def misfit(h: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (h[i] - wanted[i]) * (h[i] - wanted[i]))


place = np.linspace(0.0, 1.0, N)
inflow = wp.array(0.02 * np.exp(-30.0 * (place - 0.4) ** 2), dtype=float, requires_grad=True)
wanted = wp.array(0.3 * np.sin(np.pi * place), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [inflow]

tape = wp.Tape()
with tape:
    h = wp.zeros(N, dtype=float, requires_grad=True)
    h_next = wp.zeros(N, dtype=float, requires_grad=True)
    for _ in range(ROUNDS):
        # CALLED unconverged
        wp.launch(relax, dim=N, inputs=[h, inflow], outputs=[h_next])
        h, h_next = h_next, h
    wp.launch(misfit, dim=N, inputs=[h, wanted], outputs=[loss])
    # EXPECT after-loss error: loss
    # CALLED after-loss
    # DROP
    loss.zero_()
tape.backward(loss)
