"""A tendon is fitted to forces: its lengths are read as an array of their own, and relaxed through the struct."""

# RUN as-warp
import numpy as np
import warp as wp

FIBRES = 16
STEPS = 4


@wp.struct
class Tendon:
    length: wp.array(dtype=float)
    stiffness: wp.array(dtype=float)


@wp.kernel
def tension(length: wp.array(dtype=float), stiffness: wp.array(dtype=float), force: wp.array(dtype=float)):
    i = wp.tid()
    stretch = length[i] - 1.0
    wp.atomic_add(force, i, stiffness[i] * stretch * stretch)


@wp.kernel
def relax(tendon: Tendon, relaxed: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT overwrite error: lengths
    relaxed[i] = 1.0 + 0.8 * (tendon.length[i] - 1.0)


@wp.kernel
def misfit(force: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (force[i] - seen[i]) * (force[i] - seen[i]))


def with_length(length):
    tendon = Tendon()
    tendon.length, tendon.stiffness = length, stiffness
    return tendon


rng = np.random.default_rng(6)
lengths = wp.array(rng.uniform(1.1, 1.6, FIBRES), dtype=float, requires_grad=True)
stiffness = wp.full(FIBRES, 2.0, dtype=float, requires_grad=True)
tendon = with_length(lengths)
seen = wp.array(rng.uniform(0.2, 1.0, FIBRES), dtype=float)
force = wp.zeros(FIBRES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        wp.launch(tension, dim=FIBRES, inputs=[lengths, stiffness], outputs=[force])
        relaxed = tendon.length
        # ADD: relaxed = wp.zeros(FIBRES, dtype=float, requires_grad=True)
        # CALLED overwrite
        wp.launch(relax, dim=FIBRES, inputs=[tendon], outputs=[relaxed])
        tendon, lengths = with_length(relaxed), relaxed
    wp.launch(misfit, dim=FIBRES, inputs=[force, seen], outputs=[loss])
tape.backward(loss)
