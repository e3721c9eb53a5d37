"""Episodes that begin anew: one state buffer for all, reset before each; gradients are summed on purpose."""

import numpy as np

import tapedebug as wp

CARTS, STEPS = 6, 10


@wp.kernel
def drive(state: wp.array(dtype=wp.vec2), gains: wp.array(dtype=wp.vec2), after: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    x = state[i][0]
    v = state[i][1]
    force = -gains[0][0] * x - gains[0][1] * v
    after[i] = wp.vec2(x + 0.1 * v, v + 0.1 * force)


@wp.kernel
def effort(state: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(state[i]))


rng = np.random.default_rng(4)
gains = wp.array([[1.0, 0.6]], dtype=wp.vec2, requires_grad=True)
state = wp.zeros(CARTS, dtype=wp.vec2, requires_grad=True)
other = wp.zeros(CARTS, dtype=wp.vec2, requires_grad=True)
tapes = []
for episode in range(3):
    state.assign(rng.normal(size=(CARTS, 2)))
    total = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for _ in range(STEPS):
            wp.launch(drive, dim=CARTS, inputs=[state, gains], outputs=[other])
            state, other = other, state
        wp.launch(effort, dim=CARTS, inputs=[state], outputs=[total])
    tape.backward(total)
    state.grad.zero_()
    other.grad.zero_()
    tapes.append(tape)
gains.assign(gains.numpy() - 0.01 * gains.grad.numpy())
