"""A trainer with small methods: one collects and clears the gradients, and it is called before backward."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

SAMPLES, HIDDEN = 12, 6


@wp.kernel
def hidden_layer(x: wp.array(dtype=float), w: wp.array(dtype=float), h: wp.array2d(dtype=float)):
    i, j = wp.tid()
    h[i, j] = wp.tanh(w[j] * x[i] + 0.1 * float(j))


@wp.kernel
def error(
    h: wp.array2d(dtype=float),
    v: wp.array(dtype=float),
    wanted: wp.array(dtype=float),
    loss: wp.array(dtype=float),
):
    i = wp.tid()
    out = float(0.0)
    for j in range(HIDDEN):
        out += h[i, j] * v[j]
    wp.atomic_add(loss, 0, (out - wanted[i]) * (out - wanted[i]) / float(SAMPLES))


class Trainer:
    def __init__(self, rate):
        self.w = wp.array(np.linspace(-1.0, 1.0, HIDDEN), dtype=float, requires_grad=True)
        self.v = wp.array(np.full(HIDDEN, 0.2), dtype=float, requires_grad=True)
        self.rate = rate

    @property
    def params(self):
        return self.w, self.v

    def forward(self, x, wanted):
        h = wp.zeros((SAMPLES, HIDDEN), dtype=float, requires_grad=True)
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)
        tape = wp.Tape()
        with tape:
            wp.launch(hidden_layer, dim=(SAMPLES, HIDDEN), inputs=[x, self.w], outputs=[h])
            wp.launch(error, dim=SAMPLES, inputs=[h, self.v, wanted], outputs=[self.loss])
        return tape

    def take_gradients(self):
        taken = []
        for p in self.params:
            # EXPECT stale-gradient error: self.w, self.v
            taken.append(p.grad.numpy().copy())
            p.grad.zero_()
        return taken

    def apply(self, gradients):
        for p, g in zip(self.params, gradients, strict=True):
            p.assign(p.numpy() - self.rate * g)

    def step(self, x, wanted):
        tape = self.forward(x, wanted)
        # FIX: tape.backward(self.loss)
        gradients = self.take_gradients()
        # FIX: gradients = self.take_gradients()
        tape.backward(self.loss)
        self.apply(gradients)
        return tape


x = wp.array(np.linspace(-1.0, 1.0, SAMPLES), dtype=float)
wanted = wp.array(np.sin(2.0 * np.linspace(-1.0, 1.0, SAMPLES)), dtype=float)
trainer = Trainer(rate=0.2)
tapes = [trainer.step(x, wanted) for _ in range(4)]
print(trainer.loss.numpy()[0])
