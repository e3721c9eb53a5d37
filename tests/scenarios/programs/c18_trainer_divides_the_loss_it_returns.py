"""A trainer whose step returns the loss of a sample, divided in Python; backward begins from the sum."""

import numpy as np

import tapedebug as wp


@wp.kernel
def predict(
    x: wp.array(dtype=wp.vec2),
    w: wp.array(dtype=float),
    wanted: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    out = wp.tanh(w[0] * x[i][0] + w[1] * x[i][1] + w[2])
    wp.atomic_add(loss, 0, (out - wanted[i]) * (out - wanted[i]))


class Trainer:
    def __init__(self, points, wanted, rate):
        self.x = wp.array(points, dtype=wp.vec2)
        self.wanted = wp.array(wanted, dtype=float)
        self.samples = len(points)
        self.w = wp.array([0.1, -0.2, 0.0], dtype=float, requires_grad=True)
        self.rate = rate

    def value(self):
        return self.loss.numpy()[0]

    def step(self):
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)
        self.tape = wp.Tape()
        with self.tape:
            # FIX: wp.launch(predict_mean, dim=self.samples, inputs=[self.x, self.w, self.wanted, 1.0 / self.samples], outputs=[self.loss])
            wp.launch(predict, dim=self.samples, inputs=[self.x, self.w, self.wanted], outputs=[self.loss])
        # EXPECT seed warning: self.loss
        self.tape.backward(self.loss)
        self.w.assign(self.w.numpy() - self.rate * self.w.grad.numpy())
        self.tape.zero()
        # FIX: return float(self.value())
        return float(self.value()) / self.samples


@wp.kernel
def predict_mean(
    x: wp.array(dtype=wp.vec2),
    w: wp.array(dtype=float),
    wanted: wp.array(dtype=float),
    weight: float,
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    out = wp.tanh(w[0] * x[i][0] + w[1] * x[i][1] + w[2])
    wp.atomic_add(loss, 0, weight * (out - wanted[i]) * (out - wanted[i]))


rng = np.random.default_rng(1)
points = rng.normal(size=(30, 2))
trainer = Trainer(points, np.tanh(points[:, 0] - 0.5 * points[:, 1]), rate=0.01)
for _ in range(3):
    print("loss", trainer.step())
tape = trainer.tape
