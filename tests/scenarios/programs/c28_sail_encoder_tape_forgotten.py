"""A shape is computed on one tape and its drag on another one; only the second is reversed before the step."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

PANELS = 6


@wp.kernel
def sail(cloth: wp.array(dtype=float), camber: wp.array(dtype=float)):
    i = wp.tid()
    s = float(i + 1) / float(PANELS + 1)
    # EXPECT not-reversed error: cloth
    camber[i] = cloth[0] * s * (1.0 - s) + cloth[1] * wp.sin(3.0 * s)


@wp.kernel
def drag(camber: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (camber[i] - 0.3) * (camber[i] - 0.3))


cloth = wp.array([0.8, 0.1], dtype=float, requires_grad=True)
camber = wp.zeros(PANELS, dtype=float, requires_grad=True)
cost = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as shape:
    # CALLED not-reversed
    wp.launch(sail, dim=PANELS, inputs=[cloth], outputs=[camber])
with wp.Tape() as tape:
    wp.launch(drag, dim=PANELS, inputs=[camber], outputs=[cost])

tape.backward(cost)
tapes = [shape, tape]
# ADD: shape.backward()
cloth.assign(cloth.numpy() - 0.1 * np.array(cloth.grad.numpy()))
