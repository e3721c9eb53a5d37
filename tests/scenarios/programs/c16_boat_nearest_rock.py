"""A boat keeps away from the nearest rock: each rock compares its distance with the smallest so far, and replaces it."""

import numpy as np

import tapedebug as wp

ROCKS = 8


@wp.kernel
def nearest(boat: wp.array(dtype=wp.vec2), rocks: wp.array(dtype=wp.vec2), best: wp.array(dtype=float)):
    r = wp.tid()
    d = wp.length(rocks[r] - boat[0])
    # FIX: if d > 0.0:
    if best[0] > d:
        # EXPECT race error: best
        # FIX: wp.atomic_min(best, 0, d)
        best[0] = d


@wp.kernel
def danger(best: wp.array(dtype=float), loss: wp.array(dtype=float)):
    loss[0] = 1.0 / best[0]


# The nearest rock is in the middle of the list: neighbours in the list are in order of distance.
where = np.array(
    [[5.0, 1.0], [4.0, 0.5], [3.0, 0.2], [1.2, 0.1], [2.0, 0.4], [3.0, 1.0], [4.0, 2.0], [6.0, 1.0]]
)
rocks = wp.array(where, dtype=wp.vec2)
boat = wp.array([[0.1, 0.0]], dtype=wp.vec2, requires_grad=True)
best = wp.array([1.0e6], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    # CALLED race
    wp.launch(nearest, dim=ROCKS, inputs=[boat, rocks], outputs=[best])
    wp.launch(danger, dim=1, inputs=[best], outputs=[loss])
tape.backward(loss)
inputs = [boat]
