"""A gear train; one kernel of it was compiled without its adjoint to save time, and takes part in the loss."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

GEARS = 8


# FIX: @wp.kernel
# EXPECT disconnected error: teeth
@wp.kernel(enable_backward=False)
def ratios(teeth: wp.array(dtype=float), ratio: wp.array(dtype=float)):
    i = wp.tid()
    ratio[i] = teeth[i] / teeth[i + 1]


@wp.kernel
def turn(ratio: wp.array(dtype=float), friction: wp.array(dtype=float), speed: wp.array(dtype=float)):
    total = float(1.0)
    for i in range(GEARS):
        total = total * ratio[i] * (1.0 - friction[i])
    speed[0] = total


@wp.kernel
def off(speed: wp.array(dtype=float), wanted: float, loss: wp.array(dtype=float)):
    loss[0] = (speed[0] - wanted) * (speed[0] - wanted)


teeth = wp.array(np.linspace(20.0, 28.0, GEARS + 1), dtype=float, requires_grad=True)
friction = wp.array(np.linspace(0.01, 0.04, GEARS), dtype=float, requires_grad=True)
ratio = wp.zeros(GEARS, dtype=float, requires_grad=True)
speed = wp.zeros(1, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED disconnected
    wp.launch(ratios, dim=GEARS, inputs=[teeth], outputs=[ratio])
    wp.launch(turn, dim=1, inputs=[ratio, friction], outputs=[speed])
    wp.launch(off, dim=1, inputs=[speed, 0.5], outputs=[loss])
tape.backward(loss)
