"""Tune a choir: one voice is silent and its root has no slope; behind that the sum is differentiated."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

VOICES = 25


@wp.kernel
def loudness(tone: wp.array(dtype=float), gain: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    # FIX: out[i] = gain[i] * wp.sqrt(tone[i] * tone[i] + 1.0e-6)
    # EXPECT nonfinite error
    out[i] = gain[i] * wp.sqrt(tone[i] * tone[i])


@wp.kernel
def add_up(out: wp.array(dtype=float), total: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(total, 0, (out[i] - 0.5) * (out[i] - 0.5))


@wp.kernel
def divide(total: wp.array(dtype=float), mean: wp.array(dtype=float)):
    mean[0] = total[0] / float(VOICES)


tones = np.linspace(-1.0, 1.4, VOICES)
tones[10] = 0.0
tone = wp.array(tones, dtype=float, requires_grad=True)
gain = wp.array(np.linspace(0.5, 1.0, VOICES), dtype=float, requires_grad=True)
out = wp.zeros(VOICES, dtype=float, requires_grad=True)
total = wp.zeros(1, dtype=float, requires_grad=True)
mean = wp.zeros(1, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED nonfinite
    wp.launch(loudness, dim=VOICES, inputs=[tone, gain], outputs=[out])
    wp.launch(add_up, dim=VOICES, inputs=[out], outputs=[total])
    # CALLED seed
    wp.launch(divide, dim=1, inputs=[total], outputs=[mean])
# EXPECT seed warning: total, mean
# FIX: tape.backward(mean)
tape.backward(total)
print("mean", mean.numpy()[0])
