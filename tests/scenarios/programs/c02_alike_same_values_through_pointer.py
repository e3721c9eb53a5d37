"""Another library shares the memory of a map and writes the same map into it again before backward."""

import numpy as np

import tapedebug as wp

N = 30


@wp.kernel
def climb(height: wp.array(dtype=float), effort: wp.array(dtype=float), speed: wp.array(dtype=float)):
    i = wp.tid()
    slope = height[wp.min(i + 1, N - 1)] - height[i]
    speed[i] = effort[i] / (1.0 + height[i] * height[i] + slope * slope)


@wp.kernel
def lateness(speed: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, 1.0 / (0.1 + speed[i]))


ground = np.sin(np.linspace(0.0, 4.0, N)).astype(np.float32)
height = wp.array(ground, dtype=float)
effort = wp.array(np.full(N, 1.5), dtype=float, requires_grad=True)
speed = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape(on_overwrite="ignore")
with tape:
    wp.launch(climb, dim=N, inputs=[height, effort], outputs=[speed])
    wp.launch(lateness, dim=N, inputs=[speed], outputs=[loss])
shared = wp.array(ptr=height.ptr, shape=N, dtype=float)
shared.assign(ground)  # the same survey, loaded anew
tape.backward(loss)
