"""A hull's shape: the mean of the squared errors is reported, taken by NumPy; every error is seeded with 1."""

import numpy as np

import tapedebug as wp

STATIONS = 40


@wp.kernel
def pressure(width: wp.array(dtype=float), speed: float, wall: wp.array(dtype=float)):
    i = wp.tid()
    before = width[wp.max(i - 1, 0)]
    after = width[wp.min(i + 1, STATIONS - 1)]
    wall[i] = speed * speed * (after - before) * width[i]


@wp.kernel
def squared(wall: wp.array(dtype=float), seen: wp.array(dtype=float), error: wp.array(dtype=float)):
    i = wp.tid()
    error[i] = (wall[i] - seen[i]) * (wall[i] - seen[i])


width = wp.array(0.5 + 0.3 * np.sin(np.linspace(0.0, 3.0, STATIONS)), dtype=float, requires_grad=True)
seen = wp.array(np.linspace(0.2, -0.2, STATIONS), dtype=float)
history = []
for iteration in range(4):
    wall = wp.zeros(STATIONS, dtype=float, requires_grad=True)
    error = wp.zeros(STATIONS, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(pressure, dim=STATIONS, inputs=[width, 1.2], outputs=[wall])
        wp.launch(squared, dim=STATIONS, inputs=[wall, seen], outputs=[error])
    reported = float(np.mean(error.numpy()))
    history.append(reported)
    print(f"{iteration}: mean squared error {reported:.5f}")
    # EXPECT seed warning: error
    # FIX: tape.backward(grads={error: wp.full(STATIONS, 1.0 / STATIONS, dtype=float)})
    tape.backward(grads={error: wp.ones(STATIONS, dtype=float)})
    width.assign(width.numpy() - 0.05 * width.grad.numpy())
    tape.zero()
