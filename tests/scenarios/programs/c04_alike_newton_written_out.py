# Kepler's equation by six rounds of Newton: so few are written out, by Warp as well.
# RUN as-warp
import numpy as np
import warp as wp

ROUNDS = 6


@wp.func
def better(e: float, anomaly: float, eccentricity: float):
    return e - (e - eccentricity * wp.sin(e) - anomaly) / (1.0 - eccentricity * wp.cos(e))


@wp.kernel
def solve(
    anomaly: wp.array(dtype=float),
    eccentricity: wp.array(dtype=float),
    x: wp.array(dtype=float),
):
    i = wp.tid()
    e = anomaly[i]
    for _ in range(6):
        e = better(e, anomaly[i], eccentricity[0])
    x[i] = wp.cos(e) - eccentricity[0]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i] * float(i + 1))


anomaly = wp.array(np.linspace(0.2, 3.0, 9), dtype=float, requires_grad=True)
eccentricity = wp.array([0.3], dtype=float, requires_grad=True)
x = wp.zeros(9, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(solve, dim=9, inputs=[anomaly, eccentricity], outputs=[x])
    wp.launch(total, dim=9, inputs=[x], outputs=[loss])
tape.backward(loss)
print(eccentricity.grad.numpy())
