"""A cannon that pulls its balls upwards, for a sign in the physics is wrong. The gradients are right."""

# VERDICT AGREE
import numpy as np

import tapedebug as wp

BALLS = 8
STEPS = 40
DT = 0.05


@wp.struct
class Ball:
    position: wp.vec3
    velocity: wp.vec3


@wp.kernel
def fly(ball: wp.array(dtype=Ball), drag: wp.array(dtype=float), ball_next: wp.array(dtype=Ball)):
    i = wp.tid()
    state = ball[i]
    speed = wp.length(state.velocity)
    pull = wp.vec3(0.0, 9.81, 0.0) - drag[0] * speed * state.velocity
    after = Ball()
    after.velocity = state.velocity + DT * pull
    after.position = state.position + DT * after.velocity
    ball_next[i] = after


@wp.kernel
def hit(ball: wp.array(dtype=Ball), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.length_sq(ball[i].position - wp.vec3(20.0, 0.0, 0.0)))


balls = [wp.zeros(BALLS, dtype=Ball, requires_grad=True) for _ in range(STEPS + 1)]
start = balls[0].numpy()
start["velocity"] = np.stack([np.linspace(8.0, 14.0, BALLS), np.full(BALLS, 9.0), np.zeros(BALLS)], axis=1)
balls[0].assign(start)
drag = wp.array([0.02], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)

with wp.Tape() as tape:
    for step in range(STEPS):
        wp.launch(fly, dim=BALLS, inputs=[balls[step], drag], outputs=[balls[step + 1]])
    wp.launch(hit, dim=BALLS, inputs=[balls[STEPS]], outputs=[loss])
tape.backward(loss)
