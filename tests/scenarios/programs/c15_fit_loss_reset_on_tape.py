"""Fit decaying sums to a measured curve by gradient descent. The loss is reset for the next round: too early."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

SAMPLES = 48
TERMS = 3
ROUNDS = 4


@wp.kernel
def model(
    time: wp.array(dtype=float),
    weight: wp.array(dtype=float),
    rate: wp.array(dtype=float),
    curve: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)
    for k in range(TERMS):
        total += weight[k] * wp.exp(-rate[k] * time[i])
    curve[i] = total


@wp.kernel
def deviation(curve: wp.array(dtype=float), measured: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = curve[i] - measured[i]
    wp.atomic_add(loss, 0, d * d / float(SAMPLES))


@wp.kernel
def descend(parameter: wp.array(dtype=float), gradient: wp.array(dtype=float), step: float):
    k = wp.tid()
    parameter[k] = parameter[k] - step * gradient[k]


seconds = np.linspace(0.0, 3.0, SAMPLES).astype(np.float32)
time = wp.array(seconds, dtype=float)
measured = wp.array(2.0 * np.exp(-0.7 * seconds) + 0.5 * np.exp(-3.0 * seconds), dtype=float)
weight = wp.array([1.0, 0.8, 0.2], dtype=float, requires_grad=True)
rate = wp.array([0.5, 1.5, 4.0], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
history = []

for _ in range(ROUNDS):
    curve = wp.zeros(SAMPLES, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(model, dim=SAMPLES, inputs=[time, weight, rate], outputs=[curve])
        wp.launch(deviation, dim=SAMPLES, inputs=[curve, measured], outputs=[loss])
        history.append(float(loss.numpy()[0]))
        # EXPECT after-loss error: loss
        # CALLED after-loss
        # DROP
        loss.zero_()
    tape.backward(loss)
    # ADD: loss.zero_()
    for parameter in (weight, rate):
        wp.launch(descend, dim=TERMS, inputs=[parameter, parameter.grad, 0.05])
        parameter.grad.zero_()
print(history)
