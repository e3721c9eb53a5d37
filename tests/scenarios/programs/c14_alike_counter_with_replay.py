# Contacts are packed with a counter, and the place of each is kept for the reverse pass by a replay function.
# RUN as-warp
import numpy as np
import warp as wp

BALLS = 15


@wp.func
def place_of(counter: wp.array(dtype=int), places: wp.array(dtype=int), i: int):
    k = wp.atomic_add(counter, 0, 1)
    places[i] = k
    return k


@wp.func_replay(place_of)
def place_again(counter: wp.array(dtype=int), places: wp.array(dtype=int), i: int):
    return places[i]


@wp.kernel
def touch(
    height: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    places: wp.array(dtype=int),
    depth: wp.array(dtype=float),
):
    i = wp.tid()
    if height[i] < 0.0:
        k = place_of(counter, places, i)
        depth[k] = height[i] * height[i]


@wp.kernel
def energy(depth: wp.array(dtype=float), loss: wp.array(dtype=float)):
    k = wp.tid()
    wp.atomic_add(loss, 0, depth[k] * float(k + 1))


height = wp.array(np.random.default_rng(2).random(BALLS) - 0.5, dtype=float, requires_grad=True)
counter = wp.zeros(1, dtype=int)
places = wp.zeros(BALLS, dtype=int)
depth = wp.zeros(BALLS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(touch, dim=BALLS, inputs=[height, counter, places], outputs=[depth])
    wp.launch(energy, dim=BALLS, inputs=[depth], outputs=[loss])
tape.backward(loss)
print("touching", counter.numpy()[0])
