"""The sum of squares is minimised, and the root of its mean is printed beside it: two views of one thing."""

import numpy as np

import tapedebug as wp

N = 25


@wp.kernel
def ballistic(speed: wp.array(dtype=float), time: wp.array(dtype=float), height: wp.array(dtype=float)):
    i = wp.tid()
    height[i] = speed[0] * time[i] - 4.9 * time[i] * time[i] * (1.0 + speed[1] * time[i])


@wp.kernel
def squares(height: wp.array(dtype=float), seen: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, (height[i] - seen[i]) * (height[i] - seen[i]))


@wp.kernel
def root(total: wp.array(dtype=float), rmse: wp.array(dtype=float)):
    rmse[0] = wp.sqrt(total[0] / float(N))


time = wp.array(np.linspace(0.0, 1.0, N), dtype=float)
seen = wp.array(5.0 * np.linspace(0.0, 1.0, N) - 4.9 * np.linspace(0.0, 1.0, N) ** 2, dtype=float)
speed = wp.array([4.0, 0.1], dtype=float, requires_grad=True)

for _ in range(3):
    height = wp.zeros(N, dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    rmse = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(ballistic, dim=N, inputs=[speed, time], outputs=[height])
        wp.launch(squares, dim=N, inputs=[height, seen], outputs=[total])
        wp.launch(root, dim=1, inputs=[total], outputs=[rmse])
    tape.backward(total)
    print("rmse", rmse.numpy()[0])
    speed.assign(speed.numpy() - 0.02 * speed.grad.numpy())
    tape.zero()
