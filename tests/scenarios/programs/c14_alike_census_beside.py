# A counter for statistics: which samples were clipped is written into a list, in whatever order; the gradient does
# not depend on it.
# RUN as-warp
import numpy as np
import warp as wp

SAMPLES = 12


@wp.kernel
def clip(
    sample: wp.array(dtype=float),
    bound: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    clipped: wp.array(dtype=int),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    value = sample[i]
    if value > bound[0]:
        k = wp.atomic_add(counter, 0, 1)
        clipped[k] = i
        value = bound[0] + 0.1 * (value - bound[0])
    out[i] = value


@wp.kernel
def square(out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, out[i] * out[i])


sample = wp.array(np.linspace(0.0, 2.0, SAMPLES), dtype=float, requires_grad=True)
bound = wp.array([1.03], dtype=float, requires_grad=True)
counter = wp.zeros(1, dtype=int)
clipped = wp.zeros(SAMPLES, dtype=int)
out = wp.zeros(SAMPLES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    wp.launch(clip, dim=SAMPLES, inputs=[sample, bound, counter, clipped], outputs=[out])
    wp.launch(square, dim=SAMPLES, inputs=[out], outputs=[loss])
tape.backward(loss)
print("clipped", counter.numpy()[0], clipped.numpy())
