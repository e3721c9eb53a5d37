"""Conductivity of a rod by gradient descent; the loop prints a loss that no step ever sets back to zero."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 16


@wp.kernel
def conduct(k: wp.array(dtype=float), flux: wp.array(dtype=float), t: wp.array(dtype=float)):
    i = wp.tid()
    t[i] = 20.0 + flux[i] / k[i]


@wp.kernel
def misfit(t: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT not-reset warning: loss
    wp.atomic_add(loss, 0, (t[i] - seen[i]) * (t[i] - seen[i]))


@wp.kernel
def descend(k: wp.array(dtype=float), slope: wp.array(dtype=float), rate: float):
    i = wp.tid()
    k[i] = k[i] - rate * slope[i]


k = wp.array(np.full(N, 2.0), dtype=float, requires_grad=True)
flux = wp.array(np.linspace(1.0, 3.0, N), dtype=float)
seen = wp.array(20.0 + np.linspace(1.0, 3.0, N) / 2.5, dtype=float)
t = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

for step in range(5):
    # ADD: loss.zero_()
    tape = wp.Tape()
    with tape:
        wp.launch(conduct, dim=N, inputs=[k, flux], outputs=[t])
        # CALLED not-reset
        wp.launch(misfit, dim=N, inputs=[t, seen], outputs=[loss])
    tape.backward(loss)
    print(step, float(loss.numpy()[0]))
    wp.launch(descend, dim=N, inputs=[k, k.grad, 0.5])
    tape.zero()
