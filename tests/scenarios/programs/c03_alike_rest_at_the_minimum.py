"""A pendulum that hangs still, with a motor that is off: both gradients are 0, and that is right."""

import numpy as np

import tapedebug as wp

LINKS = 8


@wp.kernel
def swing(
    angle: wp.array(dtype=float), gain: wp.array(dtype=float), on: float, energy: wp.array(dtype=float)
):
    i = wp.tid()
    wp.atomic_add(energy, 0, 1.0 - wp.cos(angle[i]) + on * gain[i] * angle[i])


angle = wp.zeros(LINKS, dtype=float, requires_grad=True)
gain = wp.array(np.linspace(0.5, 1.5, LINKS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(swing, dim=LINKS, inputs=[angle, gain, 0.0], outputs=[loss])
tape.backward(loss)
print("gradients", angle.grad.numpy(), gain.grad.numpy())
