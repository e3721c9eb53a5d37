"""Muscles pull a jaw open; which commands reach the wanted angle? Their activation has no gradient."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

MUSCLES = 12
STEPS = 20
DT = 0.05


@wp.kernel
def activate(
    command: wp.array2d(dtype=float), step: int, before: wp.array(dtype=float), after: wp.array(dtype=float)
):
    m = wp.tid()
    wanted = 1.0 / (1.0 + wp.exp(-command[step, m]))
    # EXPECT disconnected error
    after[m] = before[m] + 8.0 * DT * (wanted - before[m])


@wp.kernel
def swing(
    angle: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    activation: wp.array(dtype=float),
    arm: wp.array(dtype=float),
    angle_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    torque = float(0.0)
    for m in range(MUSCLES):
        torque += arm[m] * activation[m]
    faster = speed[0] + DT * (torque - 4.0 * angle[0] - 0.8 * speed[0])
    speed_next[0] = faster
    angle_next[0] = angle[0] + DT * faster


@wp.kernel
def error(angle: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)):
    loss[0] = (angle[0] - wanted) * (angle[0] - wanted)


def number(count=1, gradient=True):
    return wp.zeros(count, dtype=float, requires_grad=gradient)


command = wp.zeros((STEPS, MUSCLES), dtype=float, requires_grad=True)
arm = wp.array(np.linspace(0.02, 0.3, MUSCLES), dtype=float, requires_grad=True)
angle, speed, loss = number(), number(), number()
# FIX: activation = number(MUSCLES)
activation = number(MUSCLES, gradient=False)

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        # FIX: after = number(MUSCLES)
        after = number(MUSCLES, gradient=False)
        angle_next, speed_next = number(), number()
        # CALLED disconnected
        wp.launch(activate, dim=MUSCLES, inputs=[command, step, activation], outputs=[after])
        activation = after
        wp.launch(swing, dim=1, inputs=[angle, speed, activation, arm], outputs=[angle_next, speed_next])
        angle, speed = angle_next, speed_next
    wp.launch(error, dim=1, inputs=[angle, 0.6], outputs=[loss])
tape.backward(loss)
print("largest gradient of a command", np.abs(command.grad.numpy()).max())
