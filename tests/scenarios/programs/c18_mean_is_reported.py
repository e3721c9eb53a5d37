"""A calibration reports its mean error; backward runs from the sum that the mean is computed from."""

import numpy as np

import tapedebug as wp

SENSORS = 50


@wp.struct
class Model:
    scale: wp.array(dtype=float)
    offset: wp.array(dtype=float)


@wp.kernel
def reading(model: Model, truth: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.tanh(model.scale[0] * truth[i] + model.offset[0])


@wp.kernel
def add_errors(out: wp.array(dtype=float), seen: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, (out[i] - seen[i]) * (out[i] - seen[i]))


@wp.kernel
def divide(total: wp.array(dtype=float), count: int, mean: wp.array(dtype=float)):
    mean[0] = total[0] / float(count)


truth = wp.array(np.linspace(-2.0, 2.0, SENSORS), dtype=float)
seen = wp.array(np.tanh(0.7 * np.linspace(-2.0, 2.0, SENSORS) - 0.1), dtype=float)
model = Model()
model.scale = wp.array([1.2], dtype=float, requires_grad=True)
model.offset = wp.array([0.0], dtype=float, requires_grad=True)

for _ in range(3):
    out = wp.zeros(SENSORS, dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    mean = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(reading, dim=SENSORS, inputs=[model, truth], outputs=[out])
        wp.launch(add_errors, dim=SENSORS, inputs=[out, seen], outputs=[total])
        # CALLED seed
        wp.launch(divide, dim=1, inputs=[total, SENSORS], outputs=[mean])
    # EXPECT seed warning: total, mean
    # FIX: tape.backward(mean)
    tape.backward(total)
    print("mean squared error", mean.numpy()[0])
    for p in (model.scale, model.offset):
        p.assign(p.numpy() - 0.5 * p.grad.numpy())
    tape.zero()
