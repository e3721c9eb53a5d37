"""warp-nn: a recurrent cell, called for three steps of a sequence as `torch.nn.GRUCell` is."""

import numpy as np
import warp as wp
import warp_nn.nn as nn

wp.config.quiet = True
rng = np.random.default_rng(0)


@wp.kernel
def squares(h: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, h[i, j] * h[i, j])


cell = nn.GRUCell(4, 8)
sequence = [wp.array(rng.normal(size=(5, 4)).astype(np.float32), dtype=float) for _ in range(3)]
h = wp.array(rng.normal(size=(5, 8)).astype(np.float32), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    for x in sequence:
        h = cell(x, h)
    wp.launch(squares, dim=h.shape, inputs=[h], outputs=[loss])
tape.backward(loss)
