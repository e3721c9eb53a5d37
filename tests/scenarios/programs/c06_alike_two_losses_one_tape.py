"""Two losses of one tape add to the same gradient; then the sum is used, and printed before and after."""

import tapedebug as wp

N = 20


@wp.kernel
def shape(control: wp.array(dtype=float), wing: wp.array(dtype=float)):
    i = wp.tid()
    s = float(i) / float(N - 1)
    wing[i] = control[0] * s + control[1] * s * s + control[2] * wp.sin(3.0 * s)


@wp.kernel
def drag(wing: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wing[i] * wing[i])


@wp.kernel
def lift_gap(wing: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, (0.5 - wing[i]) * (0.5 - wing[i]) / float(N))


control = wp.array([0.1, 0.2, 0.3], dtype=float, requires_grad=True)
wing = wp.zeros(N, dtype=float, requires_grad=True)
print("before:", control.grad.numpy())

for _ in range(3):
    first = wp.zeros(1, dtype=float, requires_grad=True)
    second = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(shape, dim=N, inputs=[control], outputs=[wing])
        wp.launch(drag, dim=N, inputs=[wing], outputs=[first])
        wp.launch(lift_gap, dim=N, inputs=[wing], outputs=[second])
    print("still zero:", control.grad.numpy())
    tape.backward(first)
    print("drag alone:", control.grad.numpy())
    tape.backward(second)
    control.assign(control.numpy() - 0.01 * control.grad.numpy())
    tape.zero()
    assert not control.grad.numpy().any()
