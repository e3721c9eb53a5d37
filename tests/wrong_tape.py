"""A tape with a wrong gradient, for tests of panels and notebooks, and its kernels."""

import tapedebug as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i])


def wrong_tape():
    """Record x² with x overwritten before the reverse pass has read it; return the tape, x and the loss."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, dtype=float, requires_grad=True)
    z = wp.array([4.0, 5.0, 6.0], dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        work = wp.clone(x)
        wp.launch(square, dim=3, inputs=[work], outputs=[y])
        wp.copy(work, z)
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape, x, loss
