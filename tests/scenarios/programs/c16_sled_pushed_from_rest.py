"""Find the pushes that bring a sled to its goal. Every step is a thread, and reads the previous position.

The first guess is not to push at all: then every order of steps leaves the sled where it is.
"""

import tapedebug as wp

STEPS = 6
GOAL = 1.5


@wp.kernel
def slide(push: wp.array(dtype=float), x: wp.array(dtype=float)):
    # FIX: for t in range(STEPS):
    for t in range(wp.tid(), wp.tid() + 1):
        # EXPECT race error: x
        x[t + 1] = x[t] + 0.1 * push[t]


@wp.kernel
def miss(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    d = x[STEPS] - GOAL
    loss[0] = d * d


push = wp.zeros(STEPS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    x = wp.zeros(STEPS + 1, dtype=float, requires_grad=True)
    # CALLED race
    # FIX: wp.launch(slide, dim=1, inputs=[push], outputs=[x])
    wp.launch(slide, dim=STEPS, inputs=[push], outputs=[x])
    wp.launch(miss, dim=1, inputs=[x], outputs=[loss])
tape.backward(loss)
inputs = [push]
