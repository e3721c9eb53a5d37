"""A pendulum in windows that go on from one another; the work of the motor is summed over all of them."""

import tapedebug as wp


@wp.kernel
def swing(
    torque: wp.array(dtype=float),
    angle: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    work: wp.array(dtype=float),
):
    wp.atomic_add(work, 0, 0.1 * torque[0] * speed[0])
    speed[0] = speed[0] + 0.1 * (torque[0] - 9.81 * wp.sin(angle[0]))
    angle[0] = angle[0] + 0.1 * speed[0]


torque = wp.array([0.3], dtype=float, requires_grad=True)
angle = wp.array([0.2], dtype=float)
speed = wp.array([1.0], dtype=float)
work = wp.zeros(1, dtype=float, requires_grad=True)

for window in range(3):
    with wp.Tape() as tape:
        wp.launch(swing, dim=1, inputs=[torque, angle, speed], outputs=[work])
    tape.backward(work)
    print(window, work.numpy()[0])
    tape.zero()
