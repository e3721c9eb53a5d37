"""Stars in a cluster: the root of a zero distance makes all gradients NaN, and hides that a buffer is reused."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

STARS = 10
STEPS = 6


@wp.kernel
def attract(x: wp.array(dtype=wp.vec2), mass: wp.array(dtype=float), pull: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    total = wp.vec2(0.0, 0.0)
    for k in range(STARS):
        d = x[k] - x[i]
        total += mass[k] * d / (wp.dot(d, d) + 0.2)
    # EXPECT overwrite error
    pull[i] = total


@wp.kernel
def drift(x: wp.array(dtype=wp.vec2), pull: wp.array(dtype=wp.vec2), x_next: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    x_next[i] = x[i] + 0.05 * pull[i] * (1.0 + 0.5 * wp.dot(pull[i], pull[i]))


@wp.kernel
def spread(x: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i, k = wp.tid()
    d = x[i] - x[k]
    # FIX: wp.atomic_add(loss, 0, wp.sqrt(wp.dot(d, d) + 1.0e-4) / float(STARS))
    # EXPECT nonfinite error
    wp.atomic_add(loss, 0, wp.sqrt(wp.dot(d, d)) / float(STARS))


def vectors(values=None):
    values = np.zeros((STARS, 2)) if values is None else values
    return wp.array(values.astype(np.float32), dtype=wp.vec2, requires_grad=True)


x = vectors(np.random.default_rng(1).normal(size=(STARS, 2)))
mass = wp.array(np.linspace(0.3, 1.2, STARS), dtype=float, requires_grad=True)
pull = vectors()
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [mass]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for _ in range(STEPS):
        x_next = vectors()
        # ADD: pull = vectors()
        # CALLED overwrite
        wp.launch(attract, dim=STARS, inputs=[x, mass], outputs=[pull])
        wp.launch(drift, dim=STARS, inputs=[x, pull], outputs=[x_next])
        x = x_next
    # CALLED nonfinite
    wp.launch(spread, dim=(STARS, STARS), inputs=[x], outputs=[loss])
tape.backward(loss)
