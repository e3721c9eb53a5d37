"""Five steps of gradient descent, differentiated on purpose: how fast should each weight learn?"""

import numpy as np

import tapedebug as wp

N = 16
STEPS = 5


@wp.kernel
def slope(w: wp.array(dtype=float), data: wp.array(dtype=float), g: wp.array(dtype=float)):
    i = wp.tid()
    g[i] = (w[i] - data[i]) + 0.2 * w[i] * w[i] * w[i]


@wp.kernel
def learn(w: wp.array(dtype=float), g: wp.array(dtype=float), rates: wp.array(dtype=float)):
    i = wp.tid()
    w[i] = w[i] - rates[i] * g[i]


@wp.kernel
def objective(w: wp.array(dtype=float), data: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = w[i] - data[i]
    wp.atomic_add(loss, 0, 0.5 * d * d + 0.05 * w[i] * w[i] * w[i] * w[i])


data = wp.array(np.linspace(-1.0, 1.5, N), dtype=float)
rates = wp.array(np.linspace(0.2, 0.6, N), dtype=float, requires_grad=True)
w = wp.zeros(N, dtype=float, requires_grad=True)
g = wp.zeros(N, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        wp.launch(slope, dim=N, inputs=[w, data], outputs=[g])
        wp.launch(learn, dim=N, inputs=[w, g, rates])
    wp.launch(objective, dim=N, inputs=[w, data], outputs=[loss])
tape.backward(loss)
