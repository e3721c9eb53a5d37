"""Find the drag that makes the drones land on the pad. The kernel takes it, and uses a constant instead."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

DRONES = 16
STEPS = 20
DRAG = 0.3


@wp.kernel
# EXPECT unused warning: drag
def fall(
    height: wp.array(dtype=float),
    speed: wp.array(dtype=float),
    thrust: wp.array(dtype=float),
    drag: wp.array(dtype=float),
    height_next: wp.array(dtype=float),
    speed_next: wp.array(dtype=float),
):
    i = wp.tid()
    # FIX: loss_of_speed = drag[i] * speed[i] * wp.abs(speed[i])
    loss_of_speed = DRAG * speed[i] * wp.abs(speed[i])
    later = speed[i] + 0.05 * (thrust[i] - 9.81 - loss_of_speed)
    speed_next[i] = later
    height_next[i] = height[i] + 0.05 * later


@wp.kernel
def landing(height: wp.array(dtype=float), speed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, height[i] * height[i] + speed[i] * speed[i])


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


height, speed = numbers(np.linspace(8.0, 12.0, DRONES)), numbers(np.full(DRONES, -1.0))
thrust, drag = numbers(np.full(DRONES, 7.0)), numbers(np.full(DRONES, 0.25))
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [thrust, drag]

tape = wp.Tape()
with tape:
    for step in range(STEPS):
        height_next, speed_next = numbers(np.zeros(DRONES)), numbers(np.zeros(DRONES))
        # CALLED unused
        wp.launch(fall, dim=DRONES, inputs=[height, speed, thrust, drag], outputs=[height_next, speed_next])
        height, speed = height_next, speed_next
    wp.launch(landing, dim=DRONES, inputs=[height, speed], outputs=[loss])
tape.backward(loss)
print("gradient of the drag", drag.grad.numpy())
