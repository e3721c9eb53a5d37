# Sparks that are still hot are packed to the front of an array, with an atomic counter for their places.
# RUN as-warp
import numpy as np
import warp as wp

SPARKS = 20


# ADD: @wp.func
# ADD: def next_place(counter: wp.array(dtype=int), places: wp.array(dtype=int), i: int):
# ADD:     k = wp.atomic_add(counter, 0, 1)
# ADD:     places[i] = k
# ADD:     return k
# ADD:
# ADD:
# ADD: @wp.func_replay(next_place)
# ADD: def same_place(counter: wp.array(dtype=int), places: wp.array(dtype=int), i: int):
# ADD:     return places[i]
# ADD:


@wp.kernel
def pack(
    heat: wp.array(dtype=float),
    limit: float,
    counter: wp.array(dtype=int),
    places: wp.array(dtype=int),
    hot: wp.array(dtype=float),
):
    i = wp.tid()
    if heat[i] > limit:
        # EXPECT replayed-counter error: heat
        # FIX: k = next_place(counter, places, i)
        k = wp.atomic_add(counter, 0, 1)
        hot[k] = wp.sqrt(heat[i] - limit) * float(k + 1)


@wp.kernel
def glow(hot: wp.array(dtype=float), loss: wp.array(dtype=float)):
    k = wp.tid()
    wp.atomic_add(loss, 0, hot[k] * hot[k] * wp.exp(-0.1 * float(k)))


rng = np.random.default_rng(6)
heat = wp.array(rng.random(SPARKS), dtype=float, requires_grad=True)
counter = wp.zeros(1, dtype=int)
places = wp.zeros(SPARKS, dtype=int)
hot = wp.zeros(SPARKS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED replayed-counter
    wp.launch(pack, dim=SPARKS, inputs=[heat, 0.4, counter, places], outputs=[hot])
    wp.launch(glow, dim=SPARKS, inputs=[hot], outputs=[loss])
tape.backward(loss)
print("hot", counter.numpy()[0], "glow", loss.numpy()[0])
