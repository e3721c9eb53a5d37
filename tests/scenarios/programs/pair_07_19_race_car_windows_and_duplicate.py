"""Tyres of a race car, in windows of one tape each; a term is launched twice in every window."""

import numpy as np

import tapedebug as wp

CARS = 8
WINDOWS, STEPS = 3, 5


@wp.kernel
def drive(state: wp.array(dtype=wp.vec2), grip: wp.array(dtype=float), after: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    # EXPECT truncated warning: grip
    place = state[i][0]
    speed = state[i][1]
    after[i] = wp.vec2(place + 0.1 * speed, speed + 0.1 * (grip[i] - 0.2 * speed * speed))


@wp.kernel
def behind(state: wp.array(dtype=wp.vec2), goal: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (state[i][0] - goal[i]) * (state[i][0] - goal[i]))


@wp.kernel
def wear(grip: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT duplicate-launch warning: loss
    wp.atomic_add(loss, 0, 0.05 * grip[i] * grip[i])


start = np.stack([np.zeros(CARS), np.linspace(0.5, 1.5, CARS)], axis=1)
grip = wp.array(np.linspace(0.8, 1.6, CARS), dtype=float, requires_grad=True)
goal = wp.array(np.linspace(0.5, 2.0, CARS), dtype=float)
state = wp.array(start, dtype=wp.vec2, requires_grad=True)

tapes, losses = [], []
for window in range(WINDOWS):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(wear, dim=CARS, inputs=[grip], outputs=[loss])
        for _ in range(STEPS):
            after = wp.zeros(CARS, dtype=wp.vec2, requires_grad=True)
            # CALLED truncated
            wp.launch(drive, dim=CARS, inputs=[state, grip], outputs=[after])
            state = after
        wp.launch(behind, dim=CARS, inputs=[state, goal], outputs=[loss])
        # CALLED duplicate-launch
        # DROP
        wp.launch(wear, dim=CARS, inputs=[grip], outputs=[loss])
    tapes.append(tape)
    losses.append(loss)
del loss

# FIX: for tape, part in reversed(list(zip(tapes, losses, strict=True))):
for tape, part in zip(tapes, losses, strict=True):
    tape.backward(part)
grip.assign(grip.numpy() - 0.1 * grip.grad.numpy())
