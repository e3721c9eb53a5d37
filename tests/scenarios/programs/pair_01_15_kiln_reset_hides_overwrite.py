"""A kiln's schedule: the loss is reset on the tape, and behind that zero a scratch array is written over."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

ZONES = 10
STEPS = 7


@wp.kernel
def radiate(
    t: wp.array(dtype=float), burner: wp.array2d(dtype=float), step: int, flux: wp.array(dtype=float)
):
    i = wp.tid()
    # EXPECT overwrite error: flux
    flux[i] = burner[step, i] - 0.1 * t[i] * t[i] * t[i] * t[i]


@wp.kernel
def warm(t: wp.array(dtype=float), flux: wp.array(dtype=float), t_next: wp.array(dtype=float)):
    i = wp.tid()
    t_next[i] = t[i] + 0.1 * flux[i] / (1.0 + 0.2 * flux[i] * flux[i])


@wp.kernel
def miss(t: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (t[i] - 1.3) * (t[i] - 1.3))


def zones(values=None):
    values = np.zeros(ZONES) if values is None else values
    return wp.array(values, dtype=float, requires_grad=True)


schedule = 1.0 + 0.4 * np.sin(np.arange(STEPS * ZONES).reshape(STEPS, ZONES))
burner = wp.array(schedule.astype(np.float32), dtype=float, requires_grad=True)
t, flux = zones(np.linspace(0.4, 0.9, ZONES)), zones()
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [burner]

tape = wp.Tape(on_overwrite="ignore")
with tape:
    for step in range(STEPS):
        # FIX: t_next, flux = zones(), zones()
        t_next = zones()
        # CALLED overwrite
        wp.launch(radiate, dim=ZONES, inputs=[t, burner, step], outputs=[flux])
        wp.launch(warm, dim=ZONES, inputs=[t, flux], outputs=[t_next])
        t = t_next
    wp.launch(miss, dim=ZONES, inputs=[t], outputs=[loss])
    print("loss", loss.numpy()[0])
    # EXPECT after-loss error: loss
    # CALLED after-loss
    # DROP
    loss.zero_()
tape.backward(loss)
