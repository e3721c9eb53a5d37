"""A model that reports mean errors, of training and of validation; its rate is divided by the count once."""

import numpy as np

import tapedebug as wp


@wp.kernel
def squared(
    x: wp.array(dtype=float),
    wanted: wp.array(dtype=float),
    w: wp.array(dtype=float),
    error: wp.array(dtype=float),
):
    i = wp.tid()
    off = w[0] * x[i] * x[i] + w[1] * x[i] - wanted[i]
    error[i] = off * off


class Model:
    def __init__(self, samples, lr):
        self.lr = lr / samples
        self.w = wp.array([0.1, 0.2], dtype=float, requires_grad=True)

    def errors(self, x, wanted):
        error = wp.zeros(len(x), dtype=float, requires_grad=True)
        wp.launch(squared, dim=len(x), inputs=[x, wanted, self.w], outputs=[error])
        return error

    def train(self, x, wanted):
        tape = wp.Tape()
        with tape:
            error = self.errors(x, wanted)
        tape.backward(grads={error: wp.ones_like(error)})
        self.w.assign(self.w.numpy() - self.lr * self.w.grad.numpy())
        tape.zero()
        return tape, float(np.mean(error.numpy()))

    def validate(self, x, wanted):
        return float(np.mean(self.errors(x, wanted).numpy()))


places = np.linspace(-1.0, 1.0, 16).astype(np.float32)
x = wp.array(places, dtype=float)
wanted = wp.array(np.sin(places), dtype=float)
model = Model(len(places), lr=0.5)
tapes = []
for epoch in range(4):
    tape, trained = model.train(x, wanted)
    tapes.append(tape)
    print(f"epoch {epoch}: {trained:.4f}, validation {model.validate(x, wanted):.4f}")
