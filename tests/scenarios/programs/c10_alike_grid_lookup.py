"""A wind field on a grid: `floor` finds the cell, the weights are smooth, and the gradient is right."""

import numpy as np

import tapedebug as wp

N = 30
CELLS = 12
STEPS = 8


@wp.func
def wind_at(wind: wp.array2d(dtype=wp.vec2), x: float, y: float):
    i = int(wp.floor(x))
    j = int(wp.floor(y))
    a = x - wp.floor(x)
    b = y - wp.floor(y)
    low = wind[i, j] * (1.0 - b) + wind[i, j + 1] * b
    high = wind[i + 1, j] * (1.0 - b) + wind[i + 1, j + 1] * b
    return low * (1.0 - a) + high * a


@wp.kernel
def drift(p: wp.array(dtype=wp.vec2), wind: wp.array2d(dtype=wp.vec2), p_next: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    x = wp.clamp(p[i][0], 0.5, 10.5)
    y = wp.clamp(p[i][1], 0.5, 10.5)
    p_next[i] = p[i] + 0.2 * wind_at(wind, x, y)


@wp.kernel
def spread(p: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.length_sq(p[wp.tid()] - wp.vec2(6.0, 6.0)))


rng = np.random.default_rng(8)
p = wp.array(rng.uniform(2.0, 9.0, (N, 2)), dtype=wp.vec2, requires_grad=True)
wind = wp.array(rng.normal(size=(CELLS, CELLS, 2)), dtype=wp.vec2, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        p_next = wp.zeros(N, dtype=wp.vec2, requires_grad=True)
        wp.launch(drift, dim=N, inputs=[p, wind], outputs=[p_next])
        p = p_next
    wp.launch(spread, dim=N, inputs=[p], outputs=[loss])
tape.backward(loss)
