"""Loaves are weighed against their mean, which is read from its array and given to the kernel as a number."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

LOAVES = 12


@wp.kernel
def bake(dough: wp.array(dtype=float), heat: wp.array(dtype=float), loaf: wp.array(dtype=float)):
    i = wp.tid()
    loaf[i] = dough[i] * (1.0 - 0.1 * heat[i] * heat[i])


@wp.kernel
def mean_of(loaf: wp.array(dtype=float), mean: wp.array(dtype=float)):
    wp.atomic_add(mean, 0, loaf[wp.tid()] / float(LOAVES))


@wp.kernel
def shape(salt: wp.array(dtype=float), mean: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = salt[i] * mean - 0.5


@wp.kernel
def shape_by_array(salt: wp.array(dtype=float), mean: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = salt[i] * mean[0] - 0.5


@wp.kernel
def taste(out: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, out[i] * out[i])


def numbers(values):
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


place = np.linspace(0.0, 1.0, LOAVES)
dough, heat, salt = numbers(0.9 + 0.2 * place), numbers(1.0 + 0.3 * place), numbers(0.4 + 0.1 * place)
loaf, out = numbers(np.zeros(LOAVES)), numbers(np.zeros(LOAVES))
mean = wp.zeros(1, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    wp.launch(bake, dim=LOAVES, inputs=[dough, heat], outputs=[loaf])
    wp.launch(mean_of, dim=LOAVES, inputs=[loaf], outputs=[mean])
    # EXPECT disconnected warning: dough, heat, mean
    # FIX: wp.launch(shape_by_array, dim=LOAVES, inputs=[salt, mean], outputs=[out])
    wp.launch(shape, dim=LOAVES, inputs=[salt, float(mean.numpy()[0])], outputs=[out])
    wp.launch(taste, dim=LOAVES, inputs=[out], outputs=[loss])
tape.backward(loss)
print("gradient of the dough", dough.grad.numpy().max(), "of the salt", salt.grad.numpy().max())
