"""A grid with walls: the cost of a wall is infinite, and no path through a wall is ever taken."""

import numpy as np

import tapedebug as wp

SIDE = 8


@wp.kernel
def costs(height: wp.array2d(dtype=float), wall: wp.array2d(dtype=int), cost: wp.array2d(dtype=float)):
    i, j = wp.tid()
    if wall[i, j] == 1:
        cost[i, j] = wp.inf
    else:
        cost[i, j] = 1.0 + height[i, j] * height[i, j]


@wp.kernel
def relax(cost: wp.array2d(dtype=float), before: wp.array2d(dtype=float), after: wp.array2d(dtype=float)):
    i, j = wp.tid()
    best = before[i, j]
    if wp.isfinite(cost[i, j]):
        for k in range(2):
            a = wp.max(i - 1, 0)
            b = j
            if k == 1:
                a = i
                b = wp.max(j - 1, 0)
            if wp.isfinite(cost[a, b]):
                best = wp.min(best, before[a, b] + 0.5 * (cost[i, j] + cost[a, b]))
    after[i, j] = best


@wp.kernel
def arrival(distance: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    loss[0] = distance[SIDE - 1, SIDE - 1]


rng = np.random.default_rng(9)
walls = np.zeros((SIDE, SIDE), dtype=np.int32)
walls[2, 1:5] = 1
walls[5, 4:] = 1
start = np.full((SIDE, SIDE), 50.0, dtype=np.float32)
start[0, 0] = 0.0
height = wp.array(rng.uniform(0.1, 1.0, size=(SIDE, SIDE)), dtype=float, requires_grad=True)
wall = wp.array(walls, dtype=int)
cost = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
distance = wp.array(start, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [height]

tape = wp.Tape()
with tape:
    wp.launch(costs, dim=(SIDE, SIDE), inputs=[height, wall], outputs=[cost])
    for _ in range(2 * SIDE):
        after = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
        wp.launch(relax, dim=(SIDE, SIDE), inputs=[cost, distance], outputs=[after])
        distance = after
    wp.launch(arrival, dim=1, inputs=[distance], outputs=[loss])
tape.backward(loss)
print("distance", loss.numpy()[0])
