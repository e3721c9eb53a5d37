"""Gradients of four batches are added up on purpose, then one step, then zero."""

import numpy as np

import tapedebug as wp
from tapedebug.optim import SGD

BATCH, FEATURES = 16, 4


@wp.kernel
def predict(x: wp.array2d(dtype=float), w: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for j in range(FEATURES):
        total += x[i, j] * w[j]
    y[i] = wp.tanh(total)


@wp.kernel
def squared(y: wp.array(dtype=float), label: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (y[i] - label[i]) * (y[i] - label[i]) / float(4 * BATCH))


rng = np.random.default_rng(11)
w = wp.array(rng.normal(size=FEATURES), dtype=float, requires_grad=True)
x = wp.zeros((BATCH, FEATURES), dtype=float, requires_grad=True)  # one buffer for all batches
label = wp.zeros(BATCH, dtype=float)
y = wp.zeros(BATCH, dtype=float, requires_grad=True)
sgd = SGD([w], lr=0.1, momentum=0.9)

tapes = []
for epoch in range(2):
    for batch in range(4):
        data = rng.normal(size=(BATCH, FEATURES))
        x.assign(data)
        label.assign(np.sign(data.sum(axis=1)))
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape = wp.Tape()
        with tape:
            wp.launch(predict, dim=BATCH, inputs=[x, w], outputs=[y])
            wp.launch(squared, dim=BATCH, inputs=[y, label], outputs=[loss])
        tape.backward(loss)
        print(epoch, batch, loss.numpy()[0], np.abs(w.grad.numpy()).max())
        tapes.append(tape)
    sgd.step([w.grad])
    w.grad.zero_()
del loss
