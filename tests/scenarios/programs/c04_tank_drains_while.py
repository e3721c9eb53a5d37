# How long tanks take to drain to a level, and what the valve does to it: a `while` until the level is reached.
# RUN as-warp
import numpy as np
import warp as wp

TANKS = 5


@wp.kernel
def drain(
    level: wp.array(dtype=float),
    valve: wp.array(dtype=float),
    low: float,
    rest: wp.array(dtype=float),
):
    i = wp.tid()
    h = level[i]
    # EXPECT warp-limitation error: valve
    # FIX: for _ in range(16):
    while h > low:
        # FIX: h = wp.where(h > low, h - valve[0] * wp.sqrt(h), h)
        h = h - valve[0] * wp.sqrt(h)
    rest[i] = h


@wp.kernel
def squared(rest: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, rest[i] * rest[i])


level = wp.array(np.linspace(1.0, 2.2, TANKS), dtype=float, requires_grad=True)
valve = wp.array([0.12], dtype=float, requires_grad=True)
rest = wp.zeros(TANKS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED warp-limitation
    wp.launch(drain, dim=TANKS, inputs=[level, valve, 0.5], outputs=[rest])
    wp.launch(squared, dim=TANKS, inputs=[rest], outputs=[loss])
tape.backward(loss)
print("left", rest.numpy())
