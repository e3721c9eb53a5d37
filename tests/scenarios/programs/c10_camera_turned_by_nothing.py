"""Find how far a camera has turned by the real part of a quaternion: |angle|, which has a kink at rest."""

import tapedebug as wp

# VERDICT KINK


@wp.kernel
def turned(camera: wp.array(dtype=wp.quat), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 2.0 * wp.acos(wp.normalize(camera[i])[3]))


camera = wp.array([[0.0, 0.0, 0.0, 1.0]], dtype=wp.quat, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(turned, dim=1, inputs=[camera], outputs=[loss])
tape.backward(loss)
print("gradient", camera.grad.numpy())
