"""A cable between two masts: its tension has no gradient, and that hides a root that has no slope."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

PARTS = 14


@wp.kernel
def strain(length: wp.array(dtype=float), rest: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    slack = length[i] - rest[i]
    # FIX: out[i] = wp.sqrt(slack * slack + 1.0e-6)
    # EXPECT nonfinite error
    out[i] = wp.sqrt(slack * slack)


@wp.kernel
def pull(strain: wp.array(dtype=float), stiffness: wp.array(dtype=float), tension: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected error: rest, stiffness
    tension[i] = stiffness[i] * strain[i] * (1.0 + strain[i])


@wp.kernel
def load(tension: wp.array(dtype=float), weight: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = tension[i] - weight[i]
    wp.atomic_add(loss, 0, d * d)


def parts(values=None):
    values = np.zeros(PARTS) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


lengths = np.linspace(0.9, 1.4, PARTS)
lengths[4] = 1.1
length = wp.array(lengths, dtype=float)
rest, stiffness = parts(np.full(PARTS, 1.1)), parts(np.linspace(2.0, 3.0, PARTS))
weight = parts(np.linspace(0.1, 0.3, PARTS))
strained = parts()
# FIX: tension = parts()
tension = wp.zeros(PARTS, dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED nonfinite
    wp.launch(strain, dim=PARTS, inputs=[length, rest], outputs=[strained])
    # CALLED disconnected
    wp.launch(pull, dim=PARTS, inputs=[strained, stiffness], outputs=[tension])
    wp.launch(load, dim=PARTS, inputs=[tension, weight], outputs=[loss])
tape.backward(loss)
