"""A two-link arm learns torques that bring its hand to moving targets; the next target is written too early."""

# VERDICT WRONG
import numpy as np

import tapedebug as wp

ARMS = 16
UPPER, LOWER = 1.0, 0.7


@wp.kernel
def reach(angles: wp.array(dtype=wp.vec2), gain: wp.array(dtype=float), hand: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    shoulder = gain[i] * angles[i][0]
    elbow = shoulder + gain[i] * angles[i][1]
    x = UPPER * wp.cos(shoulder) + LOWER * wp.cos(elbow)
    y = UPPER * wp.sin(shoulder) + LOWER * wp.sin(elbow)
    hand[i] = wp.vec2(x, y)


@wp.kernel
def distance(hand: wp.array(dtype=wp.vec2), target: wp.array(dtype=wp.vec2), loss: wp.array(dtype=float)):
    i = wp.tid()
    # EXPECT stale-value error: target
    wp.atomic_add(loss, 0, wp.length_sq(hand[i] - target[i]))


def on_circle(phase: float) -> np.ndarray:
    turn = phase + np.linspace(0.0, 1.0, ARMS)
    return np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)


rng = np.random.default_rng(5)
angles = wp.array(rng.uniform(0.2, 1.0, (ARMS, 2)), dtype=wp.vec2)
gain = wp.array(np.full(ARMS, 0.8), dtype=float, requires_grad=True)
hand = wp.zeros(ARMS, dtype=wp.vec2, requires_grad=True)
target = wp.array(on_circle(0.0), dtype=wp.vec2)
view = target.numpy()  # the tracking software writes new targets here

for frame in range(3):
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite="ignore")
    with tape:
        wp.launch(reach, dim=ARMS, inputs=[angles, gain], outputs=[hand])
        # CALLED stale-value
        wp.launch(distance, dim=ARMS, inputs=[hand, target], outputs=[loss])
    # DROP
    view[:] = on_circle(0.4 * (frame + 1))
    tape.backward(loss)
    # ADD: view[:] = on_circle(0.4 * (frame + 1))
    gain.assign(gain.numpy() - 0.02 * gain.grad.numpy())
    tape.zero()
