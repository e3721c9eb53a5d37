"""The error of a joint as axis times angle: at the identity it has its derivative."""

import numpy as np

import tapedebug as wp

JOINTS = 3


@wp.kernel
def error_of(joint: wp.array(dtype=wp.quat), error: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    axis, angle = wp.quat_to_axis_angle(joint[i])
    error[i] = axis * angle


@wp.kernel
def torque(error: wp.array(dtype=wp.vec3), push: wp.array(dtype=wp.vec3), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.dot(error[i], push[i]) + 0.5 * wp.length_sq(error[i]))


joint = wp.array(np.tile([0.0, 0.0, 0.0, 1.0], (JOINTS, 1)), dtype=wp.quat, requires_grad=True)
error = wp.zeros(JOINTS, dtype=wp.vec3, requires_grad=True)
push = wp.array(np.random.default_rng(4).normal(size=(JOINTS, 3)), dtype=wp.vec3)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(error_of, dim=JOINTS, inputs=[joint], outputs=[error])
    wp.launch(torque, dim=JOINTS, inputs=[error, push], outputs=[loss])
tape.backward(loss)
print("gradient", joint.grad.numpy())
