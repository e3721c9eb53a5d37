"""Sharpen a blurred signal. Half way the program looks at it with NumPy, and goes on with what it saw."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

WIDTH = 40


@wp.kernel
def blur(signal: wp.array(dtype=float), kernel: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    total = float(0.0)
    for k in range(5):
        at = wp.clamp(i + k - 2, 0, WIDTH - 1)
        total += kernel[k] * signal[at]
    out[i] = total


@wp.kernel
def edges(signal: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    step = signal[wp.min(i + 1, WIDTH - 1)] - signal[i]
    out[i] = step * step


@wp.kernel
def compare(a: wp.array(dtype=float), b: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (a[i] - b[i]) * (a[i] - b[i]))


def zeros():
    return wp.zeros(WIDTH, dtype=float, requires_grad=True)


place = np.linspace(-1.0, 1.0, WIDTH)
signal = wp.array(np.where(np.abs(place) < 0.5, 1.0, 0.0), dtype=float, requires_grad=True)
kernel = wp.array([0.1, 0.2, 0.4, 0.2, 0.1], dtype=float, requires_grad=True)
wanted = wp.array(0.2 * np.exp(-20.0 * (np.abs(place) - 0.5) ** 2), dtype=float)
blurred, steep, loss = zeros(), zeros(), wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(blur, dim=WIDTH, inputs=[signal, kernel], outputs=[blurred])
    print("darkest", blurred.numpy().min())
    # EXPECT disconnected warning: kernel, blurred, seen
    # FIX: seen = blurred
    seen = wp.array(blurred.numpy(), dtype=float, requires_grad=True)
    # CALLED disconnected
    wp.launch(edges, dim=WIDTH, inputs=[seen], outputs=[steep])
    wp.launch(compare, dim=WIDTH, inputs=[steep, wanted], outputs=[loss])
tape.backward(loss)
print("gradient of the kernel", kernel.grad.numpy())
