# A pendulum's length is tuned so that it swings to a given angle: gradient descent over a kernel with a loop of
# 24 steps, which is more than Warp writes out.
# RUN as-warp
import numpy as np
import warp as wp

# FIX: wp.set_module_options({"max_unroll": 24})
wp.init()


@wp.struct
class Bob:
    angle: float
    rate: float


@wp.kernel
def swing(
    length: wp.array(dtype=float),
    release: wp.array(dtype=float),
    last: wp.array(dtype=float),
):
    i = wp.tid()
    bob = Bob()
    bob.angle = release[i]
    bob.rate = 0.0
    # EXPECT warp-limitation error: length
    for _ in range(24):
        bob.rate = bob.rate - 0.02 * 9.81 / length[0] * wp.sin(bob.angle)
        bob.angle = bob.angle + 0.02 * bob.rate
    last[i] = bob.angle


@wp.kernel
def off(last: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = last[i] - seen[i]
    wp.atomic_add(loss, 0, d * d)


release = wp.array([0.3, 0.9, 1.4], dtype=float)
seen = wp.array([0.05, 0.2, 0.6], dtype=float)
length = wp.array([1.0], dtype=float, requires_grad=True)
for step in range(4):
    last = wp.zeros(3, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        # CALLED warp-limitation
        wp.launch(swing, dim=3, inputs=[length, release], outputs=[last])
        wp.launch(off, dim=3, inputs=[last, seen], outputs=[loss])
    tape.backward(loss)
    length.assign(length.numpy() - np.float32(0.05) * length.grad.numpy())
    tape.zero()
print("length", length.numpy()[0])
