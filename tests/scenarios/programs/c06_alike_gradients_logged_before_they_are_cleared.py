"""Gradients of the last step are logged and cleared before each pass; the step reads the pass's own."""

import numpy as np

import tapedebug as wp

N = 10


@wp.kernel
def sag(stiff: wp.array(dtype=float), load: wp.array(dtype=float), low: wp.array(dtype=float)):
    i = wp.tid()
    low[i] = load[i] / (0.2 + stiff[i] * stiff[i])


@wp.kernel
def misfit(low: wp.array(dtype=float), seen: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (low[i] - seen[i]) * (low[i] - seen[i]))


class Log:
    def __init__(self):
        self.norms = []
        self.sensitivity = []

    def last_step(self, stiff, load):
        self.norms.append(float(np.linalg.norm(stiff.grad.numpy())))
        self.sensitivity.append(load.grad.numpy().copy())
        stiff.grad.zero_()
        load.grad.zero_()


rng = np.random.default_rng(2)
stiff = wp.array(np.full(N, 1.0), dtype=float, requires_grad=True)
load = wp.array(np.linspace(0.5, 1.5, N), dtype=float, requires_grad=True)
seen = wp.array(np.linspace(0.6, 0.9, N), dtype=float)
log, tapes = Log(), []
for _ in range(4):
    low = wp.zeros(N, dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(sag, dim=N, inputs=[stiff, load], outputs=[low])
        wp.launch(misfit, dim=N, inputs=[low, seen], outputs=[total])
    log.last_step(stiff, load)
    tape.backward(total)
    stiff.assign(stiff.numpy() - 0.2 * stiff.grad.numpy())
    load.assign(rng.uniform(0.5, 1.5, N))  # the next sample: its gradient is only ever logged
    tapes.append(tape)
