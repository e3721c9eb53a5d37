"""A train's journey in two long arrays: the struct of each step holds slices of them, which never overlap."""

import numpy as np

import tapedebug as wp

WAGONS = 8
STEPS = 7


@wp.struct
class Train:
    place: wp.array(dtype=float)
    speed: wp.array(dtype=float)


@wp.kernel
def roll(train: Train, engine: wp.array(dtype=float), step: int, after: Train):
    i = wp.tid()
    pull = float(0.0)
    if i == 0:
        pull = engine[step]
    if i > 0:
        gap = train.place[i - 1] - train.place[i] - 1.0
        pull = 4.0 * gap + 2.0 * gap * gap * gap
    if i < train.place.shape[0] - 1:
        gap = train.place[i] - train.place[i + 1] - 1.0
        pull = pull - 4.0 * gap - 2.0 * gap * gap * gap
    after.speed[i] = train.speed[i] + 0.1 * (pull - 0.2 * train.speed[i] * train.speed[i])
    after.place[i] = train.place[i] + 0.1 * after.speed[i]


@wp.kernel
def lateness(train: Train, timetable: float, loss: wp.array(dtype=float)):
    i = wp.tid()
    error = train.place[i] + float(i) - timetable
    wp.atomic_add(loss, 0, error * error)


places = wp.zeros((STEPS + 1, WAGONS), dtype=float, requires_grad=True)
speeds = wp.zeros((STEPS + 1, WAGONS), dtype=float, requires_grad=True)
places[0].assign(-1.05 * np.arange(WAGONS, dtype=np.float32))
engine = wp.array(np.linspace(2.0, 0.5, STEPS), dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
inputs = [engine]


def train_at(step):
    train = Train()
    train.place, train.speed = places[step], speeds[step]
    return train


with wp.Tape(on_overwrite="ignore") as tape:
    for step in range(STEPS):
        wp.launch(roll, dim=WAGONS, inputs=[train_at(step), engine, step], outputs=[train_at(step + 1)])
    wp.launch(lateness, dim=WAGONS, inputs=[train_at(STEPS), 0.7], outputs=[loss])
tape.backward(loss)
