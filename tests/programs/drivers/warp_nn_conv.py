"""warp-nn: a convolution, a pooling layer and a softmax, one reverse pass."""

import numpy as np
import warp as wp
import warp_nn.nn as nn

wp.config.quiet = True
rng = np.random.default_rng(0)


@wp.kernel
def negative_log(p: wp.array2d(dtype=float), label: wp.array(dtype=int), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, -wp.log(p[i, label[i]]))


network = nn.Sequential(
    [nn.Conv2D(1, 3, 3), nn.MaxPool2D(2), nn.Flatten(), nn.Mish(), nn.Linear(27, 4), nn.Softmax()]
)
x = wp.array(rng.normal(size=(2, 1, 8, 8)).astype(np.float32), dtype=float, requires_grad=True)
label = wp.array([1, 3], dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    p = network(x)
    wp.launch(negative_log, dim=2, inputs=[p, label], outputs=[loss])
tape.backward(loss)
