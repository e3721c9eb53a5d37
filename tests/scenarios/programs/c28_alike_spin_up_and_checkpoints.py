"""A spin-up whose state has no gradient; then windows recorded twice, first for checkpoints, and reversed."""

# VERDICT NOT CHECKED

import tapedebug as wp

WALKERS, WINDOWS = 5, 3


@wp.kernel
def wander(x: wp.array(dtype=float), pull: wp.array(dtype=float), x_next: wp.array(dtype=float)):
    i = wp.tid()
    x_next[i] = x[i] - pull[0] * wp.sin(x[i]) + 0.1 * float(i)


@wp.kernel
def spread(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])


def window(x, last):
    x_next = wp.zeros(WALKERS, dtype=float, requires_grad=True)
    with wp.Tape() as recorded:
        wp.launch(wander, dim=WALKERS, inputs=[x, pull], outputs=[x_next])
        if last:
            wp.launch(spread, dim=WALKERS, inputs=[x_next], outputs=[cost])
    return recorded, x_next


pull = wp.array([0.3], dtype=float, requires_grad=True)
cost = wp.zeros(1, dtype=float, requires_grad=True)

start = wp.array([0.2, 0.5, 0.9, 1.3, 1.7], dtype=float, requires_grad=True)
spin_up, warm = window(start, last=False)
state = wp.clone(warm, requires_grad=False)

checkpoints, tapes = [state], [spin_up]
for _ in range(WINDOWS - 1):
    tape, state = window(wp.clone(state, requires_grad=True), last=False)
    checkpoints.append(state)
    tapes.append(tape)

adjoint = None
for number in reversed(range(WINDOWS)):
    begin = wp.clone(checkpoints[number], requires_grad=True)
    tape, end = window(begin, last=number == WINDOWS - 1)
    if adjoint is None:
        tape.backward(cost)
    else:
        tape.backward(grads={end: adjoint})
    adjoint = wp.clone(begin.grad)
    tapes.append(tape)
