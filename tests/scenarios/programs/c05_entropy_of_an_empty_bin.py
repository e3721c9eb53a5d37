"""Fit a mixture to a histogram. One bin of the model is empty, and its logarithm is not finite."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

BINS = 20


@wp.struct
class Mixture:
    weight: wp.array(dtype=float)
    centre: wp.array(dtype=float)


@wp.kernel
def probability(mixture: Mixture, edge: wp.array(dtype=float), p: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for k in range(2):
        d = edge[i] - mixture.centre[k]
        total += mixture.weight[k] * wp.max(1.0 - 0.5 * d * d, 0.0)
    p[i] = total


@wp.kernel
def entropy(p: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    # FIX: wp.atomic_add(loss, 0, -seen[i] * wp.log(wp.max(p[i], 0.001)))
    # EXPECT nonfinite error
    wp.atomic_add(loss, 0, -seen[i] * wp.log(p[i]))


edges = np.linspace(-2.2, 2.2, BINS)
edge = wp.array(edges, dtype=float)
seen = wp.array(np.exp(-(edges**2)), dtype=float)
mixture = Mixture()
mixture.weight = wp.array([0.6, 0.5], dtype=float, requires_grad=True)
mixture.centre = wp.array([-0.4, 0.5], dtype=float, requires_grad=True)
p = wp.zeros(BINS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(probability, dim=BINS, inputs=[mixture, edge], outputs=[p])
    # CALLED nonfinite
    wp.launch(entropy, dim=BINS, inputs=[p, seen], outputs=[loss])
tape.backward(loss)
print("loss", loss.numpy()[0], "gradient", mixture.weight.grad.numpy())
