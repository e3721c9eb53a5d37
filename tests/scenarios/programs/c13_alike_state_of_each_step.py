"""Balls fly through air: a struct of arrays for every step, so that nothing is written over."""

# RUN as-warp
from itertools import pairwise

import numpy as np
import warp as wp

BALLS = 10
STEPS = 6


@wp.struct
class State:
    position: wp.array(dtype=wp.vec3)
    velocity: wp.array(dtype=wp.vec3)


@wp.kernel
def fly(state: State, drag: wp.array(dtype=float), after: State):
    i = wp.tid()
    v = state.velocity[i]
    after.velocity[i] = v + 0.05 * (wp.vec3(0.0, 0.0, -9.81) - drag[i] * wp.length(v) * v)
    after.position[i] = state.position[i] + 0.05 * after.velocity[i]


@wp.kernel
def miss(state: State, target: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(state.position[i] - target[i]))


def make_state():
    state = State()
    state.position = wp.zeros(BALLS, dtype=wp.vec3, requires_grad=True)
    state.velocity = wp.zeros(BALLS, dtype=wp.vec3, requires_grad=True)
    return state


rng = np.random.default_rng(9)
target = wp.array(rng.normal(size=(BALLS, 3)), dtype=wp.vec3)
drag = wp.full(BALLS, 0.2, dtype=float, requires_grad=True)
states = [make_state() for _ in range(STEPS + 1)]
states[0].velocity.assign((4.0 + rng.normal(size=(BALLS, 3))).astype(np.float32))
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for state, after in pairwise(states):
        wp.launch(fly, dim=BALLS, inputs=[state, drag], outputs=[after])
    wp.launch(miss, dim=BALLS, inputs=[states[-1], target], outputs=[loss])
tape.backward(loss)
