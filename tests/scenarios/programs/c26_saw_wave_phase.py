# The pitch of a synthesiser is tuned to a recording. Its wave is the fraction of a phase.
# RUN as-warp
import numpy as np
import warp as wp

SAMPLES = 24


@wp.kernel
def play(pitch: wp.array(dtype=float), wave: wp.array(dtype=float)):
    i = wp.tid()
    phase = pitch[0] * (0.11 + float(i) * 0.17)
    # EXPECT warp-limitation error: pitch
    # FIX: wave[i] = 2.0 * (phase - wp.trunc(phase)) - 1.0
    wave[i] = 2.0 * wp.frac(phase) - 1.0


@wp.kernel
def misfit(wave: wp.array(dtype=float), heard: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    d = wave[i] - heard[i]
    wp.atomic_add(loss, 0, d * d)


heard = wp.array(np.sin(np.linspace(0.0, 9.0, SAMPLES)), dtype=float)
pitch = wp.array([1.3], dtype=float, requires_grad=True)
wave = wp.zeros(SAMPLES, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(play, dim=SAMPLES, inputs=[pitch], outputs=[wave])
    wp.launch(misfit, dim=SAMPLES, inputs=[wave, heard], outputs=[loss])
tape.backward(loss)
print("pitch", pitch.grad.numpy()[0])
