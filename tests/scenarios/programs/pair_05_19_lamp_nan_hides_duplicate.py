"""Light a stage: one lamp stands on the spot that it lights, and another term is counted twice."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

LAMPS = 6
SPOTS = 18


@wp.kernel
def light(
    lamp: wp.array(dtype=wp.vec2),
    power: wp.array(dtype=float),
    spot: wp.array(dtype=wp.vec2),
    out: wp.array(dtype=float),
):
    i = wp.tid()
    total = float(0.0)
    for k in range(LAMPS):
        d = lamp[k] - spot[i]
        # FIX: total += power[k] / (1.0 + wp.sqrt(wp.dot(d, d) + 1.0e-6))
        # EXPECT nonfinite error
        total += power[k] / (1.0 + wp.sqrt(wp.dot(d, d)))
    out[i] = total


@wp.kernel
def uneven(bright: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (bright[i] - 1.0) * (bright[i] - 1.0))


@wp.kernel
def spacing(lamp: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    k = wp.tid()
    # EXPECT duplicate-launch warning: loss
    wp.atomic_add(loss, 0, 0.1 * wp.length_sq(lamp[k]))


lamps = np.stack([np.linspace(-1.0, 1.0, LAMPS), np.full(LAMPS, 0.5)], axis=1)
spots = np.stack([np.linspace(-1.2, 1.2, SPOTS), np.zeros(SPOTS)], axis=1)
spots[4] = lamps[1]
lamp = wp.array(lamps.astype(np.float32), dtype=wp.vec2, requires_grad=True)
spot = wp.array(spots.astype(np.float32), dtype=wp.vec2)
power = wp.array(np.linspace(0.2, 0.6, LAMPS), dtype=float, requires_grad=True)
bright = wp.zeros(SPOTS, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED nonfinite
    wp.launch(light, dim=SPOTS, inputs=[lamp, power, spot], outputs=[bright])
    wp.launch(spacing, dim=LAMPS, inputs=[lamp], outputs=[loss])
    wp.launch(uneven, dim=SPOTS, inputs=[bright], outputs=[loss])
    # CALLED duplicate-launch
    # DROP
    wp.launch(spacing, dim=LAMPS, inputs=[lamp], outputs=[loss])
tape.backward(loss)
