"""The nearest and the highest of many, by atomics that no order changes, and a flag that many threads raise."""

import numpy as np

import tapedebug as wp

ROCKS = 8


@wp.kernel
def survey(
    boat: wp.array(dtype=wp.vec2),
    rocks: wp.array(dtype=wp.vec2),
    extremes: wp.array(dtype=float),
    near: wp.array(dtype=int),
):
    r = wp.tid()
    d = wp.length(rocks[r] - boat[0])
    wp.atomic_min(extremes, 0, d)
    wp.atomic_max(extremes, 1, d)
    if d < 3.5 and near[0] == 0:
        near[0] = 1


@wp.kernel
def danger(extremes: wp.array(dtype=float), near: wp.array(dtype=int), loss: wp.array(dtype=float)):
    loss[0] = float(near[0]) / extremes[0] + 0.1 * extremes[1]


where = np.array(
    [[5.0, 1.0], [4.0, 0.5], [3.0, 0.2], [1.2, 0.1], [2.0, 0.4], [3.0, 1.0], [4.0, 2.0], [6.0, 1.0]]
)
rocks = wp.array(where, dtype=wp.vec2)
boat = wp.array([[0.1, 0.0]], dtype=wp.vec2, requires_grad=True)
extremes = wp.array([1.0e6, 0.0], dtype=float, requires_grad=True)
near = wp.zeros(1, dtype=int)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(survey, dim=ROCKS, inputs=[boat, rocks], outputs=[extremes, near])
    wp.launch(danger, dim=1, inputs=[extremes, near], outputs=[loss])
tape.backward(loss)
inputs = [boat]
