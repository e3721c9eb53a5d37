"""The gradient of a screen's gamma curve was written with 2.198 in place of 2.2: off by 0.09 % everywhere."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

PIXELS = 64


@wp.func
def shown(signal: float):
    return wp.pow(signal, 2.2)


@wp.func_grad(shown)
def adj_shown(signal: float, adj_ret: float):
    # FIX: wp.adjoint[signal] += 2.2 * wp.pow(signal, 1.2) * adj_ret
    # EXPECT custom-grad error: signal
    wp.adjoint[signal] += 2.198 * wp.pow(signal, 1.2) * adj_ret


@wp.kernel
def picture(signal: wp.array(dtype=float), seen: wp.array(dtype=float)):
    i = wp.tid()
    seen[i] = shown(signal[i])


@wp.kernel
def misfit(seen: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (seen[i] - wanted[i]) * (seen[i] - wanted[i]))


rng = np.random.default_rng(5)
signal = wp.array(rng.uniform(0.2, 1.0, PIXELS), dtype=float, requires_grad=True)
wanted = wp.array(rng.uniform(0.0, 1.0, PIXELS), dtype=float)
seen = wp.zeros(PIXELS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    # CALLED custom-grad
    wp.launch(picture, dim=PIXELS, inputs=[signal], outputs=[seen])
    wp.launch(misfit, dim=PIXELS, inputs=[seen, wanted], outputs=[loss])
tape.backward(loss)
