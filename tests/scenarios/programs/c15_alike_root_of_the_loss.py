"""The last launches work on the loss itself: a mean, a root, a floor below it. All of that is the loss."""

import numpy as np

import tapedebug as wp

BEADS = 20


@wp.kernel
def place_on_arc(bend: wp.array(dtype=float), bead: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    angle = bend[0] * float(i) + bend[1]
    bead[i] = wp.vec2(wp.cos(angle), wp.sin(angle)) * (1.0 + bend[2] * float(i))


@wp.kernel
def squares(bead: wp.array(dtype=wp.vec2), seen: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(bead[i] - seen[i]))


@wp.kernel
def root_mean(loss: wp.array(dtype=float)):
    loss[0] = wp.sqrt(loss[0] / float(BEADS))


@wp.kernel
def add_constant(loss: wp.array(dtype=float), offset: wp.array(dtype=float)):
    loss[0] = loss[0] + offset[0]


@wp.kernel
def forbid_tangles(bend: wp.array(dtype=float), loss: wp.array(dtype=float)):
    if wp.abs(bend[0]) > 2.0:
        loss[0] = 1.0e6


angle = np.linspace(0.2, 1.4, BEADS)
seen = wp.array(np.stack([np.cos(angle), np.sin(angle)], axis=1), dtype=wp.vec2)
bend = wp.array([0.05, 0.1, 0.01], dtype=float, requires_grad=True)
bead = wp.zeros(BEADS, dtype=wp.vec2, requires_grad=True)
offset = wp.array([0.25], dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(place_on_arc, dim=BEADS, inputs=[bend], outputs=[bead])
    wp.launch(squares, dim=BEADS, inputs=[bead, seen], outputs=[loss])
    wp.launch(root_mean, dim=1, inputs=[loss])
    wp.launch(add_constant, dim=1, inputs=[loss, offset])
    wp.launch(forbid_tangles, dim=1, inputs=[bend, loss])
tape.backward(loss)
