"""A drone's thrusts are optimised with Adam; the step is taken one line too early."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp
from tapedebug.optim import Adam

STEPS = 12


@wp.kernel
def fly(
    state: wp.array(dtype=wp.vec3), thrust: wp.array(dtype=wp.vec3), t: int, after: wp.array(dtype=wp.vec3)
):
    height = state[0][0]
    speed = state[0][1]
    push = thrust[t][0] - 0.4 * speed * wp.abs(speed)
    after[0] = wp.vec3(height + 0.1 * speed, speed + 0.1 * push, state[0][2] + thrust[t][0] * thrust[t][0])


@wp.kernel
def miss(state: wp.array(dtype=wp.vec3), goal: float, loss: wp.array(dtype=float)):
    off = state[0][0] - goal
    loss[0] = off * off + 0.001 * state[0][2]


thrust = wp.array(np.full((STEPS, 3), 0.5), dtype=wp.vec3, requires_grad=True)
start = wp.array([[0.0, 0.2, 0.0]], dtype=wp.vec3, requires_grad=True)
adam = Adam([thrust], lr=0.05)

for _ in range(4):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        state = start
        for t in range(STEPS):
            after = wp.zeros(1, dtype=wp.vec3, requires_grad=True)
            wp.launch(fly, dim=1, inputs=[state, thrust, t], outputs=[after])
            state = after
        wp.launch(miss, dim=1, inputs=[state, 1.0], outputs=[loss])
    # EXPECT stale-gradient error: thrust
    # DROP
    adam.step([thrust.grad])
    # DROP
    tape.zero()
    tape.backward(loss)
    # ADD: adam.step([thrust.grad])
    # ADD: tape.zero()
