"""Identify the stiffness of a truss in windows of time; the state goes back to the start of the next window."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

NODES = 24
STEPS = 8


@wp.struct
class Truss:
    q: wp.array(dtype=wp.vec3)
    v: wp.array(dtype=wp.vec3)


@wp.kernel
def advance(now: Truss, stiffness: wp.array(dtype=float), then: Truss):
    i = wp.tid()
    left = now.q[wp.max(i - 1, 0)]
    right = now.q[wp.min(i + 1, NODES - 1)]
    bend = left - 2.0 * now.q[i] + right
    force = stiffness[i] * bend * (1.0 + 0.2 * wp.dot(now.q[i], now.q[i]))
    then.v[i] = 0.98 * now.v[i] + 0.1 * force
    then.q[i] = now.q[i] + 0.1 * then.v[i]


@wp.kernel
def distance(q: wp.array(dtype=wp.vec3), seen: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(q[i] - seen[i]))


def truss():
    state = Truss()
    state.q = wp.zeros(NODES, dtype=wp.vec3, requires_grad=True)
    state.v = wp.zeros(NODES, dtype=wp.vec3, requires_grad=True)
    return state


rng = np.random.default_rng(5)
states = [truss() for _ in range(STEPS + 1)]
states[0].q.assign(rng.normal(size=(NODES, 3)).astype(np.float32))
seen = wp.array(rng.normal(size=(NODES, 3)).astype(np.float32), dtype=wp.vec3)
stiffness = wp.array(np.linspace(0.5, 1.5, NODES), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [stiffness]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    with wp.ScopedTimer("window", active=False):
        for step in range(STEPS):
            wp.launch(advance, dim=NODES, inputs=[states[step], stiffness], outputs=[states[step + 1]])
    wp.launch(distance, dim=NODES, inputs=[states[STEPS].q, seen], outputs=[loss])
    # EXPECT after-loss error
    # CALLED after-loss
    # DROP
    wp.copy(states[0].q, states[STEPS].q)
    # DROP
    wp.copy(states[0].v, states[STEPS].v)
tape.backward(loss)
# ADD: wp.copy(states[0].q, states[STEPS].q)
# ADD: wp.copy(states[0].v, states[STEPS].v)
print(stiffness.grad.numpy())
