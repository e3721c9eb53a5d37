"""A choir is made as loud as wanted: NumPy adds up how loud it is, and a launch is given the factor as a number."""

# VERDICT AGREE

import tapedebug as wp

SINGERS = 5


@wp.kernel
def sing(breath: wp.array(dtype=float), voice: wp.array(dtype=float), power: wp.array(dtype=float)):
    i = wp.tid()
    voice[i] = breath[i] * breath[i] + 0.3 * breath[i]
    wp.atomic_add(power, 0, voice[i])


@wp.kernel
def balance(voice: wp.array(dtype=float), factor: float, heard: wp.array(dtype=float)):
    i = wp.tid()
    heard[i] = factor * voice[i]


@wp.kernel
def balance_all(voice: wp.array(dtype=float), power: wp.array(dtype=float), heard: wp.array(dtype=float)):
    i = wp.tid()
    heard[i] = 4.0 / power[0] * voice[i]


@wp.kernel
def compare(heard: wp.array(dtype=float), wanted: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (heard[i] - wanted[i]) * (heard[i] - wanted[i]))


def zeros(count):
    return wp.zeros(count, dtype=float, requires_grad=True)


breath = wp.array([0.8, 1.3, 0.6, 1.9, 1.1], dtype=float, requires_grad=True)
wanted = wp.array([1.0, 0.9, 0.4, 1.1, 0.6], dtype=float)
voice, power, heard, loss = zeros(SINGERS), zeros(1), zeros(SINGERS), zeros(1)

tape = wp.Tape()
with tape:
    wp.launch(sing, dim=SINGERS, inputs=[breath], outputs=[voice, power])
    # EXPECT disconnected warning: power, breath
    # DROP
    loudness = float(power.numpy()[0])
    # CALLED disconnected
    # FIX: wp.launch(balance_all, dim=SINGERS, inputs=[voice, power], outputs=[heard])
    wp.launch(balance, dim=SINGERS, inputs=[voice, 4.0 / loudness], outputs=[heard])
    wp.launch(compare, dim=SINGERS, inputs=[heard, wanted], outputs=[loss])
tape.backward(loss)
print("gradient of the breath", breath.grad.numpy())
