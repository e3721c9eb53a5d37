"""warp-nn: a perceptron with a normalization layer, trained for a few steps as its documentation shows."""

import numpy as np
import warp as wp
import warp_nn.nn as nn
from warp.optim import Adam

wp.config.quiet = True
rng = np.random.default_rng(0)


@wp.kernel
def squared_error(y: wp.array2d(dtype=float), target: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    d = y[i, j] - target[i, j]
    wp.atomic_add(loss, 0, d * d)


network = nn.Sequential([nn.Linear(4, 16), nn.ELU(), nn.LayerNorm(16), nn.Linear(16, 2), nn.Softplus()])
parameters = list(network.parameters())
x = wp.array(rng.normal(size=(8, 4)).astype(np.float32), dtype=float)
target = wp.array(rng.normal(size=(8, 2)).astype(np.float32), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)
optimizer = Adam([p.flatten() for p in parameters], lr=1e-2)
for _ in range(3):
    loss.zero_()
    with wp.Tape() as tape:
        y = network(x)
        wp.launch(squared_error, dim=y.shape, inputs=[y, target], outputs=[loss])
    tape.backward(loss)
    optimizer.step([p.grad.flatten() for p in parameters])
    tape.zero()
