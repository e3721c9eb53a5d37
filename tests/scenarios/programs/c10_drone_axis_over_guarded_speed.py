"""Drones that begin at rest: the axis of their turn is divided by a guarded speed, so nothing comes back."""

import numpy as np

import tapedebug as wp

DRONES = 4


@wp.kernel
def steer(spin: wp.array(dtype=wp.vec3), attitude: wp.array(dtype=wp.quat)):
    i = wp.tid()
    # EXPECT disconnected error: spin
    speed = wp.length(spin[i])
    # FIX: axis = wp.normalize(spin[i])
    axis = spin[i] / wp.max(speed, 1.0e-8)
    attitude[i] = wp.quat_from_axis_angle(axis, speed * 0.05)


@wp.kernel
def miss(attitude: wp.array(dtype=wp.quat), target: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    nose = wp.quat_rotate(attitude[i], wp.vec3(1.0, 0.0, 0.0))
    wp.atomic_add(loss, 0, wp.length_sq(nose - target[i]))


spin = wp.zeros(DRONES, dtype=wp.vec3, requires_grad=True)
attitude = wp.zeros(DRONES, dtype=wp.quat, requires_grad=True)
aims = np.random.default_rng(2).normal(size=(DRONES, 3))
target = wp.array(aims / np.linalg.norm(aims, axis=1, keepdims=True), dtype=wp.vec3)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(steer, dim=DRONES, inputs=[spin], outputs=[attitude])
    wp.launch(miss, dim=DRONES, inputs=[attitude, target], outputs=[loss])
tape.backward(loss)
print("gradient", spin.grad.numpy())
