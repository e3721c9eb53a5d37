"""Flats of whole square metres: which sizes give the best rent? The sizes are integers, and are to have a gradient."""

# VERDICT NOT CHECKED
import warnings

import numpy as np

import tapedebug as wp

FLATS = 12


@wp.kernel
def rent(size: wp.array(dtype=int), loss: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT disconnected warning: size
    paid = 9.0 * float(size[i]) - 0.03 * float(size[i]) * float(size[i])
    wp.atomic_add(loss, 0, 0.001 * (paid - 500.0) * (paid - 500.0))


@wp.kernel
def rent_of(size: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    paid = 9.0 * size[i] - 0.03 * size[i] * size[i]
    wp.atomic_add(loss, 0, 0.001 * (paid - 500.0) * (paid - 500.0))


metres = 30 + 5 * (np.arange(FLATS) % 7)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", wp.TapedebugWarning)  # which says the same when the array is made
    # FIX: size = wp.array(metres, dtype=float, requires_grad=True)
    size = wp.array(metres, dtype=int, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # FIX: wp.launch(rent_of, dim=FLATS, inputs=[size], outputs=[loss])
    wp.launch(rent, dim=FLATS, inputs=[size], outputs=[loss])
tape.backward(loss)
print("gradient", size.grad.numpy())
