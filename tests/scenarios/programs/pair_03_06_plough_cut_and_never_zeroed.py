"""A plough's blade by descent: the depth of its cut has no gradient, and the gradients are never zeroed."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

BLADES = 10


@wp.kernel
def cut(angle: wp.array(dtype=float), soil: wp.array(dtype=float), depth: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: angle
    depth[i] = wp.sin(angle[i]) * soil[i]


@wp.kernel
def effort(angle: wp.array(dtype=float), depth: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    miss = depth[i] - 0.4
    wp.atomic_add(loss, 0, miss * miss + 0.1 * angle[i] * angle[i])


@wp.kernel
def descend(angle: wp.array(dtype=float), slope: wp.array(dtype=float)):
    i = wp.tid()
    angle[i] = angle[i] - 0.2 * slope[i]


angle = wp.array(np.linspace(0.3, 0.8, BLADES), dtype=float, requires_grad=True)
soil = wp.array(np.linspace(0.6, 1.1, BLADES), dtype=float)


def fit_once():
    # FIX: depth = wp.zeros(BLADES, dtype=float, requires_grad=True)
    depth = wp.zeros(BLADES, dtype=float)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        # CALLED disconnected
        wp.launch(cut, dim=BLADES, inputs=[angle, soil], outputs=[depth])
        wp.launch(effort, dim=BLADES, inputs=[angle, depth], outputs=[loss])
    # EXPECT accumulated error: angle
    tape.backward(loss)
    wp.launch(descend, dim=BLADES, inputs=[angle, angle.grad])
    # ADD: tape.zero()
    return tape


for _ in range(4):
    tape = fit_once()
