"""The energy of a beam before a fit and again for its gradient: the second is the sum of both."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

N = 12


@wp.kernel
def bend(load: wp.array(dtype=float), w: wp.array(dtype=float)):
    i = wp.tid()
    w[i] = load[i] * load[i] / 8.0


@wp.kernel
def energy(w: wp.array(dtype=float), total: wp.array(dtype=float)):
    # EXPECT not-reset warning: total
    wp.atomic_add(total, 0, 0.5 * w[wp.tid()] * w[wp.tid()])


load = wp.array(np.linspace(0.5, 2.0, N), dtype=float, requires_grad=True)
w = wp.zeros(N, dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)


def evaluate():
    # ADD: total.zero_()
    with wp.Tape() as tape:
        wp.launch(bend, dim=N, inputs=[load], outputs=[w])
        # CALLED not-reset
        wp.launch(energy, dim=N, inputs=[w], outputs=[total])
    return tape


evaluate()
print("before:", total.numpy()[0])
tape = evaluate()
print("now:", total.numpy()[0])
tape.backward(total)
