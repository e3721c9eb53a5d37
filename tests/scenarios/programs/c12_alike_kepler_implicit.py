"""Kepler's equation is solved by Newton's method; its gradient is that of the implicit function, and right."""

import numpy as np

import tapedebug as wp

ORBITS = 50


@wp.func
def eccentric(mean: float, e: float):
    anomaly = mean
    for _i in range(30):
        anomaly = anomaly - (anomaly - e * wp.sin(anomaly) - mean) / (1.0 - e * wp.cos(anomaly))
    return anomaly


@wp.func_grad(eccentric)
def adj_eccentric(mean: float, e: float, adj_ret: float):
    anomaly = eccentric(mean, e)
    slope = 1.0 / (1.0 - e * wp.cos(anomaly))
    wp.adjoint[mean] += slope * adj_ret
    wp.adjoint[e] += wp.sin(anomaly) * slope * adj_ret


@wp.kernel
def distance(mean: wp.array(dtype=float), e: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    r = 1.0 - e[i] * wp.cos(eccentric(mean[i], e[i]))
    wp.atomic_add(loss, 0, (r - 0.8) * (r - 0.8))


rng = np.random.default_rng(2)
mean = wp.array(rng.uniform(0.3, 2.8, ORBITS), dtype=float, requires_grad=True)
e = wp.array(rng.uniform(0.05, 0.5, ORBITS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(distance, dim=ORBITS, inputs=[mean, e], outputs=[loss])
tape.backward(loss)
