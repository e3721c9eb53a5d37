"""An image is denoised: the mean loss is reported, the errors of all pixels are seeded with ones."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

SIDE = 16


@wp.kernel
def smooth(noisy: wp.array2d(dtype=float), weight: wp.array(dtype=float), clean: wp.array2d(dtype=float)):
    i, j = wp.tid()
    right = noisy[i, wp.min(j + 1, SIDE - 1)]
    below = noisy[wp.min(i + 1, SIDE - 1), j]
    clean[i, j] = noisy[i, j] * weight[0] + right * weight[1] + below * weight[1]


@wp.kernel
def pixel_error(
    clean: wp.array2d(dtype=float), wanted: wp.array2d(dtype=float), error: wp.array2d(dtype=float)
):
    i, j = wp.tid()
    error[i, j] = (clean[i, j] - wanted[i, j]) * (clean[i, j] - wanted[i, j])


@wp.kernel
def average(error: wp.array2d(dtype=float), loss: wp.array(dtype=float)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, error[i, j] / float(SIDE * SIDE))


rng = np.random.default_rng(8)
picture = np.outer(np.sin(np.linspace(0, 3, SIDE)), np.cos(np.linspace(0, 2, SIDE)))
wanted = wp.array(picture, dtype=float)
noisy = wp.array(picture + 0.2 * rng.normal(size=(SIDE, SIDE)), dtype=float)
weight = wp.array([0.5, 0.2], dtype=float, requires_grad=True)
clean = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
error = wp.zeros((SIDE, SIDE), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(smooth, dim=(SIDE, SIDE), inputs=[noisy, weight], outputs=[clean])
    wp.launch(pixel_error, dim=(SIDE, SIDE), inputs=[clean, wanted], outputs=[error])
    # CALLED seed
    wp.launch(average, dim=(SIDE, SIDE), inputs=[error], outputs=[loss])
# EXPECT seed error: error, loss
# FIX: tape.backward(loss)
tape.backward(grads={error: wp.ones((SIDE, SIDE), dtype=float)})
weight.assign(weight.numpy() - 0.1 * weight.grad.numpy())
