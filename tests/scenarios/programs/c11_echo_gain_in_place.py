# An echo: the gain of each channel is applied to the signal in place, and the gains are tuned.
# RUN as-warp
import numpy as np
import warp as wp

CHANNELS = 3
SAMPLES = 32


@wp.kernel
# FIX: def amplify(dry: wp.array2d(dtype=float), gain: wp.array(dtype=float), signal: wp.array2d(dtype=float)):
def amplify(gain: wp.array(dtype=float), signal: wp.array2d(dtype=float)):
    c, k = wp.tid()
    # EXPECT warp-limitation error: gain
    # FIX: signal[c, k] = dry[c, k] * gain[c]
    signal[c, k] *= gain[c]


@wp.kernel
def mix(signal: wp.array2d(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    k = wp.tid()
    s = signal[0, k] + signal[1, k] + signal[2, k]
    d = s - wanted[k]
    wp.atomic_add(loss, 0, d * d / 32.0)


time = np.linspace(0.0, 1.0, SAMPLES)
waves = np.stack([np.sin(6.3 * (c + 1) * time) for c in range(CHANNELS)])
signal = wp.array(waves, dtype=float, requires_grad=True)
gain = wp.array([0.4, 0.9, 1.3], dtype=float, requires_grad=True)
wanted = wp.array(np.sin(6.3 * time), dtype=float)
loss = wp.zeros(1, dtype=float, requires_grad=True)
# ADD: dry = wp.array(waves, dtype=float, requires_grad=True)

tape = wp.Tape()
with tape:
    # CALLED warp-limitation
    # FIX: wp.launch(amplify, dim=(CHANNELS, SAMPLES), inputs=[dry, gain], outputs=[signal])
    wp.launch(amplify, dim=(CHANNELS, SAMPLES), inputs=[gain, signal])
    wp.launch(mix, dim=SAMPLES, inputs=[signal, wanted], outputs=[loss])
tape.backward(loss)
print("loss", loss.numpy()[0], "gains", gain.grad.numpy())
