"""Damping of a pendulum from its swing, simulated in windows of one tape each; gradients are summed."""

import numpy as np

import tapedebug as wp

SWINGS = 10
WINDOWS, STEPS = 3, 8


@wp.kernel
def swing(state: wp.array(dtype=wp.vec2), damping: wp.array(dtype=float), after: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    # EXPECT truncated warning: damping
    angle = state[i][0]
    speed = state[i][1]
    change = -4.0 * wp.sin(angle) - damping[0] * speed
    after[i] = wp.vec2(angle + 0.05 * speed, speed + 0.05 * change)


@wp.kernel
def compare(state: wp.array(dtype=wp.vec2), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (state[i][0] - seen[i]) * (state[i][0] - seen[i]))


start = np.stack([np.linspace(0.2, 1.4, SWINGS), np.zeros(SWINGS)], axis=1)
damping = wp.array([0.3], dtype=float, requires_grad=True)
seen = wp.array(np.linspace(0.1, 0.4, SWINGS), dtype=float)
state = wp.array(start, dtype=wp.vec2, requires_grad=True)

tapes, losses = [], []
for window in range(WINDOWS):
    misfit = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for _ in range(STEPS):
            after = wp.zeros(SWINGS, dtype=wp.vec2, requires_grad=True)
            # CALLED truncated
            wp.launch(swing, dim=SWINGS, inputs=[state, damping], outputs=[after])
            state = after
        wp.launch(compare, dim=SWINGS, inputs=[state, seen], outputs=[misfit])
    tapes.append(tape)
    losses.append(misfit)

# FIX: for tape, misfit in reversed(list(zip(tapes, losses, strict=True))):
for tape, misfit in zip(tapes, losses, strict=True):
    tape.backward(misfit)
damping.assign(damping.numpy() - 0.1 * damping.grad.numpy())
