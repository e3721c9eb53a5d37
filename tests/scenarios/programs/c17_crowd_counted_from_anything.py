"""Find how hard people in a crowd push. Neighbours are counted in an array that was never set to zero."""

import numpy as np

import tapedebug as wp

PEOPLE, STEPS = 10, 3
NEAR = 0.35


@wp.kernel
def count_neighbours(x: wp.array(dtype=wp.vec2), neighbours: wp.array(dtype=int)):
    i, j = wp.tid()
    if i != j and wp.length(x[i] - x[j]) < NEAR:
        # EXPECT uninitialised-read error: neighbours
        wp.atomic_add(neighbours, i, 1)


@wp.kernel
def walk(
    x: wp.array(dtype=wp.vec2),
    neighbours: wp.array(dtype=int),
    push: wp.array(dtype=float),
    x_next: wp.array(dtype=wp.vec2),
):
    i = wp.tid()
    crowded = wp.clamp(neighbours[i], 0, 8)
    x_next[i] = x[i] * (1.0 + push[0] * float(crowded) / 8.0)


@wp.kernel
def extent(x: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.dot(x[wp.tid()], x[wp.tid()]))


rng = np.random.default_rng(6)
start = wp.array(rng.uniform(-0.5, 0.5, (PEOPLE, 2)), dtype=wp.vec2)
push = wp.array([0.3], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    x = start
    # FIX: neighbours = wp.zeros(PEOPLE, dtype=int)
    neighbours = wp.empty(PEOPLE, dtype=int)
    for _ in range(STEPS):
        x_next = wp.zeros(PEOPLE, dtype=wp.vec2, requires_grad=True)
        # CALLED uninitialised-read
        wp.launch(count_neighbours, dim=(PEOPLE, PEOPLE), inputs=[x, neighbours])
        wp.launch(walk, dim=PEOPLE, inputs=[x, neighbours, push], outputs=[x_next])
        x = x_next
    wp.launch(extent, dim=PEOPLE, inputs=[x], outputs=[loss])
tape.backward(loss)
